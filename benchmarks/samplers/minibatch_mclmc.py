"""MNIST from a trained network: SGMCLMC and SGHMC with the same gradients at the same steps.

    BAYESNN_DATA=... python -m benchmarks minibatch_mclmc [--draws 300]
        [--out benchmarks/results]

The first 10 000 training images and the 10 000 test images, means of 2 × 2 pixels, one relu layer
of 50 (10 360 parameters), fan-in normal prior, T = 1, B = 100, momentum decay .99. One MAP fit is
the start of all runs, two chains each, 20 draws of warm-up. A draw is 200 steps, and a step of each
kernel is one minibatch gradient. Kinetic temperatures are the least and the largest of the four
parameter arrays; the configurational one is that of the weights of the first layer, nine tenths of
all parameters, by gradients of all rows at 100 draws. `ms` is the time of a step of both chains, as
far as a machine that others use can tell. Runs that are in the record are not made again.
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table, plus_minus

ROWS, BATCH, STEPS, WARMUP, CHAINS = 10_000, 100, 200, 20, 2
STEP_SIZES = (1e-7, 1e-6, 1e-5)


def kernels(
    model: Any, step_size: float, *, batch: int = BATCH, steps: int = STEPS
) -> dict[str, Any]:
    """Name -> kernel."""
    common: dict[str, Any] = {
        "batch_size": batch,
        "minibatches": "epoch",
        "momentum_decay": 0.99,
        "steps_per_draw": steps,
        "step_size": step_size,
    }
    noise = bnn.preconditioners.GradientNoise()
    k = bnn.kernels
    return {
        "SGHMC": k.SGHMC(model, **common),
        "SGMCLMC": k.SGMCLMC(model, **common),
        "SGMCLMC, GradientNoise": k.SGMCLMC(model, preconditioner=noise, **common),
    }


def halved(images: Any) -> np.ndarray:
    """Means of 2 × 2 pixels of images (rows, height, width, channels)."""
    rows, height, width, channels = np.shape(images)
    pixels = np.reshape(images, (rows, height // 2, 2, width // 2, 2, channels))
    return pixels.mean(axis=(2, 4))


def images() -> tuple[Any, Any]:
    """Rows to train on, and to test on: flat images of 14 × 14 and labels."""
    data = bnn.data.load("mnist")
    train, test = (
        (halved(part.x).reshape(-1, 196), np.asarray(part.y)) for part in (data.train, data.test)
    )
    return (train[0][:ROWS], train[1][:ROWS]), test


def scores(posterior: Any, test: Any) -> dict[str, float]:
    """NLL and accuracy of the mean of the draws' probabilities."""
    found = bnn.metrics.evaluate(posterior, *test).to_dict()
    return {name: round(float(found[name]), 4) for name in ("nll", "accuracy")}


def temperatures(posterior: Any, train: Any, *, gradients: int) -> dict[str, Any]:
    """Whether it stopped; the kick angle, and the temperatures that it has."""
    told = posterior.statistics
    found: dict[str, Any] = {"stopped": bool(np.asarray(told["stopped"]).any())}
    if found["stopped"]:
        return found
    if "kick_angle" in told:
        found["kick_angle"] = round(float(np.mean(told["kick_angle"])), 3)
    read = posterior.temperatures(*train, gradients=gradients)
    kinetic = [array.kinetic.value for array in read.arrays]
    found["kinetic"] = [round(float(f(kinetic)), 3) for f in (np.min, np.max)]
    largest = max(read.arrays, key=lambda array: array.elements).configurational
    found["configurational"] = [round(largest.value, 3), round(largest.error, 3)]
    return found


def run(kernel: Any, start: Any, train: Any, test: Any, draws: int) -> dict[str, Any]:
    """One run and its figures."""
    posterior = bnn.sample(
        kernel,
        *train,
        warmup=WARMUP,
        draws=draws,
        chains=CHAINS,
        seed=0,
        init=start,
        progress=False,
    )
    seconds = posterior.provenance["seconds"]["sample"]
    found = {"ms": round(1000 * seconds / (STEPS * draws), 3)}
    found |= temperatures(posterior, train, gradients=100)
    return found if found["stopped"] else found | scores(posterior, test)


def main(*, draws: int = 300, out: Path = RESULTS) -> None:
    """Print a table and write one JSON file.

    Args:
        draws: of each chain, after the warm-up.
    """
    settings = {"rows": ROWS, "batch": BATCH, "steps_per_draw": STEPS, "draws": draws}
    record = Record(out / "minibatch_mclmc.json", settings=settings)
    train, test = images()
    prior = bnn.priors.fan_in_normal()
    model = bnn.models.mlp(hidden=50, prior=prior, likelihood=bnn.likelihoods.categorical(10))

    @cache  # not trained where nothing is missing
    def fitted() -> Any:
        return bnn.fit(bnn.approximations.MAP(model), *train, seed=0, progress=False)

    if "MAP" not in record.rows:
        record["MAP"] = scores(fitted(), test)
    table = Table(
        " <32", "kinetic >16", "configurational >17", "angle >7.3f", "NLL >8.4f",
        "accuracy >10.4f", "ms >7.2f",
    )  # fmt: skip
    for step_size in STEP_SIZES:
        for name, kernel in kernels(model, step_size).items():
            key = f"{name}, {step_size:g}"
            if key not in record.rows:
                record[key] = run(kernel, fitted(), train, test, draws)
            row = record.rows[key]
            if row["stopped"]:
                table.row(key, "stopped")
                continue
            low, high = row["kinetic"]
            kinetic, configurational = (
                f"{low:.2f} to {high:.2f}",
                plus_minus(*row["configurational"]),
            )
            rest = (row.get(name) for name in ("kick_angle", "nll", "accuracy", "ms"))
            table.row(key, kinetic, configurational, *rest)
