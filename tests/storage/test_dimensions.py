"""Names and coordinates of axes, of this version's runs and of older ones; groups made of draws."""

import json

import numpy as np
import pytest
import xarray as xr

from bayesnn_ppl import storage
from bayesnn_ppl.storage import RunFolder, dimension_names

KERNEL, BIAS = "net.Dense_0.kernel", "net.Dense_0.bias"
SPACE = ("height", "width", "in", "out")


@pytest.mark.parametrize(
    ("name", "ndim", "expected"),
    [
        (KERNEL, 4, (f"{KERNEL}_in", f"{KERNEL}_out")),
        (BIAS, 3, (f"{BIAS}_out",)),
        ("net.LayerNorm_0.scale", 3, ("net.LayerNorm_0.scale_out",)),
        ("net.Embed_0.embedding", 4, ("net.Embed_0.embedding_in", "net.Embed_0.embedding_out")),
        (f"{KERNEL}.scale", 4, (f"{KERNEL}.scale_in", f"{KERNEL}.scale_out")),
        ("net.Conv_0.kernel", 6, tuple("net.Conv_0.kernel_" + k for k in SPACE)),
        ("net.Conv_0.kernel", 5, tuple("net.Conv_0.kernel_" + k for k in SPACE[1:])),
        ("net.query.kernel", 5, tuple(f"net.query.kernel_dim_{i}" for i in range(3))),
        ("w", 4, ("w_dim_0", "w_dim_1")),
        ("kernel", 4, ("kernel_dim_0", "kernel_dim_1")),
        ("noise_scale", 2, ()),
    ],
)
def test_axes_have_helpful_names(name, ndim, expected):
    assert dimension_names(name, ndim) == ("chain", "draw", *expected)


def test_function_values_have_rows():
    names = dimension_names("probability", 4, "predictions")
    assert names == ("chain", "draw", "row", "class")
    assert dimension_names("y", 4, "posterior_predictive")[2:] == ("row", "y_dim_0")
    assert dimension_names("x", 2, storage.PROBE, ()) == ("row", "x_dim_0")


def test_a_site_with_the_name_of_an_axis_is_refused():
    with pytest.raises(ValueError, match="the name of a dimension"):
        storage.variable_names(["net/Dense_0.kernel", "net/Dense_0.kernel_in"])
    # Such names are plausible, and are not axes.
    storage.variable_names(["scale", "scale_in", "bias", "bias_out"])


def block(begin, end):
    numbers = np.arange(begin, end, dtype=np.float32)
    rows = np.broadcast_to(numbers[None, :, None], (2, end - begin, 5))
    return {
        "posterior": {
            KERNEL: np.broadcast_to(numbers[None, :, None, None], (2, end - begin, 3, 1)).copy(),
            BIAS: np.broadcast_to(numbers[None, :, None], (2, end - begin, 1)).copy(),
        },
        "sample_stats": {"lp": np.stack([numbers, -numbers])},
        "predictions": {"mean": rows.copy(), "log_likelihood": rows.copy()},
    }


def stored(path, *, finished=True):
    config = {"site_names": {KERNEL: "net/Dense_0.kernel", BIAS: "net/Dense_0.bias"}}
    run = RunFolder.create(path, config)
    run.append(block(0, 20))
    run.commit(None, phase="sample", done=20, complete=finished)
    return run


def check_names(tree):
    posterior = tree["posterior"]
    assert posterior[KERNEL].dims == ("chain", "draw", f"{KERNEL}_in", f"{KERNEL}_out")
    assert posterior[BIAS].dims == ("chain", "draw", f"{BIAS}_out")
    assert posterior[f"{KERNEL}_in"].values.tolist() == [0, 1, 2]
    assert posterior[f"{KERNEL}_out"].values.tolist() == [0]
    assert tree["predictions"]["mean"].dims == ("chain", "draw", "row")
    assert tree["predictions"]["row"].values.tolist() == [0, 1, 2, 3, 4]
    assert tree["posterior"][KERNEL].values[0, :, 0, 0].tolist() == list(range(20))


@pytest.mark.parametrize("finished", [True, False])
def test_every_axis_has_coordinates(tmp_path, finished):
    path = tmp_path / "run"
    stored(path, finished=finished).release()
    tree = storage.read(path)
    check_names(tree)
    assert list(tree["posterior"].data_vars) == [KERNEL, BIAS], "in the model's order"
    assert storage.check(path) == []
    if finished:
        check_names(
            xr.open_datatree(path / "posterior.zarr", engine="zarr", consolidated=False),
        )


def log_likelihood(draws=20):
    known = {"chain": [0, 1], "draw": np.arange(draws), "row": [0, 1, 2]}
    values = np.zeros((2, draws, 3), np.float32)
    y = xr.Dataset({"y": (("chain", "draw", "row"), values)}, known, {"note": "of a test"})
    return {"log_likelihood": y, "observed_data": xr.Dataset({"y": ("row", np.zeros(3))})}


def test_groups_made_of_the_draws_are_kept_until_there_are_more(tmp_path):
    path = tmp_path / "run"
    run = stored(path)
    run.keep_groups(log_likelihood())
    tree = storage.read(path)
    assert tree["log_likelihood"].attrs["note"] == "of a test"
    np.testing.assert_array_equal(tree["log_likelihood"]["y"], np.zeros((2, 20, 3)))
    assert storage.check(path) == [] and tree["observed_data"]["y"].dims == ("row",)
    copied = storage.write(tree, tmp_path / "copy")
    assert "log_likelihood" in storage.read(copied).children
    assert storage.read(path, thin=2)["log_likelihood"].sizes["draw"] == 10
    run.append(block(20, 21))
    run.commit(None, phase="sample", done=21)
    run.release()
    assert "log_likelihood" not in storage.read(path).children
    assert not (path / "posterior.zarr" / "log_likelihood").exists()


def test_a_damaged_group_is_told_and_repair_removes_it(tmp_path):
    path = tmp_path / "run"
    run = stored(path)
    run.keep_groups(log_likelihood())
    run.release()
    chunk = path / "posterior.zarr" / "log_likelihood" / "y" / "c" / "0" / "0" / "0"
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "A group made from the draws is damaged" in storage.check(path)[0]
    chunk.unlink()
    with pytest.raises(ValueError, match=r"`log_likelihood/y` .*is missing\. The draws are not"):
        storage.read(path)
    assert storage.repair(path) == 20
    assert "log_likelihood" not in storage.read(path).children and storage.check(path) == []


def test_a_config_names_no_other_folder_as_a_group(tmp_path):
    path = tmp_path / "run"
    stored(path).release()
    config = json.loads((path / "config.json").read_text())
    for groups in (["../../elsewhere"], ["posterior"], [3]):
        derived = {"groups": groups, "draws": 20}
        (path / "config.json").write_text(json.dumps(config | {"derived": derived}))
        with pytest.raises(ValueError, match="damaged"):
            storage.read(path)
    for derived in (3, {"groups": "x"}, {"draws": 20}, {"groups": 3, "draws": 20}):
        (path / "config.json").write_text(json.dumps(config | {"derived": derived}))
        with pytest.raises(ValueError, match="damaged"):
            storage.read(path)
