"""`Laplace` and `LastLayer` through `fit`: predictions, findings, tuning, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from flax import linen

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.approximations import MAP, DuringTraining, Laplace, LastLayer
from tests.inference.approximations.linear_truth import MODE, linear
from tests.marks import checked

TRAINED = MAP(epochs=300, learning_rate=0.02, batch_size=None)
network = bnn.models.mlp(hidden=(4,), likelihood=bnn.likelihoods.gaussian(scale=0.3))


class SmallConvNet(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = jax.numpy.tanh(bnn.nn.Conv(2, (2, 2))(x))
        return linen.Dense(2)(x.mean((1, 2)))


@pytest.fixture(scope="module")
def classes():
    """Sixty rows of two classes that overlap."""
    generator = np.random.default_rng(1)
    y = np.arange(60) % 2
    return (generator.normal(size=(60, 2)) + 1.2 * y[:, None]).astype(np.float32), y


@pytest.fixture(scope="module")
def mode(regression):
    settings = MAP(network, epochs=2000, learning_rate=0.02, batch_size=None)
    return bnn.fit(settings, *regression, progress=False)


@pytest.fixture(scope="module")
def fitted(regression, mode):
    return bnn.fit(Laplace(network, mode=mode, draws=40), *regression, progress=False)


def test_linearised_predictions_are_the_expansion_at_the_mode(regression, mode, fitted):
    """f(x, θ*) + J (θ - θ*) by a dense jacobian, for every draw; the network itself differs."""
    x = regression[0][:6]

    def outputs(values):
        sites = {f"net/{n.partition('.')[2]}": v for n, v in values.items()}
        model = numpyro.handlers.substitute(network, data=sites)
        seeded = numpyro.handlers.seed(model, jax.random.key(0))
        return numpyro.handlers.trace(seeded).get_trace(x)["y"]["fn"].mean

    centre = {name: draws[0, 0] for name, draws in mode.draws.items()}
    value, jacobian = outputs(centre), jax.jacrev(outputs)(centre)
    expected = value[None] + sum(
        np.tensordot(
            fitted.draws[n][0] - centre[n], np.moveaxis(jacobian[n], 0, -1), centre[n].ndim
        )
        for n in centre
    )
    found = fitted.function_values(x)["mean"]
    np.testing.assert_allclose(np.squeeze(found), expected, rtol=1e-4, atol=1e-4)
    sampled = bnn.fit(
        Laplace(network, mode=mode, draws=40, predictive="sampled"), *regression, progress=False
    )
    np.testing.assert_array_equal(
        sampled.draws["net.Dense_0.kernel"], fitted.draws["net.Dense_0.kernel"]
    )
    other = np.squeeze(sampled.function_values(x)["mean"])
    assert np.abs(other - expected).max() > 100 * np.abs(np.squeeze(found) - expected).max()


@pytest.mark.check
def test_a_convolution_without_forward_derivatives_is_linearised_too():
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(20, 4, 4, 1)).astype(np.float32), np.arange(20) % 2
    model = bnn.bayesian_network(
        SmallConvNet(), bnn.priors.normal(1.0), bnn.likelihoods.categorical(2)
    )
    posterior = bnn.fit(
        Laplace(model, structure="kfac", mode=TRAINED, draws=3), x, y, progress=False
    )
    model = posterior.model
    assert not model.forward
    params = jax.tree.map(lambda a: a, dict(model.parameters))

    def logits(values):
        sites = {f"net/{n}": v for n, v in values.items()}
        substituted = numpyro.handlers.substitute(model, data=sites)
        seeded = numpyro.handlers.seed(substituted, jax.random.key(0))
        return numpyro.handlers.trace(seeded).get_trace(x)["y"]["fn"].logits

    value, jacobian = logits(params), jax.jacrev(logits)(params)
    draw = {n: posterior.draws[f"net.{n}"][0, 1] for n in params}
    expected = value + sum(
        np.tensordot(jacobian[n], draw[n] - params[n], params[n].ndim) for n in params
    )
    found = posterior.function_values(x)["probability"][0, 1]
    np.testing.assert_allclose(found, jax.nn.softmax(expected), rtol=1e-3, atol=1e-4)


def test_the_probit_formula_is_near_the_mean_over_many_draws(classes):
    x, y = classes
    model = bnn.models.mlp(hidden=(4,), likelihood=bnn.likelihoods.categorical(2))
    settings = Laplace(model, structure="kfac", mode=TRAINED, draws=2000)
    posterior = bnn.fit(settings, x, y, progress=False)
    averaged = posterior.predict(x).probabilities
    formula = bnn.approximations.probit_probabilities(posterior, x)
    np.testing.assert_allclose(formula.sum(-1), 1, rtol=1e-5)
    assert np.abs(formula - averaged).max() < 0.06
    at_mode = bnn.fit(MAP(model, epochs=300, learning_rate=0.02), x, y, progress=False)
    plain = at_mode.predict(x).probabilities
    assert (formula.max(-1) < plain.max(-1) + 0.02).all()  # uncertain weights make it less sure
    assert (formula.argmax(-1) == plain.argmax(-1)).mean() > 0.95
    with pytest.raises(ValueError, match="class labels"):
        bnn.approximations.probit_probabilities(
            bnn.fit(LastLayer(network, mode=MAP(epochs=2)), x, x[:, 0], progress=False), x
        )


def test_a_run_on_disk_predicts_by_the_linearised_model(regression, mode, fitted, tmp_path):
    x, _ = regression
    settings = Laplace(network, mode=mode, draws=40)
    stored = bnn.fit(settings, *regression, progress=False, out=tmp_path / "run")
    opened = bnn.load(tmp_path / "run", network)
    fitted.save(tmp_path / "saved")
    sampled = bnn.Posterior(fitted.tree, network).predict(x).mean
    expected = fitted.predict(x).mean
    assert np.abs(sampled - expected).max() > 1e-3
    for other in (stored, opened, bnn.load(tmp_path / "saved", network)):
        np.testing.assert_allclose(other.predict(x).mean, expected, rtol=1e-4, atol=1e-5)


def test_a_posterior_is_taken_as_the_mode_it_is(regression, mode, fitted):
    found = fitted.provenance["approximation"]
    assert found["mode"]["given"] == "MAP" and found["newton_gain"] < 1
    for name, draws in mode.draws.items():
        np.testing.assert_array_equal(fitted.model.parameters[name.partition(".")[2]], draws[0, 0])
    other = bnn.models.mlp(hidden=(5,), likelihood=bnn.likelihoods.gaussian(scale=0.3))
    with pytest.raises(ValueError, match="of another model"):
        bnn.fit(Laplace(other, mode=mode), *regression, progress=False)
    nameless = bnn.Posterior(mode.tree)
    with pytest.raises(ValueError, match="of another model"):
        bnn.fit(Laplace(other, mode=nameless), *regression, progress=False)


def test_weights_far_from_a_mode_are_told(regression):
    short = bnn.fit(Laplace(network, mode=MAP(epochs=1)), *regression, progress=False)
    diagnosis = short.diagnose()
    assert diagnosis.status == "doubtful" and "not at a mode" in diagnosis.verdict


@pytest.mark.parametrize(
    "prior",
    checked([bnn.priors.student_t(3.0, 0.01), bnn.priors.laplace(0.1)]),
    ids=["student", "laplace"],
)
def test_indefinite_curvature_is_told(regression, prior):
    """In the tails of a Student t, and everywhere of a Laplace, the prior is not concave."""
    model = bnn.bayesian_network(
        bnn.nn.MLP(hidden=(), outputs=1), prior, bnn.likelihoods.gaussian(scale=0.3)
    )
    posterior = bnn.fit(Laplace(model, mode=TRAINED), *regression, progress=False)
    diagnosis = posterior.diagnose()
    assert diagnosis.status == "doubtful" and "Indefinite curvature" in diagnosis.verdict
    assert np.isfinite(posterior.draws["net.Dense_0.kernel"]).all()
    with pytest.raises(ValueError, match="normal prior"):
        bnn.fit(Laplace(model, mode=TRAINED, prior_precision="scalar"), *regression, progress=False)


def test_too_low_a_rank_is_told(regression, mode):
    settings = Laplace(network, mode=mode, structure="low_rank", rank=1)
    assert "Raise `rank`" in bnn.fit(settings, *regression, progress=False).diagnose().verdict


def test_a_coupled_prior_needs_the_full_matrix(regression):
    """A normal prior of all weights together is exact in it."""
    x, y = regression
    covariance = 0.25 * np.array([[1.0, 0.6], [0.6, 1.0]])

    def model(x, y=None, *, batch_size=None):
        w = numpyro.sample("w", dist.MultivariateNormal(jnp.zeros(2), jnp.asarray(covariance)))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(x @ w, 0.5), obs=y)

    posterior = bnn.fit(Laplace(model, mode=MODE, draws=4000), x, y, float64=True, progress=False)
    x = np.asarray(x, float)
    precision = x.T @ x / 0.25 + np.linalg.inv(covariance)
    mean = np.linalg.solve(precision, x.T @ np.asarray(y, float) / 0.25)
    root = np.linalg.cholesky(precision)
    draws = (posterior.draws["w"][0] - mean) @ root
    assert np.abs(draws.mean(0)).max() < 5 / np.sqrt(4000)
    assert np.abs(np.cov(draws.T) - np.eye(2)).max() < 5 * np.sqrt(2 / 4000)
    log_z = -20 * np.log(2 * np.pi * 0.25) - 0.5 * (y @ y / 0.25 - mean @ precision @ mean)
    log_z -= 0.5 * (np.linalg.slogdet(precision)[1] + np.linalg.slogdet(covariance)[1])
    found = posterior.provenance["approximation"]
    assert found["log_evidence"] == pytest.approx(log_z, abs=1e-3)
    assert found["predictive"] == "sampled"
    assert "not linearised" in posterior.diagnose().verdict
    with pytest.raises(ValueError, match="couples parameters"):
        diagonal = Laplace(model, mode=MODE, structure="diagonal")
        bnn.fit(diagonal, x, y, float64=True, progress=False)


def test_layers_are_chosen_and_the_others_stay(regression, mode):
    posterior = bnn.fit(
        Laplace(network, mode=mode, layers="Dense_1.*", draws=5), *regression, progress=False
    )
    assert posterior.provenance["approximation"]["layers"] == ["net/Dense_1"]
    below = posterior.draws["net.Dense_0.kernel"]
    assert (below == mode.draws["net.Dense_0.kernel"]).all()
    assert (posterior.draws["net.Dense_1.kernel"].std(1) > 0).all()
    last = bnn.fit(Laplace(network, mode=mode, layers="last", draws=5), *regression, progress=False)
    np.testing.assert_allclose(
        last.draws["net.Dense_1.kernel"], posterior.draws["net.Dense_1.kernel"], rtol=1e-5
    )


def test_a_tuned_noise_is_in_the_draws_and_the_predictions(regression):
    model = bnn.models.mlp(hidden=(4,))
    settings = LastLayer(model, mode=TRAINED, tune_noise=True, prior_precision="layer")
    posterior = bnn.fit(settings, *regression, progress=False)
    found = posterior.provenance["approximation"]
    np.testing.assert_allclose(posterior.draws["noise_scale"], found["noise"], rtol=1e-4)
    np.testing.assert_allclose(
        posterior.predict(regression[0]).aleatoric, found["noise"] ** 2, rtol=1e-3
    )
    assert set(found["prior_factors"]) == {"net/Dense_1"}


def test_training_by_evidence_runs_with_minibatches_and_kronecker_factors(classes):
    model = bnn.models.mlp(hidden=(4,), likelihood=bnn.likelihoods.categorical(2))
    settings = Laplace(
        model,
        structure="kfac",
        mode=TRAINED,
        prior_precision="layer",
        when=DuringTraining(rounds=6, epochs=10, learning_rate=0.01, batch_size=20),
    )
    found = bnn.fit(settings, *classes, progress=False).provenance["approximation"]
    assert found["log_evidences"][-1] > found["log_evidences"][0]
    assert set(found["prior_factors"]) == {"net/Dense_0", "net/Dense_1"}


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: Laplace(network, structure="kron"), ValueError, "structure"),
        (lambda: Laplace(network, predictive="glm"), ValueError, "predictive"),
        (lambda: Laplace(network, prior_precision="unit"), ValueError, "prior_precision"),
        (lambda: Laplace(network, rank=5), ValueError, "low_rank"),
        (lambda: Laplace(network, draws=0), ValueError, "draws"),
        (lambda: Laplace(network, layers=()), ValueError, "chooses no parameter"),
        (lambda: Laplace(network, layers=3), TypeError, "patterns"),
        (lambda: Laplace(network, mode="map"), TypeError, "MAP"),
        (lambda: Laplace(network, when="during"), ValueError, "DuringTraining"),
        (lambda: Laplace(network, when=DuringTraining()), ValueError, "nothing is to be tuned"),
        (
            lambda: Laplace(network, structure="kfac", prior_precision="element"),
            ValueError,
            "each parameter",
        ),
        (lambda: LastLayer(network, prior_precision="unit"), ValueError, "prior_precision"),
        (lambda: DuringTraining(rounds=0), ValueError, "rounds"),
    ],
)
def test_settings_that_cannot_be_are_refused(build, error, words):
    with pytest.raises(error, match=words):
        build()


def _hand_written(x, y=None, *, batch_size=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1).expand((2,)).to_event(1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(x @ slope, 0.5), obs=y)


@pytest.mark.parametrize(
    ("approximation", "words"),
    [
        (Laplace(_hand_written, structure="kfac"), "one Flax Linen network"),
        (Laplace(_hand_written, layers="last"), "last layer"),
        (Laplace(_hand_written, layers="slop"), "Did you mean"),
        (Laplace(network, layers="noise*"), "no parameter matches"),
        (Laplace(network, tune_noise=True, mode=MAP(epochs=1)), "one noise scale"),
        (
            Laplace(
                bnn.bayesian_network(
                    bnn.nn.MLP((3,), outputs=1),
                    bnn.priors.normal(1.0),
                    bnn.likelihoods.gaussian(scale=0.5),
                    temperature=0.5,
                ),
                mode=MAP(linear()),
            ),
            "another model",
        ),
    ],
)
def test_what_does_not_suit_the_model_is_refused(regression, approximation, words):
    with pytest.raises(ValueError, match=words):
        bnn.fit(approximation, *regression, progress=False)


def test_too_large_a_matrix_is_refused_before_training(regression):
    wide = bnn.models.mlp(hidden=(300, 300), likelihood=bnn.likelihoods.gaussian(scale=0.3))
    with pytest.raises(ValueError, match="GiB"):
        bnn.fit(Laplace(wide), *regression, progress=False)
