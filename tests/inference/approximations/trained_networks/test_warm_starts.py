"""`init=Ensemble(...)`: chains start where members were trained, and the run says so."""

import numpy as np
import pytest

import bayesnn_ppl as bnn
from tests.marks import checked

Ensemble = bnn.approximations.Ensemble
SETTINGS = dict(warmup=20, draws=20, chains=2, seed=0, progress=False)


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(120, 2)).astype(np.float32)
    return x, (x @ np.array([1.0, -2.0]) + 0.1 * generator.normal(size=120)).astype(np.float32)


def kernel():
    return bnn.kernels.HMC(bnn.models.linear(), num_leapfrogs=3)


def ensemble():
    return Ensemble(learning_rate=0.05, epochs=40, batch_size=30)


@pytest.mark.parametrize("on_disk", checked([True, False]))
def test_chains_start_at_the_members(data, tmp_path, on_disk):
    out = tmp_path / "run" if on_disk else None
    posterior = bnn.sample(
        kernel(), *data, init=ensemble(), keep=bnn.Keep(probe=data), out=out, **SETTINGS
    )
    members = ensemble().starts(bnn.models.linear(), *data, chains=2, seed=0, progress=False)
    for site, values in members.values.items():
        starts = posterior.tree["starts"][site.replace("/", ".")].values
        np.testing.assert_allclose(starts, values, rtol=1e-5, atol=1e-6)
    record = posterior.provenance["start"]
    assert record["method"] == "Ensemble" and len(record["best_losses"]) == 2
    starts = posterior.diagnose().starts
    expected = bnn.diagnostics.dispersion_of_starts(
        posterior.tree["starts_functions"]["mean"].values,
        posterior.function_values()["mean"],
    )
    assert starts["median"] == pytest.approx(expected.median)
    assert starts["status"] == expected.status != "not judged"
    assert "the variance between the 2 starts is" in starts["sentence"]
    with_model = bnn.Posterior(posterior.tree, bnn.models.linear()).diagnose(data[0])
    assert with_model.starts["median"] == pytest.approx(starts["median"], rel=1e-3)
    posterior.save(tmp_path / "copy")
    assert bnn.load(tmp_path / "copy").diagnose().starts == starts


def test_prior_draws_are_overdispersed(data):
    posterior = bnn.sample(kernel(), *data, keep=bnn.Keep(probe=data), **SETTINGS | {"warmup": 100})
    assert posterior.diagnose().starts["status"] == "overdispersed"
    assert posterior.provenance["start"] == "drawn"


@pytest.mark.check
def test_a_warm_started_run_resumes_without_training_again(data, tmp_path, monkeypatch):
    whole = bnn.sample(kernel(), *data, init=ensemble(), **SETTINGS)
    bnn.sample(kernel(), *data, init=ensemble(), out=tmp_path / "run", **SETTINGS | {"draws": 7})
    monkeypatch.setattr(Ensemble, "starts", None)
    more = bnn.extend(tmp_path / "run", kernel(), *data, draws=13, progress=False)
    for name, array in whole.draws.items():
        np.testing.assert_array_equal(array, more.draws[name])
    assert more.provenance["start"]["method"] == "Ensemble"


def test_members_must_be_as_many_as_chains(data):
    with pytest.raises(ValueError, match="5 members, but the run has 2 chains"):
        bnn.sample(kernel(), *data, init=Ensemble(members=5), **SETTINGS)


def test_a_run_killed_in_its_training_does_not_resume_from_elsewhere(data, tmp_path, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Ensemble, "starts", killed)
    with pytest.raises(KeyboardInterrupt):
        bnn.sample(kernel(), *data, init=ensemble(), out=tmp_path / "run", **SETTINGS)
    with pytest.raises(ValueError, match="killed before its first commit"):
        bnn.resume(tmp_path / "run", kernel(), *data, progress=False)
