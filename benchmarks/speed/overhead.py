"""What a leapfrog costs: ours, NumPyro's and BlackJAX's, over the gradient that each needs.

    python -m benchmarks overhead [--rows 100 1000 10000] [--repeats 7]
        [--out benchmarks/results/overhead.json]

One chain of HMC with 50 leapfrogs a draw and no adaptation, on a 50-50 tanh MLP with eight
inputs (3 051 weights). The contenders take turns, and the medians over the repeats are compared:
the machine's speed drifts by more than the differences of interest.

* raw gradient: `jit(scan(grad(potential energy)))`, the floor;
* bare scan: `kernel.sample` of NumPyro's HMC in a `lax.scan` that collects positions;
* bayesnn_ppl: that kernel under `sample`, its sampling phase; compiled before;
* bayesnn_ppl HMC: the same of our own HMC;
* numpyro MCMC: `MCMC.run` of the same number of draws, as a user calls it, with compilation;
* numpyro MCMC, again: a second `run` of one `MCMC`, which has compiled before;
* BlackJAX: its HMC kernel in a `lax.scan`.
"""

import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.infer import MCMC
from numpyro.infer.util import initialize_model

import bayesnn_ppl as bnn
from benchmarks.harness.records import Record
from benchmarks.harness.tables import Table
from benchmarks.harness.timing import in_turns, median_ratio, timed
from benchmarks.speed.baselines import gradient_scan, numpyro_hmc, sine_rows, tanh_network

LEAPFROGS = 50
STEP_SIZE = 1e-4
MODEL = tanh_network()


def make_kernel() -> Any:
    """NumPyro's kernel, with a fixed step."""
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

    ours = bnn.kernels.HMC(
        MODEL, step_size=STEP_SIZE, num_leapfrogs=LEAPFROGS, jitter=0.0, adapt_step_size=False
    )

    def runner(kernel: Any) -> Callable[[], float]:
        def run() -> float:
            posterior = bnn.sample(kernel, x, y, warmup=2, draws=draws, chains=1, progress=False)
            return float(posterior.provenance["seconds"]["sample"])

        run()  # compiles
        return run

    def numpyro_mcmc() -> Any:
        return MCMC(make_kernel(), num_warmup=0, num_samples=draws, progress_bar=False)

    def numpyro_run(mcmc: Any) -> float:
        began = time.perf_counter()
        mcmc.run(jax.random.key(0), x, y)
        jax.block_until_ready(mcmc.get_samples())
        return time.perf_counter() - began

    numpyro_run(compiled := numpyro_mcmc())
    return {
        "raw gradient": timed(gradient_scan(jax.grad(potential), draws * LEAPFROGS), position),
        "bare scan": timed(bare_scan, state, jnp.asarray(x), jnp.asarray(y)),
        "bayesnn_ppl": runner(kernel),
        "bayesnn_ppl HMC": runner(ours),
        "numpyro MCMC": lambda: numpyro_run(numpyro_mcmc()),
        "numpyro MCMC, again": lambda: numpyro_run(compiled),
        "BlackJAX": timed(black_scan, black.init(position), jax.random.key(0)),
    }


def main(
    *,
    rows: tuple[int, ...] = (100, 1_000, 10_000),
    repeats: int = 7,
    out: Path | None = None,
) -> None:
    """Print one table per number of rows.

    Args:
        out: a JSON file for the figures.
    """
    warnings.simplefilter("ignore", FutureWarning)
    table = Table(
        "N >6",
        " <1",
        "contender <20",
        "us/leapfrog >11.1f",
        "/ bare scan >13.2f",
        "/ raw grad >12.2f",
        "least/least >13.2f",
    )
    record = Record(out)
    for count in rows:
        draws = int(np.clip(200_000 // count, 20, 1000))
        seconds = in_turns(contenders(count, draws), repeats)
        bare, raw = seconds["bare scan"], seconds["raw gradient"]
        found = {
            name: {
                "microseconds": 1e6 * statistics.median(values) / (draws * LEAPFROGS),
                "over bare scan": median_ratio(values, bare),
                "over raw gradient": median_ratio(values, raw),
                "least over least": min(values) / min(raw),
            }
            for name, values in seconds.items()
        }
        record[str(count)] = {"draws": draws, "contenders": found}
        for name, row in found.items():
            table.row(count, None, name, *row.values())
