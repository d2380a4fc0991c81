"""What starting costs: `import bayesnn_ppl` and its public names over `import numpyro`.

    python -m benchmarks.startup [--repeats 7]

Each statement runs in a process of its own, in turn; medians, and ratios to `import numpyro`.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

SAMPLE = "import bayesnn_ppl as b; b.sample, b.models.mlp, b.data.load"
COMMANDS = {
    "import numpyro": [sys.executable, "-c", "import numpyro.infer"],
    "import bayesnn_ppl": [sys.executable, "-c", "import bayesnn_ppl"],
    "... and its names": [sys.executable, "-c", SAMPLE],
    "bayesnn --help": [str(Path(sys.executable).with_name("bayesnn")), "--help"],
}


def main() -> None:
    """Print one line per command."""
    parser = argparse.ArgumentParser(description="What starting costs.")
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(repeats):
        for name, command in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - began)
    base = statistics.median(seconds["import numpyro"])
    for name, values in seconds.items():
        median = statistics.median(values)
        print(f"{name:<20} {median:6.2f} s  {median / base:5.2f} × import numpyro")


if __name__ == "__main__":
    main()
