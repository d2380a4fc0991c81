"""What starting costs: imports, names and the first run of a sampler, over `import numpyro`.

    python -m benchmarks startup [--repeats 7]

Each statement runs in a process of its own, in turn; medians, and ratios to `import numpyro`.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

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
