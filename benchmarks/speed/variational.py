"""Mean-field variational inference: steps a second beside NumPyro's `SVI.run`, in one process.

    python -m benchmarks variational [--repeats 7]

Both climb the same ELBO of the same program with the same Adam and one particle, from compiled
functions, interleaved; the medians' ratio counts. NumPyro's side is `SVI.run(progress_bar=False)`
with `AutoNormal`, its whole run one `lax.scan`, called a second time from the state of the first;
ours is `fit` with its blocks and checks, timed from block to block. In minibatches NumPyro's plate
draws its own rows.
"""

import argparse
import json
import statistics
import time
from typing import Any

import jax
import numpy as np
import numpyro
import optax
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

import bayesnn_ppl as bnn

CASES: dict[str, dict[str, Any]] = {
    "mlp 50-50, all of 331 rows": {"rows": 331, "inputs": 10, "hidden": (50, 50), "batch": None},
    "mlp 50-50, 32 of 331 rows": {"rows": 331, "inputs": 10, "hidden": (50, 50), "batch": 32},
    "mlp 50, all of 690 rows": {"rows": 690, "inputs": 8, "hidden": (50,), "batch": None},
    "mlp 50, 128 of 8610 rows": {"rows": 8610, "inputs": 8, "hidden": (50,), "batch": 128},
    "mlp 256-256, 128 of 8000 rows": {
        "rows": 8000,
        "inputs": 196,
        "hidden": (256, 256),
        "batch": 128,
        "steps": 200,
    },
}
STEPS = 2000


def numpyro_side(model: Any, x: Any, y: Any, batch: int | None, steps: int) -> Any:
    """A function that makes `steps` steps and returns the seconds of one."""
    svi = SVI(model, AutoNormal(model, init_scale=0.01), optax.adam(1e-3), Trace_ELBO())
    options = {} if batch is None else {"batch_size": batch}
    state = svi.init(jax.random.key(0), x, y, **options)

    @jax.jit
    def run(state: Any, x: Any, y: Any) -> Any:
        """`SVI.run` without its bar is this loop, compiled anew at every call; here once."""

        def body(state: Any, _: Any) -> Any:
            return svi.update(state, x, y, **options)

        return jax.lax.scan(body, state, None, length=steps)

    jax.block_until_ready(run(state, x, y))

    def measure() -> float:
        began = time.perf_counter()
        jax.block_until_ready(run(state, x, y))
        return (time.perf_counter() - began) / steps

    return measure


def our_side(model: Any, x: Any, y: Any, batch: int | None, steps: int, **options: Any) -> Any:
    """The same of `fit`; the seconds between its first callback and its last."""
    settings = {"learning_rate": 1e-3, "schedule": None, "draws": 1, "weigh": False} | options
    approximation = bnn.approximations.Variational(
        model, batch_size=batch, steps=3 * steps, **settings
    )

    def measure() -> float:
        seen: list[tuple[float, int]] = []

        def note(progress: Any) -> None:
            seen.append((time.perf_counter(), progress.done))

        bnn.fit(approximation, x, y, progress=False, callback=note)
        (began, first), (ended, last) = seen[0], seen[-1]
        return (ended - began) / (last - first)

    measure()
    return measure


def main() -> None:
    """Print one table: microseconds a step, and the ratio of steps a second."""
    parser = argparse.ArgumentParser(description="Mean-field steps a second over NumPyro's.")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", help="a JSON file for the figures")
    options = parser.parse_args()
    found = {}
    print(f"{'case':<32}{'SVI.run':>10}{'AutoNormal':>12}{'normal':>10}{'ratio':>8}", flush=True)
    for name, case in CASES.items():
        generator = np.random.default_rng(0)
        x = generator.normal(size=(case["rows"], case["inputs"])).astype(np.float32)
        y = np.sin(x[:, 0]).astype(np.float32)
        model = bnn.models.mlp(hidden=case["hidden"], activation="relu")
        steps = case.get("steps", STEPS)
        arguments = (model, x, y, case["batch"], steps)
        with numpyro.validation_enabled(False):
            sides = {
                "svi": numpyro_side(*arguments),
                "AutoNormal": our_side(*arguments, guide=AutoNormal),
                "normal": our_side(*arguments),
            }
            times: dict[str, list[float]] = {side: [] for side in sides}
            for _ in range(options.repeats):
                for side, measure in sides.items():
                    times[side].append(measure())
        medians = {side: 1e6 * statistics.median(values) for side, values in times.items()}
        ratio = medians["svi"] / medians["normal"]
        found[name] = {side: round(value, 1) for side, value in medians.items()} | {
            "ratio": round(ratio, 2)
        }
        print(
            f"{name:<32}{medians['svi']:>8.0f}µs{medians['AutoNormal']:>10.0f}µs"
            f"{medians['normal']:>8.0f}µs{ratio:>8.2f}",
            flush=True,
        )
    if options.out:
        with open(options.out, "w") as file:
            json.dump(found, file, indent=1)
