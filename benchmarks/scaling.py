"""Steps a second and peak memory on 1 to 8 host devices, and the cases that must fit in 8 GB.

    python -m benchmarks.scaling [--out benchmarks/results/scaling.json] [--only NAME ...]

Each case runs in a process of its own, so that its peak resident memory is its own. Host devices
share the cores of the machine: what is measured beyond their number is the cost of having more
devices, not their speed. The record says how many cores there were.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

# Name -> chains, mesh (chain, data), rows, widths of the hidden layers, draws, leapfrogs a draw.
CASES: dict[str, tuple[int, tuple[int, int], int, tuple[int, ...], int, int]] = {
    **{f"data-{n}": (1, (1, n), 16_384, (64, 64), 6, 10) for n in (1, 2, 4, 8)},
    **{f"chain-{n}": (8, (n, 1), 2_048, (64, 64), 6, 10) for n in (1, 2, 4, 8)},
    "100 chains on 4 devices": (100, (4, 1), 512, (50, 50), 5, 5),
    "1 chain on 4 devices": (1, (1, 4), 8_192, (50, 50), 5, 5),
    "a million weights": (1, (1, 1), 512, (1_000, 990), 5, 5),
}
FEATURES = 8


def weights(widths: tuple[int, ...]) -> int:
    """Parameters of the network, and one for the noise."""
    sizes = (FEATURES, *widths, 1)
    return sum(a * b + b for a, b in zip(sizes, sizes[1:], strict=False)) + 1


def flops(rows: int, widths: tuple[int, ...]) -> float:
    """Of one gradient: 2 for each weight and row forward, and twice that backward."""
    return 6.0 * rows * weights(widths)


def measure(name: str) -> dict[str, Any]:
    """Run a case; seconds a leapfrog after compilation, and peak memory."""
    import jax

    chains, (chain, data), rows, widths, draws, leapfrogs = CASES[name]
    jax.config.update("jax_num_cpu_devices", chain * data)
    import numpy as np

    import bayesnn_ppl as bnn

    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, FEATURES)).astype(np.float32)
    kernel = bnn.kernels.HMC(
        bnn.models.mlp(hidden=widths),
        num_leapfrogs=leapfrogs,
        step_size=1e-3,
        adapt_step_size=False,
    )
    marks: list[tuple[int, float]] = []

    def look(progress: Any) -> bool:
        if progress.phase == "sample":
            marks.append((progress.done, progress.seconds))
        return False

    bnn.sample(
        kernel,
        x,
        x[:, 0],
        warmup=1,
        draws=draws,
        chains=chains,
        mesh=bnn.device_mesh(chain, data),
        progress=False,
        callback=look,
        keep=bnn.Keep(weights="moments", probe=x[:2]),
    )
    made = marks[-1][0] - marks[0][0]
    seconds = (marks[-1][1] - marks[0][1]) / (made * leapfrogs * chains)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "chains": chains,
        "mesh": [chain, data],
        "rows": rows,
        "weights": weights(widths),
        "ms_a_leapfrog_and_chain": round(1e3 * seconds, 3),
        "gflops_a_second": round(flops(rows, widths) / seconds / 1e9, 2),
        "peak_gb": round(peak, 2),
        "load_of_the_machine": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Run every case, print and write down."""
    parser = argparse.ArgumentParser(description="Host devices: speed and memory.")
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    record: dict[str, Any] = {
        "command": "python -m benchmarks.scaling",
        "cores": len(os.sched_getaffinity(0)),
        "cases": {},
    }
    for name in options.only or CASES:
        command = [sys.executable, "-m", "benchmarks.scaling", "--one", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        record["cases"][name] = json.loads(done.stdout.splitlines()[-1])
        print(name, record["cases"][name], flush=True)
        if options.out is not None:
            options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
