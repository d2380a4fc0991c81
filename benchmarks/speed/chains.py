"""What four chains cost, compared with four chains one after another, for the models of the zoo.

    python -m benchmarks chains [--devices 2] [--repeats 7] [--models linear mlp ...]

HMC with a fixed number of leapfrogs on synthetic data of each model's kind. `parallel` is the
default of `sample`, on as many devices as divide the chains; `vectorized` and `sequential` use
one. The three take turns in one process; printed are medians of the sampling phase, and their
ratios to `sequential`.
"""

import statistics
from typing import Any, Literal

import jax

from benchmarks.harness.tables import Table
from benchmarks.harness.timing import in_turns

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

    run()  # compiles
    return run


def main(
    *,
    devices: int = 2,
    repeats: int = 7,
    models: tuple[Literal[*MODELS], ...] = tuple(MODELS),
    draws_factor: float = 1.0,
) -> None:
    """Print one line for each model.

    Args:
        devices: host devices, on a CPU.
    """
    jax.config.update("jax_num_cpu_devices", devices)
    print(f"{CHAINS} chains on {len(jax.devices())} x {jax.devices()[0].device_kind}; seconds, and")
    print(f"ratios to chains one after another; medians of {repeats}")
    ratios = (f"{method} >11.3f" for method in METHODS)
    table = Table(" <22", *(column for name in ratios for column in (name, "ratio >7.2f")))
    for name in models:
        draws = max(1, round(MODELS[name][-1] * draws_factor))
        runs = {method: contender(name, method, draws) for method in METHODS}
        medians = {m: statistics.median(values) for m, values in in_turns(runs, repeats).items()}
        cells = ((medians[m], medians[m] / medians["sequential"]) for m in METHODS)
        table.row(name, *(value for pair in cells for value in pair))
