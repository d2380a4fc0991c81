"""Does memory grow with the number of draws when they are streamed? And how many files are there?

    python -m benchmarks memory [--draws 1000 20000]

Each length runs in a process of its own: NUTS with trees of 7 leapfrogs on a 50-50 MLP (3 051
weights), two chains, `out=` a temporary folder. Printed: peak resident memory, what the draws take,
and the files of the finished run.
"""

import resource
import tempfile
from pathlib import Path

from benchmarks.harness.running import in_own_process


def measure(draws: int) -> tuple[float, float, int]:
    """Run; the peak in MB, the size of the draws in MB, and the number of files."""
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
    return peak, 2 * draws * 3_052 * 4 / 2**20, len(files)


def main(*, draws: tuple[int, ...] = (1_000, 20_000)) -> None:
    """Print one line per length."""
    for count in draws:
        peak, size, files = in_own_process(measure, count)
        print(
            f"{count:>7} draws a chain: peak {peak:6.0f} MB; the draws take {size:6.0f} MB, in "
            f"{files} files",
            flush=True,
        )
