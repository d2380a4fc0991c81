"""`fit`: what every approximation has in common."""

import json

import numpy as np
import optax
import pytest
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.training.trainer import cosine

network = bnn.models.mlp(hidden=(5,))
QUICK = {"epochs": 20, "learning_rate": 0.02}


@pytest.fixture(scope="module")
def members(regression):
    approximation = bnn.approximations.Ensemble(network, members=3, **QUICK)
    return bnn.fit(approximation, *regression, seed=3, progress=False)


def test_members_are_chains_of_one_draw(members, regression):
    x, y = regression
    assert members.draws["net.Dense_0.kernel"].shape == (3, 1, x.shape[1], 5)
    assert members.draws["noise_scale"].min() > 0
    assert members.predict(x[:7]).mean.shape == (7,)
    assert members.log_likelihood(x[:7], y[:7]).shape == (3, 1, 7)
    kernel = members.draws["net.Dense_0.kernel"].reshape(3, -1)
    assert min(np.abs(kernel[i] - kernel[j]).max() for i in range(3) for j in range(i)) > 0.1


def test_a_fit_is_repeated_by_its_seed_and_members_keep_theirs(members, regression):
    more = bnn.approximations.Ensemble(network, members=4, **QUICK)
    again = bnn.fit(more, *regression, seed=3, progress=False)
    for name, array in members.draws.items():
        np.testing.assert_allclose(again.draws[name][:3], array, rtol=1e-5, atol=1e-6)


def test_the_provenance_says_how_and_is_json(members):
    run = json.loads(json.dumps(members.provenance))
    assert run["kernel"] == "Ensemble" and run["chains"] == 3 and run["draws"] == 1
    assert run["kernel_settings"]["learning_rate"] == 0.02
    assert len(run["approximation"]["best_losses"]) == 3
    assert len(run["approximation"]["losses"]) == 3
    assert "Ensemble" in repr(members)


def test_a_fit_on_disk_opens_and_is_the_same(members, regression, tmp_path):
    x, y = regression
    approximation = bnn.approximations.Ensemble(network, members=3, **QUICK)
    keep = bnn.Keep(probe=(x[:5], y[:5]))
    stored = bnn.fit(approximation, x, y, seed=3, progress=False, out=tmp_path / "run", keep=keep)
    opened = bnn.load(tmp_path / "run")
    for name, array in members.draws.items():
        np.testing.assert_allclose(opened.draws[name], array, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        opened.predict().mean, members.predict(x[:5]).mean, rtol=1e-4, atol=1e-5
    )
    assert opened.diagnose().verdict == stored.diagnose().verdict
    assert opened.provenance["approximation"] == stored.provenance["approximation"]
    assert bnn.load(tmp_path / "run", network).predict(x).mean.shape == y.shape
    with pytest.raises(FileExistsError):
        bnn.fit(approximation, x, y, progress=False, out=tmp_path / "run")


def test_the_map_of_a_linear_model_is_its_conjugate_mean(regression):
    """With the noise known, the posterior is normal and its mode the ridge estimate."""
    x, y = regression
    model = bnn.models.linear(
        prior=bnn.priors.normal(0.7), likelihood=bnn.likelihoods.gaussian(scale=0.5)
    )
    approximation = bnn.approximations.MAP(
        model, optimiser=optax.lbfgs(), schedule=None, batch_size=None, epochs=60
    )
    fitted = bnn.fit(approximation, x, y, float64=True, progress=False)
    design = np.column_stack([x, np.ones(len(x))])
    exact = np.linalg.solve(
        design.T @ design / 0.5**2 + np.eye(design.shape[1]) / 0.7**2, design.T @ y / 0.5**2
    )
    found = np.concatenate([a.ravel() for n, a in sorted(fitted.draws.items(), reverse=True)])
    np.testing.assert_allclose(found, exact, atol=1e-6)
    unregularised = np.linalg.lstsq(design, y, rcond=None)[0]
    assert np.abs(unregularised - exact).max() > 1e-4  # the prior counts
    assert fitted.diagnose().status == "fitted"


def test_a_training_that_is_too_short_says_so(regression):
    short = bnn.approximations.MAP(network, epochs=5, learning_rate=1e-3, schedule=None)
    found = bnn.fit(short, *regression, progress=False).diagnose()
    assert found.status == "doubtful" and "still falling" in found.verdict
    long = bnn.approximations.MAP(network, epochs=1500, learning_rate=0.01)
    assert "still falling" not in bnn.fit(long, *regression, progress=False).diagnose().verdict


def test_a_member_that_fails_is_named(regression):
    wild = bnn.approximations.Ensemble(
        network, members=2, optimiser=optax.sgd(1e30), epochs=5, retries=0
    )
    found = bnn.fit(wild, *regression, progress=False).diagnose()
    assert found.status == "not converged" and "[0, 1]" in found.verdict
    assert json.loads(found.to_json())["status"] == "not converged"


@pytest.fixture
def stopped_at(regression):
    """A function that trains in a folder and stops after so many epochs."""

    def stop(approximation, folder, epochs):
        return bnn.fit(
            approximation,
            *regression,
            seed=3,
            progress=False,
            out=folder,
            callback=lambda progress: progress.done >= epochs,
        )

    return stop


def test_a_training_resumes_bit_for_bit(regression, tmp_path, stopped_at):
    approximation = bnn.approximations.Ensemble(
        network, members=3, epochs=300, learning_rate=0.02, patience=None, validation_fraction=0.0
    )
    whole = bnn.fit(approximation, *regression, seed=3, progress=False)
    stopped = stopped_at(approximation, tmp_path / "run", 50)
    assert stopped.provenance["interrupted"]
    assert (stopped.draws["noise_scale"] != whole.draws["noise_scale"]).any()
    resumed = bnn.resume(tmp_path / "run", approximation, *regression, progress=False)
    for name, array in whole.draws.items():
        np.testing.assert_array_equal(resumed.draws[name], array)
    assert (
        resumed.provenance["approximation"]["losses"] == whole.provenance["approximation"]["losses"]
    )
    again = bnn.resume(tmp_path / "run", approximation, *regression, progress=False)
    np.testing.assert_array_equal(again.draws["noise_scale"], whole.draws["noise_scale"])


def test_what_is_not_of_the_run_is_refused(regression, tmp_path, stopped_at):
    x, y = regression
    approximation = bnn.approximations.MAP(network, epochs=300)
    stopped_at(approximation, tmp_path / "run", 10)
    other = bnn.approximations.MAP(network, epochs=301)
    with pytest.raises(ValueError, match="other settings of the approximation"):
        bnn.resume(tmp_path / "run", other, x, y, progress=False)
    with pytest.raises(ValueError, match="made with other data"):
        bnn.resume(tmp_path / "run", approximation, x, y + 1, progress=False)
    with pytest.raises(ValueError, match="made by MAP"):
        bnn.resume(tmp_path / "run", NUTS(network), x, y, progress=False)
    with pytest.raises(ValueError, match="no number of draws"):
        bnn.extend(tmp_path / "run", approximation, x, y, draws=5, progress=False)


def test_diagnose_takes_no_thresholds_of_samplers(members):
    with pytest.raises(ValueError, match="rhat_limit"):
        members.diagnose(rhat_limit=1.2)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: bnn.approximations.MAP, TypeError, "Build it from your model"),
        (lambda: bnn.approximations.MAP(), ValueError, "has no model"),
        (lambda: network, TypeError, "approximation such as"),
        (lambda: bnn.approximations.MAP(network, objective="prior"), ValueError, "objective"),
        (lambda: bnn.approximations.MAP(network, weight_decay=0.1), ValueError, "shrunk twice"),
        (lambda: bnn.approximations.MAP(network, epochs=0), ValueError, "epochs"),
        (lambda: bnn.approximations.MAP(network, patience=3), ValueError, "held out"),
        (lambda: bnn.approximations.Ensemble(network, members=0), ValueError, "members"),
        (
            lambda: bnn.approximations.MAP(
                network, optimiser=optax.sgd(0.1), learning_rate=0.1, schedule=cosine
            ),
            ValueError,
            "would be ignored",
        ),
    ],
)
def test_bad_approximations_are_refused_in_a_sentence(build, error, words, regression):
    with pytest.raises(error, match=words):
        bnn.fit(build(), *regression, progress=False)


def test_fit_keeps_its_training_data_in_memory_and_not_on_disk(regression, tmp_path):
    members = bnn.approximations.Ensemble(bnn.models.mlp(hidden=(3,)), members=2, epochs=2)
    posterior = bnn.fit(members, *regression, progress=False, out=tmp_path / "run")
    for kept, given in zip(posterior.data, regression, strict=True):
        np.testing.assert_array_equal(kept, given)
    assert bnn.load(tmp_path / "run").data is None
