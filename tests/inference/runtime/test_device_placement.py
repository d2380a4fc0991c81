"""Which chains share a device, and whether they run in a batch there."""

import jax
import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.runtime import device_placement
from bayesnn_ppl.inference.runtime.device_placement import (
    chains_at_once,
    members_together,
    place_chains,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3)).astype(np.float32)
Y = X[:, 0]
IMAGES = RNG.normal(size=(10, 28, 28, 1)).astype(np.float32)
LABELS = np.arange(10, dtype=np.int32)


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


@pytest.mark.parametrize(
    ("chains", "each", "free", "expected"),
    [
        (10, 1.0, None, "vmap"),  # a device that does not say what it has
        (10, 1.0, 12.5, "vmap"),
        (10, 1.0, 12.4, 5),  # 9 fit: twice 5
        (10, 1.0, 5.0, 4),  # 4 fit: 4, 4 and 2
        (10, 100.0, 5.0, 1),  # not even one, by the estimate: then the run itself finds out
    ],
)
def test_as_many_chains_at_once_as_the_memory_holds(chains, each, free, expected) -> None:
    assert chains_at_once(chains, each, free) == expected


@pytest.mark.check
def test_chains_in_batches_draw_what_they_draw_in_one(monkeypatch) -> None:
    """Also where the last batch is smaller."""
    place, draws = device_placement.place_chains, {}
    for how in ("vmap", 2):
        monkeypatch.setattr(
            "bayesnn_ppl.inference.sampling.plan.place_chains",
            lambda *a, how=how, **k: (place(*a, **k)[0], how),
        )
        run = bnn.sample(
            bnn.kernels.HMC(bnn.models.mlp(hidden=()), num_leapfrogs=3),
            X,
            Y,
            warmup=5,
            draws=5,
            chains=3,
            mesh=bnn.device_mesh(1),
            progress=False,
            float64=True,
        )
        assert run.provenance["devices"]["chains_of_one_device"] == how
        draws[how] = run.draws["net.Dense_0.kernel"]
    np.testing.assert_allclose(draws[2], draws["vmap"], rtol=1e-9)
    assert np.ptp(draws[2], axis=0).min() > 1e-6  # no chain was drawn twice
