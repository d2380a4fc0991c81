"""Models that depend on the number of rows, on their order or on each other are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import lax
from numpyro import handlers

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.common.minibatch_density import MinibatchDensity
from bayesnn_ppl.inference.kernels.common.row_independence import check_rows_independent

ROWS, FEW = 100, 10
X = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
Y = X.sum(1)
KEY = jax.random.key(3)


def mean(x, w, place):
    return x @ w


def model_of(function=mean, width=lambda x: 1.0, around=None):
    """Slopes `w` of prior width `width(x)`; the mean `function(x, w, the plate's index)`."""

    def model(x, y=None, *, batch_size=None):
        w = numpyro.sample("w", dist.Normal(0.0, width(x)).expand([3]).to_event(1))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size) as place:
            x, y = bnn.minibatch(x, y)
            loc = function(jnp.asarray(x), w, place)
            if around is None:
                numpyro.sample("y", dist.Normal(loc, 1.0), obs=y)
            else:
                with around(x):
                    numpyro.sample("y", dist.Normal(loc, 1.0), obs=y)

    return model


def check(model, few=FEW):
    density = MinibatchDensity(model, ROWS, lambda vector: {"w": vector}, 3)
    check_rows_independent(density, X, Y, few)


def problem(model, few=FEW):
    """What `check` says against a model; empty where it takes it."""
    try:
        check(model, few)
    except ValueError as error:
        return str(error)
    return ""


def count(x):
    return jnp.arange(x.shape[0])


def group(x):
    return (x[:, 0] > 0).astype(int)


def counted(x, w, place):
    """A scan over the rows that carries no data, but how many were before."""
    return lax.scan(lambda before, row: (before + 1, row @ w * before), 0, x)[1]


def repeated(x):
    """A loop that goes on as often as there are rows."""
    return lax.while_loop(lambda i: i < len(x), lambda i: i + 1.0, 0.0)


def halved(row):
    return lax.while_loop(lambda row: abs(row[0]) > 1, lambda row: row / 2, row)


def unfilled(x):
    return jnp.zeros(x.shape[0])


@pytest.mark.parametrize(
    ("model", "site"),
    [
        (model_of(width=lambda x: 1 / np.sqrt(x.shape[0])), "w"),
        (model_of(width=lambda x: 1 / jnp.sqrt(x.shape[0])), "w"),
        (model_of(width=lambda x: 1.0 if len(x) > 50 else 2.0), "w"),
        (model_of(width=lambda x: jnp.ones(len(x)).sum()), "w"),
        (model_of(width=lambda x: np.full(3, x.shape[0])), "w"),
        (model_of(around=lambda x: handlers.scale(scale=10 / x.shape[0])), "y"),
        (model_of(lambda x, w, place: x @ w**4 * x.shape[0]), "y"),
        (model_of(lambda x, w, place: x @ w ** len(x)), "y"),
        (model_of(lambda x, w, place: lax.fori_loop(0, 3, lambda i, a: a / len(x), x @ w)), "y"),
        (model_of(lambda x, w, place: x @ w * repeated(x)), "y"),
        (model_of(lambda x, w, place: jnp.linspace(0, 1, len(x)) * w[0]), "y"),
        (
            model_of(
                lambda x, w, place: jnp.einsum(
                    "ni,ij,jk,k->n", x, jnp.ones((3, 40)), jnp.ones((40, 3)), w / len(x)
                )
            ),
            "y",
        ),
    ],
    ids=[
        "NumPy",
        "JAX",
        "branch",
        "ones",
        "array",
        "scale",
        "factor",
        "power",
        "loop",
        "while",
        "space",
    ]
    + ["in another order"],
)
def test_a_model_of_the_number_of_rows_is_refused(model, site):
    with pytest.raises(ValueError, match=rf"depends on the number of rows.*its site `{site}` does"):
        check(model)


def test_a_site_for_many_rows_alone_is_refused():
    def model(x, y=None, *, batch_size=None):
        model_of()(x, y)
        if x.shape[0] > 50:
            numpyro.factor("many", 1.0)

    with pytest.raises(ValueError, match=r"depends on the number of rows.*\['many'\]"):
        check(model)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, place: x @ w + place / 100,
        lambda x, w, place: x @ w + w[count(x) % 3],
        lambda x, w, place: x @ w + np.linspace(0, 1, x.shape[0]),
        lambda x, w, place: x @ w + jnp.concatenate([jnp.zeros(1), jnp.arange(len(x) - 1.0)]),
        lambda x, w, place: x @ w + jnp.cumsum(jnp.ones(len(x))),
        lambda x, w, place: x.at[0].set(0.0) @ w,
        lambda x, w, place: lax.dynamic_update_slice(x, jnp.zeros((1, 3)), (0, 0)) @ w,
        lambda x, w, place: lax.map(lambda both: both[0] @ w + both[1], (x, count(x))),
        lambda x, w, place: jnp.where(count(x) < 5, 0.0, x @ w),
        counted,
    ],
    ids=["plate", "season", "NumPy", "one less", "cumulative", "first", "slice", "map", "mask"]
    + ["scan"],
)
def test_a_model_of_the_position_of_a_row_is_refused(function):
    with pytest.raises(ValueError, match="`y` depends on the position of a row among those"):
        check(model_of(function))


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (lambda x, w, place: x[jnp.maximum(count(x) - 1, 0)] @ w, "gather"),
        (lambda x, w, place: jnp.take(x, count(x) - 1, axis=0) @ w, "gather"),
        (lambda x, w, place: (x + x[jax.random.permutation(KEY, len(x))]) @ w, "gather"),
        (lambda x, w, place: x[group(x)] @ w, "gather"),
        (
            lambda x, w, place: lax.cond(w[0] > 0, lambda a: a[group(a)], lambda a: a, x) @ w,
            "gather",
        ),
        (
            lambda x, w, place: (
                lax.while_loop(lambda a: w[0] > 0, lambda a: a - a.mean(0, keepdims=True), x) @ w
            ),
            "reduce_sum",
        ),
        (lambda x, w, place: unfilled(x).at[group(x)].add(x @ w), "scatter-add"),
        (lambda x, w, place: jnp.concatenate([x, x])[1 : 1 + len(x)] @ w, "slice"),
        (lambda x, w, place: jnp.roll(x, w[0].astype(int), axis=0) @ w, "dynamic_slice"),
        (lambda x, w, place: jnp.tril(jnp.ones((len(x), len(x)))) @ x @ w, "dot_general"),
        (lambda x, w, place: jnp.convolve(x @ w, jnp.ones(3), "same"), "conv_general_dilated"),
        (lambda x, w, place: lax.pad(x @ w, 0.0, [(1, -1, 0)]), "pad"),
        (
            lambda x, w, place: lax.reduce_window(x @ w, 0.0, lax.add, (3,), (1,), "SAME"),
            "reduce_window_sum",
        ),
    ],
    ids=["lagged", "taken", "mixup", "by value", "in a branch", "in a loop", "added", "cut"]
    + ["rolled by a weight", "matrix", "convolved", "shifted", "window"],
)
def test_rows_that_take_those_of_others_are_refused(function, operation):
    with pytest.raises(ValueError, match=rf"mixes the rows of its data, .* `{operation}`"):
        check(model_of(function))


def cropped(x):
    keys = jax.random.split(KEY, len(x))
    return jax.vmap(
        lambda row, key: lax.dynamic_slice(row, (jax.random.randint(key, (), 0, 2),), (2,))
    )(x, keys)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, place: x[place] @ w,
        lambda x, w, place: x[np.arange(len(x))] @ w,
        lambda x, w, place: jnp.take(x, place, axis=0, mode="clip") @ w,
        lambda x, w, place: x[count(x), group(x)] * w[0],
        lambda x, w, place: x.at[count(x), group(x)].set(0.0) @ w,
        lambda x, w, place: x.at[:, 0].set(0.0) @ w,
        lambda x, w, place: jax.vmap(lambda i: x[i] @ w)(count(x)),
        lambda x, w, place: w[group(x)],
        lambda x, w, place: jnp.take_along_axis(x, group(x)[:, None], 1)[:, 0] * w[0],
        lambda x, w, place: cropped(x) @ w[:2],
        lambda x, w, place: jnp.where(jax.random.bernoulli(KEY, 0.5, (len(x), 1)), x, -x) @ w,
        lambda x, w, place: (
            x @ w + jax.vmap(lambda i: jax.random.normal(jax.random.fold_in(KEY, i)))(count(x))
        ),
        lambda x, w, place: jnp.concatenate([x, -x])[len(x) :] @ w,
        lambda x, w, place: lax.fori_loop(0, 3, lambda i, sums: sums + x[:, i] * w[i], unfilled(x)),
        lambda x, w, place: (
            lax.while_loop(
                lambda state: state[0] < 3, lambda state: (state[0] + 1, state[1] / 2), (0, x)
            )[1]
            @ w
        ),
        lambda x, w, place: jax.vmap(halved)(x) @ w,
        lambda x, w, place: lax.cond(w[0] > 0, lambda a: a @ w, lambda a: -(a @ w), x),
        lambda x, w, place: x @ w + np.ones(len(x), np.float32),
        lambda x, w, place: jnp.einsum("ni,ij,jk,k->n", x, jnp.ones((3, 40)), jnp.ones((40, 3)), w),
    ],
    ids=["plate", "NumPy", "taken", "picked", "put", "column", "one by one", "table", "along"]
    + [
        "cropped",
        "flipped",
        "noise",
        "doubled",
        "loop",
        "while",
        "until small",
        "branch",
        "ones",
        "products",
    ],
)
@pytest.mark.parametrize("few", [1, FEW])
def test_rows_by_themselves_are_not(function, few):
    assert problem(model_of(function), few) == ""


def test_nor_are_weights_and_masks_of_rows():
    def weighted(x):
        return handlers.scale(scale=jnp.exp(x[:, 0]))

    def masked(x):
        return handlers.mask(mask=x[:, 0] > 0)

    for around in (weighted, masked, lambda x: handlers.scale(scale=0.3)):
        assert problem(bnn.cold(model_of(around=around), 0.5)) == ""


def test_the_line_of_the_model_is_named():
    def model(x, y=None, *, batch_size=None):
        w = numpyro.sample("w", dist.Normal().expand([3]).to_event(1))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            numpyro.sample("y", dist.Normal(x[::-1] @ w, 1.0), obs=y)

    line = model.__code__.co_firstlineno + 3
    assert f'`rev` (line {line} of "test_row_independence.py"): with a few rows' in problem(model)


@pytest.mark.parametrize(
    "kernel",
    [
        lambda model: bnn.kernels.SGHMC(model, step_size=1e-3, batch_size=FEW),
        lambda model: bnn.kernels.HMC(model, num_leapfrogs=2, rows_at_once=FEW),
    ],
    ids=["minibatches", "rows_at_once"],
)
@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (model_of(width=lambda x: 1 / np.sqrt(x.shape[0])), "the number of rows"),
        # Of the few rows that such a kernel has at a time, and of all: of 10 007 it is as of all.
        (model_of(width=lambda x: 1.0 if len(x) > 50 else 2.0), "the number of rows"),
        (model_of(lambda x, w, place: x @ w + place / 100), "the position of a row"),
        (model_of(lambda x, w, place: x[jnp.maximum(count(x) - 1, 0)] @ w), "mixes the rows"),
    ],
    ids=["number", "branch", "position", "mixed"],
)
def test_kernels_refuse_what_they_would_sample_wrongly(kernel, model, sentence):
    with pytest.raises(ValueError, match=sentence):
        bnn.sample(kernel(model), X, Y, warmup=0, draws=1, chains=1, progress=False)
