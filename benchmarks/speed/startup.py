"""What starting costs: imports, names and the first run of a sampler, over `import numpyro`.

    python -m benchmarks startup [--repeats 7]

Each statement runs in a process of its own, in turn; medians, and ratios to `import numpyro`.
"""

import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from benchmarks.harness.tables import Table
from benchmarks.harness.timing import in_turns

MODEL = """
import jax; jax.config.update("jax_num_cpu_devices", 4)
import bayesnn_ppl as bnn
x, y = bnn.data.load("diabetes").train
model = bnn.models.mlp(hidden=(20,))
"""
OURS = """
kernel = bnn.kernels.HMC(model, num_leapfrogs=5)
bnn.sample(kernel, x, y, warmup=10, draws=10, chains=4, progress=False)
"""
NUMPYROS = """
from numpyro.infer import HMC, MCMC
kernel = HMC(model, num_steps=5)
run = MCMC(kernel, num_warmup=10, num_samples=10, num_chains=4, progress_bar=False)
run.run(jax.random.key(0), x, y)
"""
SAMPLE = "import bayesnn_ppl as b; b.sample, b.models.mlp, b.data.load"
COMMANDS = {
    "import numpyro": [sys.executable, "-c", "import numpyro.infer"],
    "import bayesnn_ppl": [sys.executable, "-c", "import bayesnn_ppl"],
    "... and its names": [sys.executable, "-c", SAMPLE],
    "first bnn.sample": [sys.executable, "-c", MODEL + OURS],
    "first numpyro MCMC": [sys.executable, "-c", MODEL + NUMPYROS],
    "bayesnn --help": [str(Path(sys.executable).with_name("bayesnn")), "--help"],
}


def seconds_of(command: list[str]) -> float:
    """Seconds of a process."""
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def main(*, repeats: int = 7) -> None:
    """Print one line per command."""
    runs = {name: partial(seconds_of, command) for name, command in COMMANDS.items()}
    medians = {name: statistics.median(v) for name, v in in_turns(runs, repeats).items()}
    table = Table(" <20", "seconds >8.2f", "× import numpyro >17.2f")
    for name, median in medians.items():
        table.row(name, median, median / medians["import numpyro"])
