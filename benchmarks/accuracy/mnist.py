"""MNIST by stochastic gradients: accuracy, NLL and calibration of what each kernel finds.

    BAYESNN_DATA=... python -m benchmarks mnist [--models lenet mlp_classification]
        [--kernels SGLD SGHMC cyclical] [--minutes 14] [--out benchmarks/results]

One chain from a draw of the prior (fan-in normal), B = 128, 60 000 rows, T = 1. SGLD and SGHMC
burn in on a cosine from a large step to the one at which they draw, once an epoch. The cyclical
kernel is SGHMC in cycles of four epochs with a draw at the end of each of the last two. A run ends
after `--minutes`; every row is stored as it comes, and rows that are there are not made again.
"""

import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from benchmarks.harness.records import RESULTS, Record

BATCH = 128
EPOCH = 60_000 // BATCH
BURN_IN = 6  # epochs


def kernel(name: str, model_name: str, model: Any) -> tuple[Any, int]:
    """The kernel, and draws of its warm-up."""
    schedules, kernels = bnn.schedules, bnn.kernels
    common: dict[str, Any] = {"batch_size": BATCH, "minibatches": "epoch"}
    if name == "cyclical":
        # From a draw of the prior, a convolutional net cannot take the perceptron's first steps.
        peak = 2e-6 if model_name == "mlp_classification" else 1e-7
        cycle = schedules.Cyclical(peak=peak, steps_per_cycle=4 * EPOCH)
        common |= {"step_size": cycle, "steps_per_draw": cycle.draws(2, apart=EPOCH)}
        return kernels.SGHMC(model, noise=cycle.noise_at_end(0.5), **common), 2
    initial, final = {"SGLD": (4e-6, 5e-7), "SGHMC": (2e-6, 1e-7)}[name]
    step = schedules.CosineBurnIn(initial, final, BURN_IN * EPOCH)
    make = getattr(kernels, name)
    return make(model, step_size=step, steps_per_draw=EPOCH, **common), BURN_IN


def run(model_name: str, kernel_name: str, minutes: float) -> dict[str, Any]:
    """One run and its scores."""
    data = bnn.data.load("mnist")
    x, test = data.train.x, data.test
    if model_name == "mlp_classification":
        x = np.asarray(x).reshape(len(x), -1)
        test = (np.asarray(test.x).reshape(len(test.x), -1), test.y)
    model = getattr(bnn.models, model_name)(prior=bnn.priors.fan_in_normal())
    made, warmup = kernel(kernel_name, model_name, model)
    began = time.perf_counter()
    posterior = bnn.sample(
        made,
        x,
        data.train.y,
        warmup=warmup,
        draws=500,
        chains=1,
        seed=0,
        keep=bnn.Keep(weights="none", probe=test),
        until={"max_time": f"{60 * minutes:g}s"},
    )
    scores = bnn.metrics.evaluate(posterior).to_dict()
    draws = posterior.provenance["draws"]
    temperature = posterior.statistics.get("kinetic_temperature")
    return {
        "minutes": round((time.perf_counter() - began) / 60, 1),
        "draws": draws,
        "epochs": warmup + draws if kernel_name != "cyclical" else 2 * (warmup + draws),
        "kinetic_temperature": None
        if temperature is None
        else np.asarray(temperature).mean((0, 1)).round(3).tolist(),
        **scores,
    }


def main(
    *,
    models: tuple[str, ...] = ("lenet", "mlp_classification"),
    kernels: tuple[str, ...] = ("SGHMC", "cyclical", "SGLD"),
    minutes: float = 14.0,
    out: Path = RESULTS,
) -> None:
    """Print a line for each run and write one JSON file.

    Args:
        minutes: of each run.
    """
    record = Record(out / "mnist.json")
    for model, name in product(models, kernels):
        key = f"{model}, {name}"
        if key not in record.rows:
            record[key] = run(model, name, minutes)
        print(f"{key}: {record.rows[key]}", flush=True)
