"""What ten members cost over one: training an ensemble of a small network.

    python -m benchmarks ensembles [--members 10] [--devices 2] [--repeats 9]

A relu layer of 50 to (μ, σ), as in the UCI experiments, on 690 rows of eight inputs; AdamW,
minibatches of 32, a fixed number of epochs. Each contender is trained by `fit` in short turns
that take each other's place, and a turn's time is that of the epochs, compilation left out; ratios
are medians over the turns. On so many host devices members are spread over them; one member uses
one of them. The target on two cores is a ratio of at most 4 for 10 members.
"""

import argparse
import json
import os
import statistics
from collections.abc import Callable
from typing import Any

import jax

ROWS, INPUTS = 690, 8


def contender(members: int, epochs: int, **settings: Any) -> Callable[[], float]:
    """A function that trains once and returns the seconds of its epochs."""
    import numpy as np

    import bayesnn_ppl as bnn

    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, INPUTS)).astype(np.float32)
    y = np.sin(x[:, 0]).astype(np.float32)
    ensemble = bnn.approximations.Ensemble(
        bnn.models.mlp_regression_small(),
        members=members,
        epochs=epochs,
        patience=None,
        **settings,
    )

    def run() -> float:
        fitted = bnn.fit(ensemble, x, y, progress=False)
        return float(fitted.provenance["approximation"]["seconds"]["train"])

    return run


def main() -> None:
    """Print one line for each contender, and the record as JSON."""
    parser = argparse.ArgumentParser(description="Ten members over one.")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--devices", type=int, default=2, help="host devices, on a CPU")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", options.devices)
    anchored = {"anchored": True, "objective": "posterior"}
    runs = {
        "one member": contender(1, options.epochs),
        f"{options.members} members": contender(options.members, options.epochs),
        f"{options.members} anchored": contender(options.members, options.epochs, **anchored),
    }
    for run in runs.values():
        run()  # compiles
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.repeats):
        for name, run in runs.items():
            seconds[name].append(run())
    device = jax.devices()[0]
    print(f"{len(jax.devices())} x {device.device_kind}, {os.cpu_count()} cores; medians of")
    print(f"{options.repeats} interleaved turns of {options.epochs} epochs\n")
    print(f"{'':<14}{'seconds':>9}{'/ one member':>14}")
    base = seconds["one member"]
    record = {}
    for name, values in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(values, base, strict=True))
        record[name] = {"seconds": round(statistics.median(values), 4), "ratio": round(ratio, 3)}
        print(f"{name:<14}{record[name]['seconds']:>9.3f}{ratio:>14.2f}")
    print(json.dumps({"devices": options.devices, "epochs": options.epochs, **record}))
