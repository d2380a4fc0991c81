"""Augmentation and dropout in training: the target that is sampled, fresh keys, and refusals.

On a linear model with known noise the expectation of the log likelihood over additive input noise,
or over dropout of the inputs, is a ridge penalty more: everything is known.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.common.minibatch_density import (
    MinibatchDensity,
    MinibatchGradient,
)

L, A, K = bnn.likelihoods, bnn.augmentations, bnn.kernels
ROWS, SIGMA, NOISE, RATE = 40, 0.5, 0.7, 0.3
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(ROWS, 2)).astype(np.float32)
Y = (X @ [1.0, -0.5] + SIGMA * GENERATOR.normal(size=ROWS)).astype(np.float32)
GAUSSIAN = L.gaussian(SIGMA)
NOISY = L.dirty(GAUSSIAN, augmentation=A.additive_noise(NOISE))


def model(likelihood):
    return bnn.bayesian_network(bnn.nn.MLP((), outputs=1), bnn.priors.normal(1.0), likelihood)


def exact_posterior(penalty):
    """Mean and precision of exp(-Σ (y - wᵀx - b)²/2σ² - Σ_d p_d w_d²/2σ² - |θ|²/2), θ = (w, b)."""
    rows = np.concatenate([X, np.ones((ROWS, 1))], axis=1)
    precision = (rows.T @ rows + np.diag([*penalty, 0.0])) / SIGMA**2 + np.eye(3)
    return np.linalg.solve(precision, rows.T @ Y / SIGMA**2), precision


WITH_NOISE = exact_posterior([ROWS * NOISE**2] * 2)[0]
WITH_DROPOUT = exact_posterior(RATE / (1 - RATE) * (X**2).sum(0))[0]
CLEAN = exact_posterior([0.0, 0.0])[0]


def run(kernel, draws=200, **more):
    return bnn.sample(
        kernel, X, Y, warmup=20, draws=draws, chains=2, seed=0, progress=False, **more
    )


def sgld(likelihood, kind=K.SGLD):
    return kind(model(likelihood), step_size=5e-4, batch_size=8, steps_per_draw=10)


def both(posterior):
    """Draws of (w, b), (chains, draws, 3)."""
    kernel, bias = (posterior.draws[f"net.Dense_0.{n}"] for n in ("kernel", "bias"))
    return np.concatenate([kernel[..., 0], bias], axis=-1)


def deviations(posterior, mean):
    """(estimate - mean)/standard error of w and b, by means of 100 steps, 10 correlation times."""
    parts = both(posterior).reshape(2, 20, -1, 3).mean(2).reshape(40, 3)
    return (parts.mean(0) - mean) / (parts.std(0) / np.sqrt(40))


class FrozenKey(K.SGLD):
    """Negative control: the same noise in every step."""

    def _minibatch_gradient(self, data, rows, settings, key):
        return super()._minibatch_gradient(data, rows, settings, jax.random.key(0))


@pytest.mark.parametrize(
    ("likelihood", "mean"),
    [(NOISY, WITH_NOISE), (L.dirty(GAUSSIAN, dropout=RATE), WITH_DROPOUT)],
    ids=["augmentation", "dropout"],
)
def test_the_mean_is_that_of_the_expected_log_likelihood(likelihood, mean):
    """A linear drift with fresh noise has exactly this mean, whatever the step."""
    posterior = run(sgld(likelihood))
    assert np.abs(deviations(posterior, mean)).max() < 4
    assert np.abs(deviations(posterior, CLEAN)).max() > 20
    assert posterior.provenance["observed"] == "DirtyInputs of Normal"
    # Predictions are clean: the mean of wᵀx + b over the draws, all inputs there.
    slopes, bias = both(posterior)[..., :2], both(posterior)[..., 2:]
    exact = (slopes @ X.T + bias).mean((0, 1))
    np.testing.assert_allclose(posterior.predict(X).mean, exact, atol=1e-4)


@pytest.mark.check
def test_momenta_keep_the_mean_and_a_frozen_key_does_not():
    kernel = K.SGHMC(model(NOISY), step_size=2e-4, batch_size=8, steps_per_draw=10)
    assert np.abs(deviations(run(kernel), WITH_NOISE)).max() < 4
    assert np.abs(deviations(run(sgld(NOISY, FrozenKey)), WITH_NOISE)).max() > 10


def test_no_noise_is_no_change_and_runs_resume_bit_for_bit(tmp_path):
    plain = run(sgld(GAUSSIAN), 20).draws["net.Dense_0.kernel"]
    identity = L.dirty(GAUSSIAN, augmentation=lambda key, x: x)
    np.testing.assert_array_equal(run(sgld(identity), 20).draws["net.Dense_0.kernel"], plain)
    whole = run(sgld(NOISY), 20).draws["net.Dense_0.kernel"]
    assert (whole != plain).any()
    run(sgld(NOISY), 8, out=tmp_path / "run")
    longer = bnn.extend(tmp_path / "run", sgld(NOISY), X, Y, draws=12, progress=False)
    np.testing.assert_array_equal(longer.draws["net.Dense_0.kernel"], whole)


def test_sub_batches_and_steps_have_noise_of_their_own():
    noisy = model(NOISY)

    def unravel(vector):
        return {"net/Dense_0.bias": vector[:1], "net/Dense_0.kernel": vector[1:].reshape(2, 1)}

    density = MinibatchDensity(noisy, ROWS, unravel, 3)
    theta = jnp.array([0.1, 1.0, -1.0])

    def gradient(key, parts, x=X[:8], y=Y[:8]):
        return MinibatchGradient(density, lambda _: (x, y), parts, 1 / parts, 1.0, key)(theta)

    one, other = gradient(jax.random.key(1), 1), gradient(jax.random.key(2), 1)
    assert jnp.abs(one - other).max() > 0.1
    np.testing.assert_array_equal(one, gradient(jax.random.key(1), 1))
    # Two equal parts: with one key for both their mean would be the gradient of one of them.
    again = [gradient(jax.random.fold_in(jax.random.key(1), i), 1) for i in range(2)]
    np.testing.assert_allclose(gradient(jax.random.key(1), 2), sum(again) / 2, rtol=1e-4)
    assert jnp.abs(again[0] - again[1]).max() > 0.1


def test_the_temperature_is_that_of_the_mean_potential():
    """Noise heats, and ⟨θ - c, ∇U⟩/d is that of the U which is the mean over the noise."""
    posterior = run(sgld(NOISY))
    found = bnn.diagnostics.configurational_temperature(posterior, X, Y, centre="zero")
    reading, draws = found["net.Dense_0.kernel"], both(posterior).reshape(-1, 3)

    def exact(penalty):
        mean, precision = exact_posterior(penalty)
        return (draws * ((draws - mean) @ precision))[:, :2].mean()

    assert reading.lower < exact([ROWS * NOISE**2] * 2) < reading.upper
    assert not reading.lower < exact([0.0, 0.0]) < reading.upper


def test_training_finds_the_mode_and_judges_clean():
    mode = bnn.approximations.MAP(model(NOISY), epochs=400, batch_size=8)
    found = bnn.fit(mode, X, Y, progress=False).draws
    values = [*found["net.Dense_0.kernel"].ravel(), *found["net.Dense_0.bias"].ravel()]
    np.testing.assert_allclose(values, WITH_NOISE, atol=0.06)
    assert np.abs(values - CLEAN).max() > 0.2
    wild = model(L.dirty(GAUSSIAN, augmentation=A.additive_noise(1e4)))
    judged = bnn.approximations.MAP(
        wild, epochs=2, batch_size=8, validation_fraction=0.25, start="prior"
    )
    record = bnn.fit(judged, X, Y, progress=False).provenance["approximation"]
    assert np.min(record["losses"]) > 1e4 and np.max(record["held_out_losses"]) < 1e3


def by_hand(x, y=None, *, batch_size=None):
    slope = numpyro.sample("slope", dist.Normal(jnp.zeros(2), 1).to_event(1))
    key = None if y is None else bnn.training_key()
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        if key is not None:
            x = x + 0.1 * jax.random.normal(key, x.shape)
        numpyro.sample("y", dist.Normal(x @ slope, SIGMA), obs=y)


SETTINGS = {"step_size": 1e-3, "batch_size": 8}


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        (
            K.HMC(by_hand, step_size=0.01, trajectory_length=0.1),
            "HMC needs the log density of all rows",
        ),
        (NUTS(model(NOISY)), "NUTS needs the log density of all rows"),
        (K.MCLMC(model(NOISY)), "MCLMC needs the log density of all rows"),
        (K.OBABO(model(NOISY), **SETTINGS), "OBABO accepts or rejects by the log density of all"),
        (
            K.SGLD(model(NOISY), gradient=bnn.gradients.SVRG(5), **SETTINGS),
            "SGLD needs gradients of all rows",
        ),
        (sgld(L.dirty(GAUSSIAN, augmentation=lambda k, x: 0.5 * (x + x[::-1]))), "mixes the rows"),
        (sgld(L.dirty(GAUSSIAN, augmentation=lambda k, x: x[:, :1])), "keeps shape and type"),
        (sgld(L.dirty(GAUSSIAN, augmentation="flip")), "for images of shape"),
        (sgld(L.dirty(GAUSSIAN, dropout={"Dense_1": 0.1})), "names `Dense_1`.*`Dense_0`"),
        (sgld(L.dirty(GAUSSIAN, dropout="network")), "calls no `linen.Dropout`"),
    ],
)
def test_what_cannot_be_is_refused_before_compilation(kernel, sentence):
    with pytest.raises(ValueError, match=sentence):
        bnn.sample(kernel, X, Y, warmup=1, draws=1, progress=False)


@pytest.mark.parametrize("kind", [bnn.approximations.Laplace, bnn.approximations.Variational])
def test_approximations_that_need_the_density_are_refused(kind):
    with pytest.raises(ValueError, match="evaluates it for more than a step of training"):
        bnn.fit(kind(model(NOISY)), X, Y, progress=False)
