"""What a leapfrog of our HMC costs: its time over that of the gradient it cannot do without.

    python -m benchmarks leapfrog [--rows 100 1000] [--leapfrogs 50 500] [--repeats 21]
        [--out benchmarks/results/leapfrog.json]

One chain on a 50-50 tanh MLP with eight inputs (3 051 weights), a fixed step, the same density for
all. Everything a draw needs is included: momenta, the accept step, the draws kept. The contenders
take short turns, and ratios are medians over the turns: the machine's speed drifts by more than
the differences of interest. On a machine that others use, the ratio of the least times (last
column) is the steadier one.

* raw gradient: `jit(scan(grad(potential energy)))` on the dictionary of weights, the floor;
* raw, two arrays: the same, and the gradient is carried to the next step as a momentum would be;
* raw, flat: the first on one vector of all weights;
* HMC: `kernel.sample` of ours in a `lax.scan` that collects positions;
* HMC, jitter: its number of leapfrogs is drawn anew for each draw;
* HMC, sample: the sampling phase of `bnn.sample`;
* NumPyro: its HMC kernel in a `lax.scan` that collects positions.
"""

import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from numpyro.infer.util import initialize_model

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.full_batch.hmc import HMC
from benchmarks.harness.records import Record
from benchmarks.harness.tables import Table
from benchmarks.harness.timing import Run, in_turns, median_ratio, timed
from benchmarks.speed.baselines import gradient_scan, numpyro_hmc, sine_rows, tanh_network

STEP_SIZE = 1e-4
MODEL = tanh_network()


def our_kernel(leapfrogs: int, jitter: float = 0.0) -> HMC:
    """HMC with a fixed step."""
    return HMC(
        MODEL, step_size=STEP_SIZE, num_leapfrogs=leapfrogs, jitter=jitter, adapt_step_size=False
    )


def contenders(rows: int, leapfrogs: int, draws: int) -> dict[str, tuple[Run, float]]:
    """Name -> (a function that runs once and returns the seconds, the leapfrogs it makes)."""
    x, y = sine_rows(rows)
    data = (jnp.asarray(x), jnp.asarray(y))
    info = initialize_model(jax.random.key(0), MODEL, model_args=data)
    position, potential = info.param_info.z, info.potential_fn
    density = Density.at(MODEL, data, {}, position)
    count = draws * leapfrogs

    def two_arrays(z: Any) -> Any:
        def step(carry: Any, _: None) -> Any:
            z, gradient = carry
            fresh = jax.grad(potential)(z)
            return (jax.tree.map(lambda a, g: a - 1e-9 * g, z, gradient), fresh), None

        return jax.lax.scan(step, (z, z), None, length=count)[0]

    def scan_of(kernel: Any, made: Callable[[Any], Any]) -> tuple[Run, float]:
        state = kernel.init(jax.random.key(0), 0, position, data, {})

        def scan(state: Any, *data: Any) -> Any:
            def step(state: Any, _: None) -> Any:
                state = kernel.sample(state, data, {})
                return state, (state.z, made(state))

            return jax.lax.scan(step, state, None, length=draws)[1]

        steps = jax.jit(scan)(state, *data)[1]
        return timed(scan, state, *data), float(jnp.sum(steps))

    # The runner's clock counts milliseconds, so its turns are longer.
    longer = 5 * draws

    def in_sample() -> float:
        posterior = bnn.sample(
            our_kernel(leapfrogs), x, y, warmup=2, draws=longer, chains=1, progress=False
        )
        return float(posterior.provenance["seconds"]["sample"])

    in_sample()  # compiles
    return {
        "raw gradient": (timed(gradient_scan(jax.grad(potential), count), position), count),
        "raw, two arrays": (timed(two_arrays, position), count),
        "raw, flat": (
            timed(gradient_scan(density.gradient, count), ravel_pytree(position)[0]),
            count,
        ),
        "HMC": scan_of(our_kernel(leapfrogs), lambda state: state.num_steps),
        "HMC, jitter": scan_of(our_kernel(leapfrogs, 0.2), lambda state: state.num_steps),
        "HMC, sample": (in_sample, longer * leapfrogs),
        "NumPyro": scan_of(numpyro_hmc(MODEL, STEP_SIZE, leapfrogs), lambda state: state.num_steps),
    }


def main(
    *,
    rows: tuple[int, ...] = (100, 1_000),
    leapfrogs: tuple[int, ...] = (50, 500),
    repeats: int = 21,
    out: Path | None = None,
) -> None:
    """Print one table per number of rows and of leapfrogs.

    Args:
        out: a JSON file for the figures.
    """
    warnings.simplefilter("ignore", FutureWarning)
    table = Table(
        "N >6", "leapfrogs >10", " <1", "contender <15", "us/leapfrog >12.1f",
        "/ raw grad >11.3f", "/ flat >8.3f", "least/least >12.3f",
    )  # fmt: skip
    record = Record(out)
    for count in rows:
        for length in leapfrogs:
            # A tenth of a second or so for each turn.
            runs = contenders(count, length, max(2, 300_000 // (count * length)))
            turns = in_turns({name: run for name, (run, _) in runs.items()}, repeats)
            seconds = {n: [value / runs[n][1] for value in values] for n, values in turns.items()}
            raw, flat = seconds["raw gradient"], seconds["raw, flat"]
            found = {
                name: {
                    "microseconds": 1e6 * statistics.median(values),
                    "over raw gradient": median_ratio(values, raw),
                    "over flat": median_ratio(values, flat),
                    "least over least": min(values) / min(raw),
                }
                for name, values in seconds.items()
            }
            record[f"N = {count}, {length} leapfrogs"] = found
            for name, row in found.items():
                table.row(count, length, None, name, *row.values())
