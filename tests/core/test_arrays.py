"""Inputs and targets as they are checked, and what is copied of them."""

import hashlib

import numpy as np
import pandas as pd
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.core import arrays
from bayesnn_ppl.core.arrays import check_array, data_hash, same_index


@pytest.mark.parametrize("call", ["sample", "fit", "evaluate", "compare"])
def test_frames_of_other_indexes_are_refused(call):
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["a", "b"])
    y = x["a"].sample(frac=1.0, random_state=0)
    model = bnn.models.linear()
    calls = {
        "sample": lambda: bnn.sample(
            bnn.kernels.HMC(model, num_leapfrogs=3), x, y, warmup=5, draws=5
        ),
        "fit": lambda: bnn.fit(bnn.approximations.MAP(model), x, y),
        "evaluate": lambda: bnn.metrics.evaluate(None, x, y),
        "compare": lambda: bnn.metrics.compare({"a": None, "b": None}, x, y),
    }
    with pytest.raises(ValueError, match="`y` has another index than the frame `x`"):
        calls[call]()


def test_one_index_or_none_is_right():
    x = pd.DataFrame({"a": [1.0, 2.0]}, index=[3, 4])
    for y in (x["a"], [1.0, 2.0], np.ones(2), x["a"].to_numpy()):
        assert same_index(x, y) is None
        assert same_index(np.ones((2, 1)), y) is None


@pytest.fixture
def mapped(tmp_path):
    """100 rows on disk."""
    values = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", values)
    return np.load(tmp_path / "x.npy", mmap_mode="r")


def test_an_array_is_copied_and_what_is_on_disk_stays_there(mapped):
    held = np.array(mapped)
    found = check_array(held, "x", float64=False)
    held[:] = 0
    np.testing.assert_array_equal(found, mapped)
    found = check_array(mapped, "x", float64=False)
    assert np.shares_memory(found, mapped)
    assert not np.shares_memory(check_array(mapped, "x", float64=True), mapped)


@pytest.mark.parametrize("block", [1, 7, 2**20])
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (np.nan, "2 values that are not finite; the first is x[41, 2] = nan"),
        (1e300, "2 values that are too large for single precision; the first is x[41, 2] = 1e+300"),
        (2**40, "2 values that do not fit 32 bits; the first is x[41, 2] = 1099511627776"),
    ],
)
def test_bad_values_are_counted_and_placed_over_blocks(monkeypatch, block, value, sentence):
    monkeypatch.setattr(arrays, "_BLOCK", block)
    x = np.zeros((100, 3), np.int64 if isinstance(value, int) else np.float64)
    assert check_array(x, "x", float64=False).shape == (100, 3)
    x[41, 2] = x[97, 0] = value
    with pytest.raises(ValueError) as error:
        check_array(x, "x", float64=False)
    assert sentence in str(error.value)


def test_the_hash_is_of_shapes_types_and_bytes(mapped):
    y = np.arange(100, dtype=np.int32)
    digest = hashlib.sha256()
    for array in (mapped, y):
        digest.update(f"{array.shape}{array.dtype}".encode() + array.tobytes())
    assert data_hash(mapped, y) == data_hash(np.array(mapped), y) == digest.hexdigest()
    transposed = np.asfortranarray(mapped)
    assert data_hash(transposed, y) == digest.hexdigest()
    assert data_hash(mapped, y.astype(np.int64)) != digest.hexdigest()
    assert data_hash(np.zeros(3, bool), y) != data_hash(np.ones(3, bool), y)


@pytest.fixture(scope="module")
def of_frame():
    """A fit to a frame of columns a and b."""
    x = pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [1.0, 1.0, 0.0]})
    return bnn.fit(bnn.approximations.MAP(bnn.models.linear()), x, np.arange(3.0), progress=False)


@pytest.mark.parametrize(
    "call",
    [
        lambda posterior, x: posterior.predict(x),
        lambda posterior, x: posterior.function_values(x),
        lambda posterior, x: posterior.with_groups("functions", x=x),
        lambda posterior, x: posterior.export("unwritten", x),
    ],
)
def test_columns_in_another_order_are_refused(of_frame, call):
    x = pd.DataFrame({"b": [1.0, 0.5], "a": [0.0, 3.0]})
    with pytest.raises(ValueError, match="Column 0 is `b` in `x`, and `a` in the training inputs"):
        call(of_frame, x)


def test_columns_that_are_not_those_of_training(of_frame):
    x = pd.DataFrame({"a": [0.0], "b": [1.0]})
    assert of_frame.provenance["input_columns"] == ["a", "b"]
    with pytest.raises(ValueError, match="Column 2 is `c` in `x`, and missing in the training"):
        of_frame.predict(x.assign(c=2.0))
    with pytest.raises(ValueError, match="Column 1 is missing in `x`, and `b` in the training"):
        of_frame.predict(x[["a"]])
    nameless = x.to_numpy()
    np.testing.assert_array_equal(of_frame.predict(x).mean, of_frame.predict(nameless).mean)


def test_probe_columns_in_another_order_are_refused():
    x = pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [1.0, 1.0, 0.0]})
    keep = bnn.Keep(probe=x[["b", "a"]])
    kernel = bnn.kernels.HMC(bnn.models.linear(), num_leapfrogs=3)
    with pytest.raises(ValueError, match="Column 0 is `b` in `the probe inputs`, and `a`"):
        bnn.sample(kernel, x, np.arange(3.0), warmup=5, draws=5, keep=keep)


def test_a_frame_of_numbers_and_booleans_is_an_array_of_numbers():
    frame = pd.DataFrame({"dose": [0.5, 1.5], "smokes": [True, False]})
    found = check_array(frame, "x", float64=False)
    np.testing.assert_array_equal(found, np.array([[0.5, 1.0], [1.5, 0.0]], np.float32))
    days = frame.assign(state=["ill", "well"], seen=pd.to_datetime(["2020-01-01", "2020-01-02"]))
    with pytest.raises(TypeError, match=r"columns do not: `state` \(.*\), `seen` \(datetime64"):
        check_array(days, "x", float64=False)
