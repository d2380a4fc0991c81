"""Gradients of convolutional networks: inside a compiled loop over the same jitted alone.

    python -m benchmarks convolutions [--repeats 9]

One step is the gradient of the potential energy and a move of all parameters along it: alone
(compiled, called from Python) and as the body of a `lax.scan` of four steps. Each network is
timed with the library's own layers and with Flax's convolution and max pool in their place. All
contenders take turns, and medians over the repeats are compared: a ratio of 1 means that a loop
costs nothing, as it should. On a CPU, Flax's convolution shows jax issue 12868.
"""

import statistics
import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.util import initialize_model

import bayesnn_ppl as bnn
from benchmarks.harness.tables import Table
from benchmarks.harness.timing import Run, in_turns, timed
from benchmarks.speed.baselines import gradient_scan, move

STEPS = 4
# Name -> model, shape of the inputs, highest token (0 for images), classes.
CASES: dict[str, tuple[Callable[[], Any], tuple[int, ...], int, int]] = {
    "lenet, B = 128": (bnn.models.lenet, (128, 32, 32, 3), 0, 10),
    "cnn_lstm, B = 80": (bnn.models.cnn_lstm, (80, 100), 20_000, 2),
    "resnet20_frn, B = 16": (bnn.models.resnet20_frn, (16, 32, 32, 3), 0, 10),
}
LAYERS: dict[str, dict[str, Any]] = {
    "bayesnn_ppl": {"Conv": bnn.nn.Conv, "max_pool": bnn.nn.max_pool},
    "Flax": {"Conv": flax.linen.Conv, "max_pool": flax.linen.max_pool},
}


def contenders(case: str, layers: str) -> list[tuple[str, Run]]:
    """One step alone, and a loop of them, of one network with one kind of layers."""
    make, shape, tokens, classes = CASES[case]
    generator = np.random.default_rng(0)
    x = generator.integers(tokens, size=shape) if tokens else generator.normal(size=shape)
    data = (
        jnp.asarray(x, jnp.int32 if tokens else jnp.float32),
        generator.integers(classes, size=shape[0]),
    )
    # The networks look their layers up when they are traced.
    with patch.multiple(bnn.nn, **LAYERS[layers]):
        info = initialize_model(jax.random.key(0), make(), model_args=data)
        position, potential = info.param_info.z, info.potential_fn

        gradient = jax.grad(potential)
        return [
            ("alone", timed(lambda z: move(gradient, z), position)),
            ("in a loop", timed(gradient_scan(gradient, STEPS), position)),
        ]


def main(*, repeats: int = 9) -> None:
    """Print one line per network and kind of layers."""
    warnings.simplefilter("ignore", FutureWarning)
    table = Table(
        "network <23", "layers <12", "alone, ms >10.1f", "in a loop >11.1f", "ratio >8.2f"
    )
    for case in CASES:
        runs = {(layers, place): r for layers in LAYERS for place, r in contenders(case, layers)}
        seconds = in_turns(runs, repeats)
        for layers in LAYERS:
            alone = statistics.median(seconds[layers, "alone"])
            inside = statistics.median(seconds[layers, "in a loop"]) / STEPS
            table.row(case, layers, 1e3 * alone, 1e3 * inside, inside / alone)
