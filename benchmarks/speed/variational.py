"""Mean-field variational inference: steps a second over those of NumPyro's `SVI.run`.

    python -m benchmarks variational [--repeats 7]

Both optimise the same ELBO of the same model with the same Adam and one particle, from compiled
functions, interleaved; the medians' ratio counts. NumPyro's side is `SVI.run(progress_bar=False)`
with `AutoNormal`, its whole run one `lax.scan`, called a second time from the state of the first;
ours is `fit` with its blocks and checks, timed from block to block. In minibatches NumPyro's plate
draws its own rows.
"""

import statistics
import time
from pathlib import Path
from typing import Any

import jax
import numpyro
import optax
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

import bayesnn_ppl as bnn
from benchmarks.harness.records import Record
from benchmarks.harness.tables import Table
from benchmarks.harness.timing import in_turns
from benchmarks.speed.baselines import sine_rows

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


def main(*, repeats: int = 7, out: Path | None = None) -> None:
    """Print one table: microseconds a step, and the ratio of steps a second.

    Args:
        out: a JSON file for the figures.
    """
    record = Record(out)
    table = Table(
        "case, us <32", "SVI.run >10.0f", "AutoNormal >12.0f", "normal >10.0f", "ratio >8.2f"
    )
    for name, case in CASES.items():
        model = bnn.models.mlp(hidden=case["hidden"], activation="relu")
        steps = case.get("steps", STEPS)
        arguments = (model, *sine_rows(case["rows"], case["inputs"]), case["batch"], steps)
        with numpyro.validation_enabled(False):
            sides = {
                "svi": numpyro_side(*arguments),
                "AutoNormal": our_side(*arguments, guide=AutoNormal),
                "normal": our_side(*arguments),
            }
            times = in_turns(sides, repeats)
        medians = {side: 1e6 * statistics.median(values) for side, values in times.items()}
        ratio = medians["svi"] / medians["normal"]
        rounded = {side: round(value, 1) for side, value in medians.items()}
        record[name] = rounded | {"ratio": round(ratio, 2)}
        table.row(name, *medians.values(), ratio)
