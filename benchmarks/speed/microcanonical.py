"""What a step of unadjusted microcanonical Langevin costs over the two gradients it needs.

    python -m benchmarks microcanonical [--rows 100 1000] [--repeats 9]

One chain on a 50-50 tanh MLP with eight inputs (3 051 weights), at fixed settings: L = √d and
1/100 of it for the step, about what the warm-up sets on networks. The contenders take turns, and
the medians over the repeats are compared: the machine's speed drifts by more than the
differences of interest.

* two raw gradients: `jit(scan(grad(potential energy)))` of one vector, the floor, and of a
  dictionary of sites;
* MCLMC: `sample` of bayesnn_ppl, its sampling phase, compiled before, draws and statistics kept;
* MCLMC, every step: with a refreshment of the velocity after every step;
* BlackJAX: its MCLMC kernel in a `lax.scan` that keeps as many positions.
"""

import math
import statistics
import warnings
from collections.abc import Callable
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.infer.util import initialize_model

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.full_batch.microcanonical.mclmc import MCLMC
from benchmarks.harness.tables import Table
from benchmarks.harness.timing import in_turns, median_ratio, timed
from benchmarks.speed.baselines import gradient_scan, sine_rows, tanh_network

MODEL = tanh_network()
STEPS_PER_DRAW = 50


def contenders(rows: int, draws: int) -> dict[str, Callable[[], float]]:
    """Name -> a function that runs once and returns the seconds of the timed part."""
    x, y = sine_rows(rows)
    info = initialize_model(jax.random.key(0), MODEL, model_args=(jnp.asarray(x), jnp.asarray(y)))
    position, potential = info.param_info.z, info.potential_fn
    length = math.sqrt(ravel_pytree(position)[0].size)
    step_size = length / 100

    vector, unravel = ravel_pytree(position)
    count = 2 * draws * STEPS_PER_DRAW
    flat = jax.grad(lambda vector: potential(unravel(vector)))

    def ours(refreshments: int | None) -> Callable[[], float]:
        kernel = MCLMC(
            MODEL,
            steps_per_draw=STEPS_PER_DRAW,
            step_size=step_size,
            length=length,
            adapt_step_size=False,
            preconditioning="identity",
            refreshments_per_length=refreshments,
        )

        def run() -> float:
            posterior = bnn.sample(
                kernel, x, y, warmup=2, draws=draws, chains=1, progress=False, seed=0
            )
            return float(posterior.provenance["seconds"]["sample"])

        run()  # compiles
        return run

    def logdensity(z: Any) -> Any:
        return -potential(z)

    def black_scan(state: Any, key: Any) -> Any:
        kernel = blackjax.mclmc(logdensity, L=length, step_size=step_size)

        def step(state: Any, key: Any) -> Any:
            return kernel.step(key, state)[0], None

        def draw(state: Any, key: Any) -> Any:
            state, _ = jax.lax.scan(step, state, jax.random.split(key, STEPS_PER_DRAW))
            return state, state.position

        return jax.lax.scan(draw, state, jax.random.split(key, draws))

    key = jax.random.key(0)
    black = blackjax.mclmc(logdensity, L=length, step_size=step_size).init(position, key)
    return {
        "two gradients": timed(gradient_scan(flat, count), vector),
        "the same, as sites": timed(gradient_scan(jax.grad(potential), count), position),
        "MCLMC": ours(4),
        "MCLMC, every step": ours(None),
        "BlackJAX": timed(black_scan, black, key),
    }


def main(*, rows: tuple[int, ...] = (100, 1_000), repeats: int = 9) -> None:
    """Print one table per number of rows."""
    warnings.simplefilter("ignore", FutureWarning)
    table = Table("N >6", " <1", "contender <19", "us/step >9.1f", "/ two gradients >17.2f")
    for count in rows:
        draws = int(np.clip(1_000_000 // count // STEPS_PER_DRAW, 10, 200))
        seconds = in_turns(contenders(count, draws), repeats)
        for name, values in seconds.items():
            microseconds = 1e6 * statistics.median(values) / (draws * STEPS_PER_DRAW)
            ratio = median_ratio(values, seconds["two gradients"])
            table.row(count, None, name, microseconds, ratio)
