"""A run made with the oldest versions that are supported is read, judged and resumed."""

import importlib.metadata
import zipfile
from pathlib import Path

import numpy as np
import pytest

import bayesnn_ppl as bnn

# HMC on 20 rows and two features of diabetes, 20 draws of 20: jax 0.11.0, numpyro 0.22.0, flax
# 0.12.7, zarr 3.1.0, xarray 2025.6.0, numpy 2.2.0, Python 3.12, by `RUN` below.
OLDEST = Path(__file__).with_name("oldest-versions.zip")
MODEL = bnn.models.mlp(hidden=(2,))
KERNEL = bnn.kernels.HMC(MODEL, num_leapfrogs=4)
RUN = {"warmup": 20, "draws": 20, "chains": 2, "seed": 0, "progress": False}


@pytest.fixture
def old_run(tmp_path):
    with zipfile.ZipFile(OLDEST) as archive:
        archive.extractall(tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="module")
def data():
    train = bnn.data.load("diabetes").train[:20]
    return train.x[:, :2], train.y


def test_it_is_read_and_judged(old_run, data):
    posterior = bnn.load(old_run, MODEL)
    assert posterior.provenance["versions"]["jax"] == "0.11.0"
    assert bnn.storage.check(old_run) == []
    assert posterior.is_trained_on(*data)
    assert posterior.diagnose().status == "not converged"
    # As the versions that drew it predicted.
    np.testing.assert_allclose(
        posterior.predict(data[0][:2]).mean, [141.89565857, 153.61228643], rtol=1e-4
    )


def test_it_resumes_and_says_that_versions_have_changed(old_run, data):
    before = bnn.load(old_run).draws["noise_scale"]
    with pytest.warns(UserWarning, match=r"begun with .*jax 0\.11\.0 .*is resumed with"):
        posterior = bnn.extend(old_run, KERNEL, *data, draws=10, progress=False)
    assert posterior.provenance["draws"] == 30
    np.testing.assert_array_equal(posterior.draws["noise_scale"][:, :20], before)
    (later,) = posterior.provenance["versions_later"]
    assert later["jax"] == importlib.metadata.version("jax")
    page = bnn.report.page(posterior).html
    assert f"0.11.0, then {later['jax']}" in page
