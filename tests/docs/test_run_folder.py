"""The page of the run folder names the keys, files and arrays that a run and a fit have."""

import csv
import json
import re

import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.storage import GROUPS
from tests.docs.reading import ROOT

PAGE = (ROOT / "docs" / "reference" / "run_folder.md").read_text()


def section(title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)[
        1
    ]


def first_cells(title):
    """The words in backticks of the first column of the tables of a section."""
    cells = re.findall(r"^\| ([^|]+) \|", section(title), re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of a complete run with a probe, of one that ended early, and of a fit."""
    root, data = tmp_path_factory.mktemp("runs"), bnn.data.load("diabetes")
    model = bnn.models.linear()
    kernel = bnn.kernels.HMC(model, num_leapfrogs=2)
    how = {"warmup": 2, "chains": 2, "progress": False, "keep": bnn.Keep(probe=data.test)}
    bnn.sample(kernel, *data.train, draws=4, out=root / "run", **how)
    bnn.sample(
        kernel,
        *data.train,
        draws=100_000,
        out=root / "ended",
        callback=lambda progress: progress.phase == "sample",
        **how,
    )
    bnn.fit(bnn.approximations.MAP(model, epochs=2), *data.train, out=root / "fit", progress=False)
    return root


def read(file):
    return json.loads(file.read_text())


def test_the_entries_of_config_and_commit(runs):
    run, fit = (read(runs / name / "config.json") for name in ("run", "fit"))
    assert first_cells("config.json") == set(run) | set(fit)
    assert set(run) - set(fit) == {
        "accept_step", "chain_method", "processes", "stopped_chains", "probe", "starts"
    }  # fmt: skip
    assert set(fit) - set(run) == {"approximation"}
    for name in ("run", "ended", "fit"):
        assert first_cells("commit.json") == set(read(runs / name / "commit.json"))
    (entry,) = read(runs / "ended" / "commit.json")["journal"]
    assert all(f'"{key}"' in section("commit.json") for key in entry)


def test_the_files(runs):
    named = first_cells("Who writes what, and when")
    for name in ("run", "ended", "fit"):
        found = {
            f.name + "/" * (f.name in ("journal", "checkpoint")) for f in (runs / name).iterdir()
        }
        assert {f"{f}/" if f in ("journal", "checkpoint") else f for f in found} <= named
    assert {"probe.npz", "starts.npz", "lock"} <= {f.name for f in (runs / "run").iterdir()}


def test_the_groups_the_statistics_and_the_columns(runs):
    groups = first_cells("posterior.zarr")
    tree = bnn.load(runs / "run").tree
    stored = {f.name for f in (runs / "run" / "posterior.zarr").iterdir() if f.is_dir()}
    assert stored <= groups and set(GROUPS) <= groups
    told = set(re.findall(r"`(\w+)`", section("posterior.zarr")))
    assert set(tree["sample_stats"].data_vars) | set(tree["predictions"].data_vars) <= told
    columns = set(re.findall(r"`(\w+)`", section("metrics.csv")))
    for name in ("run", "fit"):
        with (runs / name / "metrics.csv").open(newline="") as file:
            assert set(csv.DictReader(file).fieldnames) <= columns
