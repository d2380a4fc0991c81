"""What four chains cost, beside four chains one after another, for the models of the zoo.

    python -m benchmarks chains [--devices 2] [--repeats 7] [--models linear mlp ...]

HMC with a fixed number of leapfrogs on synthetic data of each model's kind. `parallel` is the
default of `sample`, on as many devices as divide the chains; `vectorized` and `sequential` use
one. The three take turns in one process; printed are medians of the sampling phase, and their
ratios to `sequential`.
"""

import argparse
import statistics
from typing import Any

import jax

CHAINS = 4
# model -> shape of a row, classes (0: regression), rows, leapfrogs a draw, draws on a CPU
MODELS: dict[str, tuple[tuple[int, ...], int, int, int, int]] = {
    "linear": ((8,), 0, 500, 50, 400),
    "logistic": ((784,), 10, 500, 20, 40),
    "mlp": ((8,), 0, 500, 50, 200),
    "mlp_regression_small": ((8,), 0, 500, 50, 300),
    "mlp_regression": ((8,), 0, 500, 50, 60),
    "mlp_classification": ((784,), 10, 500, 20, 3),
    "lenet": ((28, 28, 1), 10, 128, 10, 2),
}
METHODS = ("parallel", "vectorized", "sequential")


def contender(name: str, method: str, draws: int) -> Any:
    """A function that runs once and returns the seconds of its sampling phase."""
    import numpy as np

    import bayesnn_ppl as bnn

    shape, classes, rows, leapfrogs, _ = MODELS[name]
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, *shape)).astype(np.float32)
    if classes:
        y = generator.permutation(np.arange(rows) % classes).astype(np.int32)
        model = getattr(bnn.models, name)(classes=classes)
    else:
        y = np.sin(x[:, 0]).astype(np.float32)
        model = getattr(bnn.models, name)()
    kernel = bnn.kernels.HMC(model, num_leapfrogs=leapfrogs, step_size=1e-5, adapt_step_size=False)

    def run() -> float:
        posterior = bnn.sample(
            kernel,
            x,
            y,
            warmup=1,
            draws=draws,
            chains=CHAINS,
            chain_method=method,
            progress=False,
            keep=bnn.Keep(weights="moments"),
        )
        return posterior.provenance["seconds"]["sample"]

    return run


def main() -> None:
    """Print one line for each model."""
    parser = argparse.ArgumentParser(description="Chains side by side or one after another.")
    parser.add_argument("--devices", type=int, default=2, help="host devices, on a CPU")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--draws-factor", type=float, default=1.0)
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", options.devices)
    device = jax.devices()[0]
    print(f"{CHAINS} chains on {len(jax.devices())} x {device.device_kind}; seconds, and ratios to")
    print(f"chains one after another; medians of {options.repeats}")
    print(f"{'':<22}{'parallel':>16}{'vectorized':>16}{'sequential':>12}")
    for name in options.models:
        draws = max(1, round(MODELS[name][-1] * options.draws_factor))
        runs = {method: contender(name, method, draws) for method in METHODS}
        for run in runs.values():
            run()  # compiles
        seconds: dict[str, list[float]] = {method: [] for method in METHODS}
        for _ in range(options.repeats):
            for method, run in runs.items():
                seconds[method].append(run())
        medians = {method: statistics.median(values) for method, values in seconds.items()}
        base = medians["sequential"]
        cells = "".join(
            f"{medians[m]:>9.3f}{medians[m] / base:>7.2f}" for m in METHODS if m != "sequential"
        )
        print(f"{name:<22}{cells}{base:>12.3f}", flush=True)
