"""Does memory grow with the number of draws when they are streamed? And how many files are there?

    python -m benchmarks memory [--draws 1000 20000]

Each length runs in a process of its own: NUTS with trees of 7 leapfrogs on a 50-50 MLP (3 051
weights), two chains, `out=` a temporary folder. Printed: peak resident memory, what the draws take,
and the files of the finished run.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path


def measure(draws: int) -> None:
    """Run, and print the peak in MB, the size of the draws in MB, and the number of files."""
    import jax

    jax.config.update("jax_num_cpu_devices", 2)
    import numpy as np
    from numpyro.infer import NUTS

    import bayesnn_ppl as bnn

    generator = np.random.default_rng(0)
    x = generator.normal(size=(50, 8)).astype(np.float32)
    kernel = NUTS(bnn.models.mlp(hidden=(50, 50)), max_tree_depth=3)
    with tempfile.TemporaryDirectory() as folder:
        bnn.sample(kernel, x, x[:, 0], warmup=50, draws=draws, chains=2, progress=False, out=folder)
        files = [file for file in Path(folder).rglob("*") if file.is_file()]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(peak, 2 * draws * 3_052 * 4 / 2**20, len(files))


def main() -> None:
    """Print one line per length."""
    parser = argparse.ArgumentParser(description="Peak memory against the number of draws.")
    parser.add_argument("--draws", type=int, nargs="+", default=[1_000, 20_000])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(options.one)
        return
    for draws in options.draws:
        command = [sys.executable, "-m", "benchmarks", "memory", "--one", str(draws)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        peak, size, files = done.stdout.split()
        print(
            f"{draws:>7} draws a chain: peak {float(peak):6.0f} MB; the draws take "
            f"{float(size):6.0f} MB, in {files} files",
            flush=True,
        )
