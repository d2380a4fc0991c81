"""Which rows a step sees: their distribution, gradients of parts, models that are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.flatten_util import ravel_pytree

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.common.minibatch_density import (
    MinibatchDensity,
    MinibatchGradient,
    full_gradient,
)
from bayesnn_ppl.inference.kernels.common.minibatches import Minibatches
from bayesnn_ppl.inference.kernels.common.row_independence import check_rows_independent
from bayesnn_ppl.inference.kernels.stochastic_gradient.gradient_estimators import ControlVariate
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgld import SGLD
from tests.inference.kernels.known_moments import LINEAR

ROWS, BATCH = 40, 12


def stream(batches, steps, calls):
    """The rows of `calls` draws of `steps` minibatches, (calls · steps, shards, B/shards)."""
    state = batches.start(np.array([5, 6], np.uint32))
    keys = jax.random.split(jax.random.key(0), calls)
    draws = jax.jit(
        lambda state: jax.lax.scan(lambda s, k: batches.indices(s, k, steps), state, keys)
    )
    return np.concatenate(np.asarray(draws(state)[1]))


@pytest.mark.parametrize("shards", [1, 2])
def test_an_epoch_has_every_row_once(shards):
    """Of 40 rows 12 at a time: epochs end within minibatches, and draws within epochs."""
    rows = stream(Minibatches(ROWS, BATCH, shards, "epoch"), 5, 8)
    each = ROWS // shards
    assert rows.shape == (40, shards, BATCH // shards)
    for shard in range(shards):
        epochs = rows[:, shard].reshape(-1, each)  # 12 epochs
        assert (np.sort(epochs, axis=1) == np.arange(each)).all()
        assert len({tuple(epoch) for epoch in epochs}) == len(epochs)
    if shards == 2:
        assert (rows[:, 0] != rows[:, 1]).any()


@pytest.mark.parametrize("order", ["random", "epoch"])
def test_every_place_sees_every_row_equally_often(order):
    rows = stream(Minibatches(ROWS, BATCH, 1, order), 400, 10)[:, 0]
    for place in (0, 5, 11):
        counts = np.bincount(rows[:, place], minlength=ROWS)
        # 4 000 draws of 40 rows: chi-square with 39 degrees of freedom, 1e-5 beyond 92.
        assert ((counts - 100) ** 2 / 100).sum() < 92


def test_consecutive_rows_of_a_permutation_are_unrelated():
    for rows in (ROWS, 500):
        batches = Minibatches(rows, 10, 1, "epoch")
        order = stream(batches, rows // 10, 60)[:, 0].reshape(60, rows).astype(float)
        steps = np.diff(order, axis=1)
        assert (steps == 1).mean() < 3 / rows
        centred = order - (rows - 1) / 2
        correlation = (centred[:, 1:] * centred[:, :-1]).mean() / centred.var()
        assert abs(correlation + 1 / (rows - 1)) < 5 / np.sqrt(60 * rows)


def test_given_rows_come_in_order():
    rows = stream(Minibatches(1000, BATCH, 2, "given"), 3, 1)
    np.testing.assert_array_equal(rows[:, 0], np.arange(18).reshape(3, 6))
    np.testing.assert_array_equal(rows[:, 0], rows[:, 1])


STEPS, STEP_SIZE = 6, 2e-3
RUN = dict(warmup=1, draws=3, chains=2, float64=True, progress=False)


def follows_the_full_gradient(x, y, *, batch_size=ROWS, mesh=(1, 1), seeds=(1, 2), **settings):
    """Whether SGLD without noise goes where NumPy goes with gradients of all rows."""
    data = settings.pop("data", (x, y))
    wide, targets = x.astype(float), y.astype(float)
    for seed in seeds:
        kernel = SGLD(
            model_of(lambda x, w: x @ w),
            step_size=STEP_SIZE,
            noise=0.0,
            batch_size=batch_size,
            steps_per_draw=STEPS,
            **settings,
        )
        run = bnn.sample(kernel, *data, mesh=bnn.device_mesh(*mesh), seed=seed, **RUN)
        for chain, weights in enumerate(run.tree["starts"]["w"].values.astype(float)):
            for step in range((RUN["warmup"] + RUN["draws"]) * STEPS):
                residual = wide @ weights - targets
                weights = weights - STEP_SIZE * (wide.T @ residual + weights)
                draw, rest = divmod(step + 1 - STEPS, STEPS)
                if draw > 0 and not rest:
                    if np.abs(run.draws["w"][chain, draw - 1] - weights).max() > 1e-9:
                        return False
    return True


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sub_batches": 4},
        {"mesh": (1, 2), "sub_batches": 2},
        {"mesh": (2, 2), "minibatches": "epoch"},
        {"gradient": ControlVariate()},
    ],
    ids=["random", "sub-batches", "sub-batches of shards", "epochs of shards", "control variate"],
)
def test_a_minibatch_of_all_rows_is_the_full_gradient(regression, settings):
    assert follows_the_full_gradient(*regression, **settings)


def test_streamed_rows_too(regression):
    assert follows_the_full_gradient(
        *regression, data=bnn.data.stream(*regression), minibatches="random", seeds=(1,)
    )


def test_a_smaller_minibatch_is_not(regression):
    """The negative control: 39 rows of 40, drawn with replacement."""
    assert not follows_the_full_gradient(*regression, batch_size=39, seeds=(1,))


def scaled(x, y=None, *, batch_size=None):
    """A constrained site, so that Jacobians count."""
    weight = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(x @ weight, scale), obs=y)


Z = {"scale": jnp.asarray(0.3), "w": jnp.asarray([0.2, -0.4])}


def density_of(model, z=Z, rows=ROWS):
    vector, unravel = ravel_pytree(z)
    return MinibatchDensity(model, rows, unravel, vector.shape[0]), vector


def test_the_gradient_is_unbiased_and_of_full_scale(regression):
    """The mean over all minibatches of one epoch is the gradient of all rows."""
    x, y = map(jnp.asarray, regression)
    density, vector = density_of(scaled)
    whole = Density.at(scaled, (x, y), {}, Z).gradient(vector)
    np.testing.assert_allclose(full_gradient(density, x, y, 15, 1.0)(vector), whole, rtol=1e-5)
    parts = [
        MinibatchGradient(density, lambda _, i=i: (x[i::5], y[i::5]), 1, 1.0, 1.0)(vector)
        for i in range(5)
    ]
    np.testing.assert_allclose(np.mean(parts, axis=0), whole, rtol=1e-5)


def test_a_temperature_counts_like_a_cold_model(regression):
    """U/T of the kernel is U of `cold(model, T)`, Jacobian included."""
    x, y = map(jnp.asarray, regression)
    density, vector = density_of(scaled)
    kernels = MinibatchGradient(density, lambda _: (x, y), 1, 1.0, 0.5)(vector) / 0.5
    cold = Density.at(bnn.cold(scaled, 0.5), (x, y), {}, Z).gradient(vector)
    np.testing.assert_allclose(kernels, cold, rtol=1e-5)
    plain = MinibatchGradient(density, lambda _: (x, y), 1, 1.0, 1.0)(vector) / 0.5
    assert np.abs(plain - cold).max() > 0.5  # the Jacobian tempered too


def model_of(function):
    def model(x, y=None, *, batch_size=None):
        weight = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(function(x, weight), 1.0), obs=y)

    return model


def running(x, w):
    return jax.lax.scan(lambda total, row: (total + row @ w, total), 0.0, x)[1]


def time_series(x, w):
    steps = jnp.stack([x, 2 * x])
    return jax.lax.scan(lambda state, row: (jnp.tanh(state + row @ w), None), 0 * x[:, 0], steps)[0]


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (lambda x, w: (x - x.mean(0)) @ w, "reduce_sum"),
        (lambda x, w: (x - x[:1]) @ w, "slice"),
        (lambda x, w: jnp.sort(x, axis=0) @ w, "sort"),
        (lambda x, w: jnp.cumsum(x @ w), "cumsum"),
        (lambda x, w: jax.nn.softmax(x @ x.T) @ x @ w, "dot_general"),
        (lambda x, w: jax.jit(lambda x: x - x.max(0))(x) @ w, "reduce_max"),
        (running, "scan"),
    ],
    ids=["mean", "first row", "sorted", "cumulative", "attention", "inside jit", "running sum"],
)
def test_a_density_that_looks_at_other_rows_is_refused(regression, function, operation):
    density, _ = density_of(model_of(function), {"w": Z["w"]})
    with pytest.raises(
        ValueError, match=rf"mixes the rows of its data, in an operation `{operation}"
    ):
        check_rows_independent(density, *regression)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x @ w,
        lambda x, w: jax.nn.softmax(x, axis=1) @ w - x.mean(1),
        lambda x, w: jnp.cumsum(x, axis=1) @ w,
        lambda x, w: jax.lax.map(lambda row: row @ w, x),
        time_series,
    ],
    ids=["linear", "across features", "along features", "row by row", "over time"],
)
def test_a_density_of_each_row_by_itself_is_not(regression, function):
    density, _ = density_of(model_of(function), {"w": Z["w"]})
    check_rows_independent(density, *regression)


def test_a_prior_from_the_data_is_refused(regression):
    def model(x, y=None, *, batch_size=None):
        numpyro.factor("leak", jnp.sum(x, axis=1))
        LINEAR(x, y, batch_size=batch_size)

    names = {"net/Dense_0.bias": jnp.zeros(1), "net/Dense_0.kernel": jnp.zeros((2, 1))}
    check_rows_independent(density_of(LINEAR, names)[0], *regression)
    with pytest.raises(ValueError, match="site `leak` .* is outside the plate"):
        check_rows_independent(density_of(model, names)[0], *regression)


def test_ready_networks_are_taken():
    x = np.zeros((4, 28, 28, 1), np.float32)
    model = bnn.models.lenet()
    shapes = jax.eval_shape(
        lambda key: (
            numpyro.infer.util.initialize_model(
                key, model, model_args=(x, np.zeros(4, int))
            ).param_info.z
        ),
        jax.random.key(0),
    )
    z = jax.tree.map(lambda a: jnp.zeros(a.shape), shapes)
    check_rows_independent(density_of(model, z)[0], jnp.asarray(x), jnp.zeros(4, int))
