"""What the runner costs: time per leapfrog over the same NumPyro kernel in a bare `lax.scan`.

    python -m benchmarks overhead [--rows 100 1000 10000] [--repeats 7]

One chain of HMC with 50 leapfrogs a draw and no adaptation, on a 50-50 tanh MLP with eight
inputs (3 051 weights). The contenders take turns, and the medians over the repeats are compared:
the machine's speed drifts by more than the differences of interest.

* raw gradient: `jit(scan(grad(potential energy)))`, the floor;
* bare scan: `kernel.sample` in a `lax.scan` that collects positions;
* bayesnn_ppl: `sample`, its sampling phase; compiled before;
* numpyro MCMC: `MCMC.run` of the same number of draws, as a user calls it, which compiles at
  every call;
* BlackJAX: its HMC kernel in a `lax.scan`.
"""

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.infer import MCMC
from numpyro.infer.util import initialize_model

import bayesnn_ppl as bnn
from benchmarks.harness.tables import Table
from benchmarks.harness.timing import in_turns, median_ratio, timed
from benchmarks.speed.baselines import gradient_scan, numpyro_hmc, sine_rows, tanh_network

LEAPFROGS = 50
STEP_SIZE = 1e-4
MODEL = tanh_network()


def make_kernel() -> Any:
    """The kernel that all contenders but BlackJAX run."""
    return numpyro_hmc(MODEL, STEP_SIZE, LEAPFROGS)


def contenders(rows: int, draws: int) -> dict[str, Callable[[], float]]:
    """Name -> a function that runs once and returns the seconds of the timed part."""
    x, y = sine_rows(rows)
    info = initialize_model(jax.random.key(0), MODEL, model_args=(jnp.asarray(x), jnp.asarray(y)))
    position, potential = info.param_info.z, info.potential_fn

    kernel = make_kernel()
    state = kernel.init(jax.random.key(0), 0, position, (jnp.asarray(x), jnp.asarray(y)), {})

    def bare_scan(state: Any, x: Any, y: Any) -> Any:
        def step(state: Any, _: None) -> Any:
            state = kernel.sample(state, (x, y), {})
            return state, (state.z, state.diverging)

        return jax.lax.scan(step, state, None, length=draws)

    dimension = ravel_pytree(position)[0].size
    black = blackjax.hmc(
        lambda z: -potential(z), STEP_SIZE, jnp.ones(dimension), num_integration_steps=LEAPFROGS
    )

    def black_scan(state: Any, key: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            state, _ = black.step(key, state)
            return state, state.position

        return jax.lax.scan(step, state, jax.random.split(key, draws))

    def runner() -> float:
        posterior = bnn.sample(make_kernel(), x, y, warmup=2, draws=draws, chains=1, progress=False)
        return float(posterior.provenance["seconds"]["sample"])

    def numpyro_mcmc() -> float:
        mcmc = MCMC(make_kernel(), num_warmup=0, num_samples=draws, progress_bar=False)
        began = time.perf_counter()
        mcmc.run(jax.random.key(0), x, y)
        jax.block_until_ready(mcmc.get_samples())
        return time.perf_counter() - began

    runner()  # compiles
    return {
        "raw gradient": timed(gradient_scan(jax.grad(potential), draws * LEAPFROGS), position),
        "bare scan": timed(bare_scan, state, jnp.asarray(x), jnp.asarray(y)),
        "bayesnn_ppl": runner,
        "numpyro MCMC": numpyro_mcmc,
        "BlackJAX": timed(black_scan, black.init(position), jax.random.key(0)),
    }


def main(*, rows: tuple[int, ...] = (100, 1_000, 10_000), repeats: int = 7) -> None:
    """Print one table per number of rows."""
    warnings.simplefilter("ignore", FutureWarning)
    table = Table(
        "N >6",
        " <1",
        "contender <15",
        "us/leapfrog >12.1f",
        "/ bare scan >13.2f",
        "/ raw grad >12.2f",
    )
    for count in rows:
        draws = int(np.clip(200_000 // count, 20, 1000))
        seconds = in_turns(contenders(count, draws), repeats)
        for name, values in seconds.items():
            microseconds = 1e6 * statistics.median(values) / (draws * LEAPFROGS)
            ratios = (median_ratio(values, seconds[o]) for o in ("bare scan", "raw gradient"))
            table.row(count, None, name, microseconds, *ratios)
