"""The gradient that samplers take, with the rows in the last axis of its arrays, over plain JAX's.

    python -m benchmarks rows_last [--repeats 15] [--out benchmarks/results/rows_last.json]

The negative log posterior on synthetic rows (six inputs, or 64). Four chains on two
devices make gradients as under `bnn.sample`, one chain of a device after the other. The two take
short turns: the ratio is the median over them, and microseconds, of one gradient of one chain, are
medians.
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
from benchmarks.harness.records import Record
from benchmarks.harness.tables import Table
from benchmarks.harness.timing import in_turns, median_ratio, timed
from benchmarks.samplers.contenders import CHAINS, over_chains
from benchmarks.speed.baselines import gradient_scan, sine_rows

SECONDS = 0.1  # of a turn, about


def networks() -> dict[str, tuple[Any, int]]:
    """Name -> (model, inputs)."""
    mlp, heads = bnn.models.mlp, bnn.likelihoods.heteroscedastic()
    relu: dict[str, Any] = {"activation": "relu", "likelihood": heads}
    horseshoe, hierarchical = bnn.priors.horseshoe(), bnn.priors.hierarchical()
    return {
        "linear, horseshoe": (bnn.models.linear(prior=horseshoe), 6),
        "10 tanh, hierarchical": (mlp(hidden=(10,), prior=hierarchical), 6),
        "50 relu": (mlp(hidden=(50,), activation="relu"), 6),
        "50 relu, mean and scale": (mlp(hidden=(50,), **relu), 6),
        "16-16, mean and scale": (mlp(hidden=(16, 16), **relu), 6),
        "16-16-16-16, mean and scale": (mlp(hidden=(16,) * 4, **relu), 6),
        "50-50 tanh": (mlp(hidden=(50, 50)), 6),
        "64 inputs, 50, ten classes": (
            mlp(hidden=(50,), likelihood=bnn.likelihoods.categorical(10)),
            64,
        ),
    }


def contenders(model: Any, data: tuple[Any, Any]) -> dict[str, Callable[[], float]]:
    """The sampler's gradient and plain JAX's: functions that run once and return the seconds."""
    keys = jax.random.split(jax.random.key(0), CHAINS)
    starts = [initialize_model(key, model, model_args=data).param_info.z for key in keys]
    density = Density.at(model, data, {}, starts[0])
    vectors = jnp.stack([ravel_pytree(start)[0] for start in starts])
    gradients = {"rows last": density.gradient, "plain": jax.grad(density.potential)}
    one = timed(over_chains(gradient_scan(gradients["plain"], 20)), vectors)
    count = max(20, int(20 * SECONDS / min(one() for _ in range(3))))
    runs = {n: timed(over_chains(gradient_scan(g, count)), vectors) for n, g in gradients.items()}
    # One device has half of the chains.
    return {name: lambda run=run: run() / (count * CHAINS / 2) for name, run in runs.items()}


def main(
    *, rows: tuple[int, ...] = (100, 400, 1_600), repeats: int = 15, out: Path | None = None
) -> None:
    """Print one table.

    Args:
        out: a JSON file for the figures.
    """
    jax.config.update("jax_num_cpu_devices", 2)
    warnings.simplefilter("ignore", FutureWarning)
    table = Table("network <28", "rows >6", "plain, us >11.1f", "rows last >11.1f", "ratio >7.2f")
    record = Record(out)
    for name, (model, inputs) in networks().items():
        for count in rows:
            x, y = (jnp.asarray(a) for a in sine_rows(count, inputs))
            labels = jnp.floor(5 * (y + 1)).astype(int)
            turns = in_turns(contenders(model, (x, labels if "classes" in name else y)), repeats)
            found = {n: round(1e6 * statistics.median(values), 2) for n, values in turns.items()}
            found["ratio"] = round(median_ratio(turns["plain"], turns["rows last"]), 3)
            record[f"{name}, {count} rows"] = found
            table.row(name, count, found["plain"], found["rows last"], found["ratio"])
