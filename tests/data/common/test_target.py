import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from bayesnn_ppl.data import Labels, Standardisation, StandardisedTarget

UNITS = Standardisation(np.zeros(1), np.ones(1), 3.0, 2.0)


@pytest.fixture
def y():
    return StandardisedTarget(np.linspace(-1, 1, 12, dtype=np.float32), UNITS)


@pytest.mark.parametrize(
    "select",
    [
        lambda y: y[2:7],
        lambda y: y[::-1],
        lambda y: y[...],
        lambda y: y[[3, 1]],
        lambda y: y[y > 0],
        lambda y: y[np.array([0, 2])],
        lambda y: y[jnp.array([0, 2])],
        lambda y: y[2:7][1:],
        lambda y: y.copy(),
        copy.copy,
        copy.deepcopy,
        lambda y: pickle.loads(pickle.dumps(y)),
        lambda y: y.astype(np.float64),
    ],
)
def test_rows_and_copies_keep_the_units(y, select):
    kept = select(y)
    assert isinstance(kept, StandardisedTarget) and kept.standardisation == UNITS
    np.testing.assert_array_equal(kept, select(np.asarray(y)))


@pytest.mark.parametrize(
    "operation",
    [
        lambda y: y + 1,
        lambda y: 2 * y,
        lambda y: -y,
        lambda y: y - y,
        lambda y: y > 0,
        lambda y: y.cumsum(),
        lambda y: y.round(),
        lambda y: y.clip(0, 1),
        lambda y: y.mean(keepdims=True),
        lambda y: np.exp(y),
        lambda y: np.add.reduce(y[None], axis=0),
        lambda y: np.add.accumulate(y),
        lambda y: np.add(y, 1, out=np.empty(12, np.float32)),
        lambda y: np.concatenate([y, y]),
        lambda y: np.stack([y, y]),
        lambda y: np.sort(y),
        lambda y: np.asarray(y),
        lambda y: np.array(y),
        lambda y: y[None],
        lambda y: y[:, None],
        lambda y: y[np.array([[0, 1]])],
    ],
)
def test_every_other_result_is_a_plain_array(y, operation):
    result = operation(y)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, operation(np.asarray(y)))


@pytest.mark.parametrize("view", [lambda y: y.reshape(3, 4), lambda y: y.view(np.int32)])
def test_other_views_forget_the_units(y, view):
    assert getattr(view(y), "standardisation", None) is None


def test_entries_and_reductions_are_plain_scalars(y):
    assert type(y[0]) is np.float32 and type(y.sum()) is np.float32
    assert type(y.astype(np.int32)) is np.ndarray


def test_an_update_in_place_forgets_the_units(y):
    y *= 2
    assert getattr(y, "standardisation", None) is None
    other = StandardisedTarget(np.zeros(3), UNITS)
    np.add(other, 1, out=other)
    assert other.standardisation is None and other.sum() == 3


def test_selecting_outputs_forgets_the_units():
    units = Standardisation(np.zeros(1), np.ones(1), np.zeros(2), np.ones(2))
    y = StandardisedTarget(np.zeros((5, 2)), units)
    assert y[1:3].standardisation == units
    for other in (y[0], y[:, 0], y[:, ::-1], y[:, [1, 0]], y[1:3, :1]):
        assert type(other) is np.ndarray


def test_jax_sees_an_array_like_any_other(y):
    plain = np.asarray(y)
    double = jax.jit(lambda values: 2 * values)
    np.testing.assert_array_equal(double(y), 2 * plain)
    double(plain)
    assert double._cache_size() == 1
    assert isinstance(jnp.asarray(y), jax.Array) and isinstance(jax.device_put(y), jax.Array)
    np.testing.assert_allclose(jax.vmap(jnp.square)(y), plain**2)
    np.testing.assert_allclose(jax.grad(lambda values: (values**2).sum())(y), 2 * plain)
    kept = jax.tree.map(lambda leaf: leaf, (y,))[0]
    assert kept.standardisation == UNITS


def test_numpyro_models_take_it_unchanged(y):
    def model(y, batch_size=None):
        location = numpyro.sample("location", dist.Normal(0, 1))
        with numpyro.plate("data", len(y), subsample_size=batch_size):
            batch = numpyro.subsample(y, event_dim=0)
            numpyro.sample("y", dist.Normal(location, 1), obs=batch)

    def log_density(values, batch_size=None):
        seeded = numpyro.handlers.seed(model, 0)
        return numpyro.infer.util.log_density(seeded, (values, batch_size), {}, {"location": 0.5})[
            0
        ]

    assert log_density(y) == log_density(np.asarray(y))
    assert log_density(y, 4) == log_density(np.asarray(y), 4)
    kernel = numpyro.infer.NUTS(model)
    sampler = numpyro.infer.MCMC(kernel, num_warmup=5, num_samples=5, progress_bar=False)
    sampler.run(jax.random.PRNGKey(0), y)
    assert sampler.get_samples()["location"].shape == (5,)


def test_labels_keep_the_standardisation_of_their_inputs():
    units = Standardisation([1.0], [2.0], 0.0, 1.0)
    labels = Labels(np.arange(3, dtype=np.int32), units)
    for kept in (labels[1:], labels.astype(np.int64), pickle.loads(pickle.dumps(labels))):
        assert isinstance(kept, Labels) and kept.standardisation == units
    for plain in (labels.astype(np.float32), labels + 1, labels == 1):
        assert type(plain) is np.ndarray
    np.testing.assert_array_equal(units.apply_y(labels), [0, 1, 2])
