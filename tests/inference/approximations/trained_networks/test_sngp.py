"""SNGP: exact on features that are fixed, bounded kernels, and doubt that grows with distance."""

import jax
import numpy as np
import optax
import pytest
from numpyro import handlers

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.approximations.trained_networks.sngp_model import spectral_norm

SNGP = bnn.approximations.SNGP
NOISE = 0.4


def model(hidden=(), temperature=1.0, noise=NOISE):
    return bnn.models.mlp(
        hidden=hidden, likelihood=bnn.likelihoods.gaussian(noise), temperature=temperature
    )


def closed_form(built, x, y, new, temperature, scale):
    """Mean and covariance of the function at `new`: linear regression on the features."""

    def features(inputs):
        wave = np.cos(inputs @ built.projection + built.phase)
        return np.sqrt(2 / len(built.phase)) * wave

    phi = features(x.astype(float))
    precision = phi.T @ phi / (NOISE**2 * temperature) + np.eye(phi.shape[1]) / scale**2
    covariance = np.linalg.inv(precision)
    mean = covariance @ phi.T @ y / (NOISE**2 * temperature)
    return features(new) @ mean, features(new) @ covariance @ features(new).T


def worst(values, mean, covariance):
    count = len(values)
    variance = np.diag(covariance)
    first = np.abs(values.mean(0) - mean) / np.sqrt(variance / count)
    second = np.abs(values.var(0) - variance) / (variance * np.sqrt(2 / count))
    return max(first.max(), second.max())


@pytest.mark.parametrize("which", ["likelihood", "posterior"])
def test_with_the_inputs_as_features_it_is_the_exact_posterior(regression, which):
    x, y = regression
    temperature = 0.5
    tempered = model(temperature=temperature if which == "likelihood" else 1.0)
    tempered = tempered if which == "likelihood" else bnn.cold(tempered, temperature)
    settings = dict(features=30, scale=1.5, draws=4000, epochs=3, batch_size=None)
    fitted = bnn.fit(SNGP(tempered, **settings), x, y, seed=5, progress=False, float64=True)
    assert set(fitted.draws) == {"features.kernel"}
    new = np.array([[0.0, 0.0], [1.0, -1.0], [6.0, 6.0]])
    values = fitted.function_values(new)["mean"][0]
    if which == "likelihood":
        right, twice, never = (
            closed_form(fitted.model, x, y, new, t, 1.5) for t in (temperature, temperature**2, 1.0)
        )
    else:
        mean, covariance = closed_form(fitted.model.model, x, y, new, 1.0, 1.5)
        right, twice, never = ((mean, c * covariance) for c in (0.5, 0.25, 1.0))
    assert worst(values, *right) < 4.5
    assert worst(values, *twice) > 6 and worst(values, *never) > 6


@pytest.mark.filterwarnings("ignore:.* lie far outside the training inputs")
def test_far_from_the_data_it_does_not_know(regression):
    fitted = bnn.fit(
        SNGP(model((16,)), features=128, epochs=300, learning_rate=0.01, length_scale=0.7),
        *regression,
        progress=False,
    )
    x = regression[0]
    near, far = fitted.predict(x).epistemic.mean(), fitted.predict(20 * x).epistemic.mean()
    assert far > 3 * near
    assert fitted.draws["features.kernel"].shape == (1, 100, 128, 1)


def test_the_spectral_norm_and_its_bound():
    kernel = np.random.default_rng(0).normal(size=(3, 3, 4, 8))
    with jax.enable_x64(True):
        exact = np.linalg.svd(kernel.reshape(36, 8), compute_uv=False)[0]
        assert float(spectral_norm(kernel)) == pytest.approx(exact, rel=0.02)
    x = np.eye(3)
    built = SNGP(model((3,)), features=4000, bound=0.5).fitted_model(x, np.zeros(3), seed=0)
    weights = np.random.default_rng(1).normal(size=(4000, 1)) / 60
    bias = np.array([0.2, -0.1, 0.0])

    def outputs(kernel, inputs):
        values = {
            "net/Dense_0.kernel": kernel,
            "net/Dense_0.bias": bias,
            "features/kernel": weights,
        }
        run = handlers.seed(handlers.substitute(built, data=values), jax.random.key(0))
        return np.asarray(handlers.trace(run).get_trace(inputs)["y"]["fn"].mean)

    diagonal = np.diag([4.0, 1.0, 0.5])
    with jax.enable_x64(True):
        found = outputs(diagonal, x)
        np.testing.assert_allclose(found, outputs(diagonal / 8, x), rtol=1e-6)
        small = np.diag([0.4, 0.1, 0.05])
        assert np.abs(outputs(small, x) - outputs(small / 2, x)).max() > 1e-4  # left as it is


def test_classes_on_disk_open_with_their_model(regression, tmp_path):
    x, labels = regression[0], np.arange(40) % 3
    classifier = bnn.models.mlp(hidden=(4,), likelihood=bnn.likelihoods.categorical(3))
    sngp = SNGP(classifier, features=16, epochs=3, draws=5)
    fitted = bnn.fit(sngp, x, labels, seed=7, progress=False, out=tmp_path / "run")
    assert fitted.draws["features.kernel"].shape == (1, 5, 16, 3)
    opened = bnn.load(tmp_path / "run", sngp.fitted_model(x, labels, seed=7))
    np.testing.assert_allclose(opened.predict(x).mean, fitted.predict(x).mean, rtol=1e-6)
    np.testing.assert_allclose(opened.predict(x).mean.sum(-1), 1, rtol=1e-5)
    with pytest.raises(ValueError, match="of another model"):
        bnn.load(tmp_path / "run", sngp.fitted_model(x, labels, seed=8))
    assert "still falling" in opened.diagnose().verdict


def test_a_training_that_failed_is_told(regression):
    wild = SNGP(model(), features=4, optimiser=optax.sgd(1e30), epochs=5, retries=0)
    found = bnn.fit(wild, *regression, progress=False).diagnose()
    assert found.status == "not converged" and "could not be trained" in found.verdict


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"features": 0}, "`features` must be at least 1"),
        ({"features": 5000}, "Lower `features`"),
        ({"bound": 0.0}, "`bound` must be positive"),
        ({"scale": -1.0}, "`scale` must be positive"),
        ({"length_scale": 0.0}, "`length_scale` must be positive"),
        ({"draws": 0}, "`draws` must be at least 1"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(options, words, regression):
    with pytest.raises(ValueError, match=words):
        bnn.fit(SNGP(model(), **options), *regression, progress=False)
