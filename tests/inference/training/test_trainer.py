"""The trainer against closed forms, and what it promises about batches, stopping and members."""

from dataclasses import fields

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from flax import nnx
from scipy import optimize

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.inference.training.settings import TrainingSettings
from bayesnn_ppl.inference.training.trainer import cosine, train
from tests.inference.kernels.known_moments import scale_model

NOISE = 0.5
linear = bnn.models.linear(likelihood=bnn.likelihoods.gaussian(NOISE))


def fit(model, x, y, *, members=2, **options):
    given = {"optimiser": optax.adam(0.05), "epochs": 20, "progress": False} | options
    named = {field.name for field in fields(TrainingSettings)}
    how = {name: value for name, value in given.items() if name not in named}
    settings = TrainingSettings(**{name: given[name] for name in named & set(given)})
    return train(Problem.of(model, x, y, all_rows=False, **how), settings, members)


def coefficients(trained):
    values = trained.values
    kernel, bias = values["net/Dense_0.kernel"][..., 0], values["net/Dense_0.bias"]
    return np.concatenate([kernel, bias], axis=-1)


def ridge(x, y, *, penalty=1.0, temperature=1.0):
    phi = np.column_stack([x, np.ones(len(x))]).astype(float)
    evidence = phi.T @ phi / (NOISE**2 * temperature)
    precision = penalty * np.eye(phi.shape[1]) + evidence
    return np.linalg.solve(precision, phi.T @ y / (NOISE**2 * temperature))


@pytest.fixture(scope="module")
def modes(regression):
    """The same training in full batches, of the posterior."""
    return fit(linear, *regression, optimiser=optax.lbfgs(), epochs=15, float64=True)


def test_the_mode_of_a_linear_model_is_ridge_regression(regression, modes):
    x, y = regression
    expected = ridge(x, y)
    np.testing.assert_allclose(coefficients(modes), [expected] * 2, atol=1e-6)
    assert not modes.failed.any() and modes.rows == 40
    assert np.isnan(modes.held_out_losses).all() and (modes.best_epochs == 15).all()
    # The negative control: without the prior it would be least squares.
    assert np.abs(ridge(x, y, penalty=0.0) - expected).max() > 1e-3


def test_the_likelihood_alone_is_least_squares_and_decay_is_decoupled(regression):
    x, y = regression
    alone = fit(linear, x, y, objective="likelihood", epochs=400, schedule=cosine)
    np.testing.assert_allclose(
        coefficients(alone), [ridge(x, y, penalty=0.0)] * 2, atol=2e-4, rtol=0
    )


def test_minibatches_find_the_same_mode(regression):
    x, y = regression
    trained = fit(linear, x, y, batch_size=8, epochs=400, schedule=cosine)
    np.testing.assert_allclose(coefficients(trained), [ridge(x, y)] * 2, atol=0.02)
    # The negative control: at a constant rate the noise of the batches stays.
    noisy = fit(linear, x, y, batch_size=8, epochs=400, optimiser=optax.sgd(0.2))
    assert np.abs(coefficients(noisy) - ridge(x, y)).max() > 0.02


def test_the_mode_is_that_of_the_models_own_space():
    y = np.array([0.3, -0.8, 1.1])

    def energy(s, jacobian=0.0):
        return 0.5 * s**2 + len(y) * np.log(s) + 0.5 * np.sum(y**2) / s**2 - jacobian * np.log(s)

    def mode(jacobian):
        return optimize.minimize_scalar(
            energy, bounds=(0.05, 5), args=(jacobian,), options={"xatol": 1e-10}, method="bounded"
        ).x

    model = bnn.cold(scale_model, 0.5)  # whose modes are those at T = 1
    trained = fit(model, y[:, None], y, optimiser=optax.lbfgs(), epochs=30, float64=True)
    np.testing.assert_allclose(trained.values["scale"], mode(0.0), rtol=1e-5)
    np.testing.assert_allclose(np.exp(trained.positions["scale"]), trained.values["scale"])
    # The negative control: the mode of the density that samplers see.
    assert abs(mode(1.0) - mode(0.0)) > 0.05


@pytest.fixture(scope="module")
def overfitting():
    """Forty rows, of which few are left to train thirty weights on: the fit gets worse in time."""
    generator = np.random.default_rng(3)
    x = generator.normal(size=(240, 30)).astype(np.float32)
    y = (x[:, 0] + generator.normal(size=240)).astype(np.float32)
    return (x[:40], y[:40]), (x[40:], y[40:])


def test_early_stopping_keeps_the_best_epoch(overfitting):
    (x, y), (x_test, y_test) = overfitting
    options = {"objective": "likelihood", "validation_fraction": 0.3, "epochs": 300}
    stopped = fit(linear, x, y, **options, patience=12)
    held = stopped.held_out_losses
    best = np.nanargmin(held, axis=1) + 1
    np.testing.assert_array_equal(stopped.best_epochs, best)
    np.testing.assert_allclose(stopped.best_losses, np.nanmin(held, axis=1))
    np.testing.assert_array_equal((~np.isnan(held)).sum(axis=1), best + 12)
    assert stopped.rows == 28 and (best + 12 < 300).all()
    # The same training without patience goes the same way, on and on, and keeps the same epoch.
    patient = fit(linear, x, y, **options)
    assert not np.isnan(patient.held_out_losses).any()
    np.testing.assert_array_equal(coefficients(patient), coefficients(stopped))
    # The negative control: what the last epoch predicts is worse, held out and on new data.
    assert (patient.held_out_losses[:, -1] > stopped.best_losses + 0.5).all()
    last = fit(linear, x, y, objective="likelihood", epochs=300)

    def error(trained):
        theta = coefficients(trained)
        return np.mean((x_test @ theta[:, :-1].T + theta[:, -1] - y_test[:, None]) ** 2, axis=0)

    assert (error(stopped) < error(last)).all()


def test_one_program_serves_all_members_seeds_and_epochs(regression, compilations):
    x, y = regression
    options = {"members": 3, "validation_fraction": 0.2, "batch_size": 7}
    fit(linear, x, y, **options, patience=3, seed=0)
    before = compilations()
    fresh = bnn.models.linear(likelihood=bnn.likelihoods.gaussian(NOISE))
    again = fit(fresh, x, y, **options, patience=5, seed=1, epochs=9, optimiser=optax.adam(0.05))
    assert compilations() == before
    assert again.seconds["compile"] == 0.0
    fit(linear, x, y, **options, patience=3, optimiser=optax.adam(0.04), epochs=1)
    assert compilations() > before  # the control: another optimiser is another program


def test_members_differ_and_are_the_same_whatever_their_number(regression):
    x, y = regression
    options = {"batch_size": 8, "validation_fraction": 0.2, "epochs": 3}
    four, again = (fit(linear, x, y, **options, members=4) for _ in range(2))
    two = fit(linear, x, y, **options, members=2, mesh=bnn.device_mesh(1))
    other = fit(linear, x, y, **options, members=4, seed=1)
    kernel = "net/Dense_0.kernel"
    for name, values in four.positions.items():
        np.testing.assert_array_equal(values, again.positions[name])
        np.testing.assert_allclose(values[:2], two.positions[name], rtol=1e-4, atol=1e-5)
    flat = four.positions[kernel].reshape(4, -1)
    assert min(np.abs(flat[i] - flat[j]).max() for i in range(4) for j in range(i)) > 0.01
    assert np.abs(other.positions[kernel] - four.positions[kernel]).max() > 0.1


def test_the_rows_come_in_an_order_of_each_members_own(regression):
    """From one start, by one rule, only the order can make members part."""
    x, y = regression

    def model(x, y=None, *, batch_size=None):
        slope = numpyro.sample("slope", dist.Normal(0.0, 1e-9).mask(False))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(slope * x[:, 0], NOISE), obs=y)

    options = {"optimiser": optax.sgd(0.1), "epochs": 2, "members": 3}
    whole = fit(model, x, y, **options).values["slope"]
    parts = fit(model, x, y, **options, batch_size=8).values["slope"]
    assert np.ptp(whole) < 1e-6 < 1e-4 < np.ptp(parts)


def test_members_may_start_where_flax_does(regression):
    x, y = regression
    options = {"optimiser": optax.sgd(0.0), "epochs": 1, "members": 16}
    model = bnn.models.linear(prior=bnn.priors.normal(100.0))
    network = fit(model, x, y, **options, start="network")
    prior = fit(model, x, y, **options, start="prior")
    assert (network.start, prior.start) == ("network", "prior")
    assert (network.values["net/Dense_0.bias"] == 0).all()
    assert (np.abs(prior.values["net/Dense_0.bias"]) > 1).any()
    kernel = network.values["net/Dense_0.kernel"]
    assert np.abs(kernel).max() < 3 and np.abs(kernel[0] - kernel[1]).max() > 0.1
    # What has no initialiser starts near the prior's median, 0.67 for a half-normal of scale 1: a
    # median of 15 draws lies outside these bounds once in 10 000 times, one draw once in 7.
    scales = network.values["noise_scale"]
    assert len(set(scales.tolist())) == 16 and scales.min() > 0.1 and scales.max() < 1.8
    single = prior.values["noise_scale"]
    assert single.min() < 0.1 or single.max() > 1.8


def test_noise_inside_the_model_is_drawn_anew_at_each_step(regression):
    def model(x, y=None, *, batch_size=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            mask = jax.random.bernoulli(numpyro.prng_key(), 0.5, x.shape[:1])
            numpyro.sample("y", dist.Normal(slope * x[:, 0] * mask, 1.0), obs=y)

    losses = fit(model, *regression, optimiser=optax.sgd(0.0), epochs=6).losses
    assert all(len(set(row)) == 6 for row in losses.tolist())


def half_bad(x, y=None, *, batch_size=None):
    """Half of the prior's draws have no finite likelihood."""
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(jnp.log(slope) * x[:, 0], 1.0), obs=y)


def test_members_that_fail_are_named_and_trained_again(regression):
    options = {"members": 8, "epochs": 4, "optimiser": optax.adam(0.01)}
    once = fit(half_bad, *regression, **options)
    assert 0 < once.failed.sum() < 8
    assert (once.best_epochs[once.failed] == 0).all()
    assert np.isfinite(once.values["slope"]).all()
    again = fit(half_bad, *regression, **options, retries=20)
    assert not again.failed.any() and again.seconds["compile"] == 0.0
    np.testing.assert_array_equal(again.attempts > 1, once.failed)
    kept = ~once.failed
    np.testing.assert_array_equal(again.values["slope"][kept], once.values["slope"][kept])
    assert (again.values["slope"] > 0).all() and np.isfinite(again.losses).all()


def test_ctrl_c_and_the_callback_keep_what_there_is(regression, capfd):
    def interrupt(progress):
        assert progress.losses.shape == (2, progress.done) and progress.total == 5000
        raise KeyboardInterrupt

    for callback in (interrupt, lambda progress: True):
        trained = fit(linear, *regression, epochs=5000, callback=callback)
        assert trained.interrupted
        made = (~np.isnan(trained.losses)).sum(axis=1)
        np.testing.assert_array_equal(trained.best_epochs, made)
        assert (made > 0).all() and (made < 5000).all()

    def fail(progress):
        raise RuntimeError("a metric of the user's")

    trained = fit(linear, *regression, callback=fail, progress=True)
    assert not trained.interrupted and (trained.best_epochs == 20).all()
    shown = capfd.readouterr().err
    assert "is not called again" in shown and "20/20 × 2 members · loss" in shown


def local(x, y=None, *, batch_size=None):
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def without_batches(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(slope * x[:, 0], 1.0), obs=y)


def deaf(x, y=None, *, batch_size=None):
    without_batches(x, y)


def discrete(x, y=None, *, batch_size=None):
    sign = numpyro.sample("sign", dist.Bernoulli(0.5))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(sign * x[:, 0], 1.0), obs=y)


built = bnn.bayesian_network(
    nnx.Linear(2, 1, rngs=nnx.Rngs(0)), bnn.priors.normal(1.0), bnn.likelihoods.gaussian(1.0)
)


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (linear, {"members": 0}, ValueError, "`members` must be at least 1"),
        (linear, {"epochs": 0}, ValueError, "`epochs` must be at least 1"),
        (linear, {"batch_size": 2.5}, TypeError, "`batch_size` must be an integer"),
        (linear, {"optimiser": optax.adam}, TypeError, r"Call it: `optax.adam\(1e-3\)`"),
        (linear, {"objective": "likelyhood"}, ValueError, "Did you mean `likelihood`"),
        (linear, {"start": "zero"}, ValueError, "`start` must be one of"),
        (linear, {"schedule": "cosine"}, TypeError, "a function of the fraction"),
        (linear, {"validation_fraction": 1.0}, ValueError, "at least 0 and below 1"),
        (linear, {"validation_fraction": 0.999}, ValueError, "none is left to train on"),
        (linear, {"validation_fraction": True}, TypeError, "must be a number"),
        (linear, {"patience": 3}, ValueError, "no rows are held out to judge by"),
        (local, {"batch_size": 5}, ValueError, r"\['mean'\] have one value for each training row"),
        (without_batches, {"batch_size": 5}, ValueError, "takes no `batch_size`"),
        (deaf, {"batch_size": 5}, ValueError, 'its plate "data" takes all'),
        (discrete, {}, ValueError, r"\['sign'\] are discrete"),
        (deaf, {"start": "network"}, ValueError, "declares no Flax network"),
        (built, {"start": "network"}, ValueError, "would start alike"),
        (lambda x, y=None: None, {}, ValueError, 'no plate "data"'),
    ],
)
def test_bad_arguments_are_refused(regression, model, options, error, message):
    with pytest.raises(error, match=message):
        fit(model, *regression, **options)


def test_latents_of_the_rows_can_be_trained_in_full_batches(regression):
    x, y = regression
    trained = fit(local, x, y, optimiser=optax.lbfgs(), epochs=10)
    np.testing.assert_allclose(trained.values["mean"], [y / 2] * 2, atol=1e-4)
