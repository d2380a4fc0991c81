"""Which chains share a device, and whether they run in a batch there."""

import jax
import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.arrangement import matrix_products, members_together, place_chains

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3)).astype(np.float32)
Y = X[:, 0]
IMAGES = RNG.normal(size=(10, 28, 28, 1)).astype(np.float32)
LABELS = np.arange(10, dtype=np.int32)
WORDS = RNG.integers(0, 50, (4, 100)).astype(np.int32)


@pytest.mark.parametrize(
    ("model", "x", "y", "at_least", "at_most"),
    [
        (bnn.models.mlp(hidden=()), X, Y, 1, 1),
        (bnn.models.logistic(classes=10), IMAGES, LABELS, 1, 1),
        (bnn.models.mlp(hidden=(5,)), X, Y, 2, 2),
        (bnn.models.mlp(hidden=(5, 5)), X, Y, 3, 3),
        (bnn.models.lenet(), IMAGES, LABELS, 5, 5),
        (bnn.models.cnn_lstm(), WORDS, LABELS[:4] % 2, 3, 99),
    ],
)
def test_matrix_products_are_counted_in_the_program(model, x, y, at_least, at_most) -> None:
    assert at_least <= matrix_products(model, x, y) <= at_most


def test_chains_of_a_cpu_device_are_batched_for_linear_models_alone() -> None:
    assert jax.devices()[0].platform == "cpu"
    linear, deep = bnn.models.mlp(hidden=()), bnn.models.mlp(hidden=(5,))
    one = bnn.device_mesh(1)
    assert place_chains("parallel", one, 4, linear, X, Y)[1] == "vmap"
    assert place_chains("parallel", one, 4, deep, X, Y)[1] == "map"
    # A device with one chain has nothing to batch.
    assert place_chains("parallel", one, 1, linear, X, Y)[1] == "map"
    assert place_chains("sequential", None, 4, linear, X, Y)[1] == "map"
    assert place_chains("vectorized", None, 4, deep, X, Y)[1] == "vmap"


@pytest.mark.parametrize(
    ("model", "x", "together"),
    [
        (bnn.models.mlp(hidden=(50,)), X, True),
        (bnn.models.mlp(hidden=(50, 50)), np.zeros((32, 8), np.float32), True),
        (bnn.models.mlp(hidden=(50, 50)), np.zeros((128, 8), np.float32), False),
        (bnn.models.mlp(hidden=(256,)), np.zeros((32, 784), np.float32), False),
        (bnn.models.lenet(), IMAGES, False),
    ],
)
def test_members_of_a_cpu_device_are_trained_together_where_products_are_small(
    model, x, together
) -> None:
    one = bnn.device_mesh(1)
    y = LABELS if x is IMAGES else np.zeros(len(x), np.float32)
    found = members_together(one, 5, model, x, y, may_stop=False)
    assert found == ("vmap" if together else "map")
    assert members_together(one, 5, model, x, y, may_stop=True) == "map"
    assert members_together(one, 1, model, x, y, may_stop=False) == "map"


def test_the_provenance_shows_the_arrangement() -> None:
    kernel = bnn.kernels.RandomWalk(bnn.models.mlp(hidden=()))
    run = bnn.sample(
        kernel, X, Y, warmup=2, draws=2, chains=2, mesh=bnn.device_mesh(1), progress=False
    )
    assert run.provenance["devices"]["chains_of_one_device"] == "vmap"
    assert run.provenance["devices"]["mesh"] == {"chain": 1, "data": 1}
