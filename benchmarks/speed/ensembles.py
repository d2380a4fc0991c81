"""What ten members cost over one: training an ensemble of a small network.

    python -m benchmarks ensembles [--members 10] [--devices 2] [--repeats 9]

A relu layer of 50 to (μ, σ), as in the UCI experiments, on 690 rows of eight inputs; AdamW,
minibatches of 32, a fixed number of epochs. Each contender is trained by `fit` in short turns
that take each other's place, and a turn's time is that of the epochs, compilation left out; ratios
are medians over the turns. On so many host devices members are spread over them; one member uses
one of them. The target on two cores is a ratio of at most 4 for 10 members.
"""

import json
import os
import statistics
from collections.abc import Callable
from typing import Any

import jax

from benchmarks.harness.tables import Table
from benchmarks.harness.timing import in_turns, median_ratio
from benchmarks.speed.baselines import sine_rows

ROWS = 690


def contender(members: int, epochs: int, **settings: Any) -> Callable[[], float]:
    """A function that trains once and returns the seconds of its epochs."""
    import bayesnn_ppl as bnn

    rows = sine_rows(ROWS)
    ensemble = bnn.approximations.Ensemble(
        bnn.models.mlp_regression_small(),
        members=members,
        epochs=epochs,
        patience=None,
        **settings,
    )

    def run() -> float:
        fitted = bnn.fit(ensemble, *rows, progress=False)
        return float(fitted.provenance["approximation"]["seconds"]["train"])

    run()  # compiles
    return run


def main(*, members: int = 10, devices: int = 2, epochs: int = 200, repeats: int = 9) -> None:
    """Print one line for each contender, and the record as JSON.

    Args:
        devices: host devices, on a CPU.
    """
    jax.config.update("jax_num_cpu_devices", devices)
    anchored = {"anchored": True, "objective": "posterior"}
    runs = {
        "one member": contender(1, epochs),
        f"{members} members": contender(members, epochs),
        f"{members} anchored": contender(members, epochs, **anchored),
    }
    seconds = in_turns(runs, repeats)
    print(f"{len(jax.devices())} x {jax.devices()[0].device_kind}, {os.cpu_count()} cores;")
    print(f"medians of {repeats} interleaved turns of {epochs} epochs\n")
    table, record = Table(" <14", "seconds >9.3f", "/ one member >14.2f"), {}
    for name, values in seconds.items():
        median, ratio = statistics.median(values), median_ratio(values, seconds["one member"])
        record[name] = {"seconds": round(median, 4), "ratio": round(ratio, 3)}
        table.row(name, median, ratio)
    print(json.dumps({"devices": devices, "epochs": epochs, **record}))
