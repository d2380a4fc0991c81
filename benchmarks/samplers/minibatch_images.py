"""SGMCLMC and SGHMC for equal seconds on images: digits that HMC has sampled, and convolutions.

    BAYESNN_DATA=... python -m benchmarks minibatch_images [digits mnist cifar10] [--seconds 90]
        [--out benchmarks/results]

`digits` is the posterior of `mnist160`: 160 images, one relu layer of 50 (39 760 weights), and its
reference by HMC, so agreement and total variation say how near a sampler comes. `mnist` and
`cifar10` are the first 5 000 training images, as means of 2 × 2 pixels, and `medmnist_lenet` (two
convolutions, three dense layers) under the fan-in normal prior, scored on the first 2 000 test
images; no reference is at hand for so few rows.

All runs of a set start at one MAP fit; two chains on two cores; T = 1, momentum decay .99. Each has
as many steps, warm-up included, as fit into the same seconds: what a step of each kernel costs is
the median of five short runs, in turns, because a machine's speed changes from minute to minute.
Kinetic temperatures are the least and the largest of the parameter arrays, the configurational one
is that of the largest array. Runs that are in the record are not made again.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

import bayesnn_ppl as bnn
from benchmarks.accuracy import mnist160
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table, plus_minus
from benchmarks.priors.prior_families import MNIST, rows_of
from benchmarks.samplers.minibatch_mclmc import CHAINS, halved, kernels, scores, temperatures

ROWS, TEST_ROWS, WARMUP = 5000, 2000, 20
REFERENCE_SECONDS = 280.0


@dataclass(frozen=True)
class Images:
    """Rows, a model of them and how they are sampled.

    Attributes:
        model: of the labels.
        train, test: images and labels.
        batch: rows of a minibatch.
        steps: of a draw.
        step_sizes: that are tried, all of which are recorded.
        epochs: of the MAP fit at which all runs begin.
        timed: draws that are timed.
        reference: gives the class probabilities of HMC at the test rows; None without one.
    """

    model: Any
    train: Any
    test: Any
    batch: int
    steps: int
    step_sizes: tuple[float, ...]
    epochs: int
    timed: int
    reference: Callable[[], np.ndarray] | None = None


def digits(out: Path) -> Images:
    """The posterior of `mnist160` with its reference, which is made if it is missing."""
    train, test = rows_of(MNIST, 0)
    path = out / "mnist160-hmc.npz"
    return Images(
        mnist160.MODEL,
        train,
        test,
        batch=40,
        steps=100,
        step_sizes=(1e-5, 1e-4),
        epochs=500,
        timed=20,
        reference=lambda: mnist160.reference(path, REFERENCE_SECONDS)["whole"],
    )


def convolutions(name: str) -> Images:
    """A small convolutional network on the first images of a set."""
    data = bnn.data.load(name)
    train, test = (
        (halved(part.x[:rows]), np.asarray(part.y)[:rows])
        for part, rows in ((data.train, ROWS), (data.test, TEST_ROWS))
    )
    model = bnn.models.medmnist_lenet(classes=10, prior=bnn.priors.fan_in_normal())
    return Images(
        model, train, test, batch=100, steps=50, step_sizes=(1e-6, 1e-5), epochs=50, timed=10
    )


def begun(images: Images) -> Any:
    """The MAP fit at which all runs begin."""
    return bnn.fit(
        bnn.approximations.MAP(images.model, epochs=images.epochs),
        *images.train,
        seed=0,
        progress=False,
    )


def sampled(kernel: Any, start: Any, images: Images, *, warmup: int, draws: int) -> Any:
    """Chains from the MAP fit."""
    return bnn.sample(
        kernel, *images.train, warmup=warmup, draws=draws, chains=CHAINS, seed=0, init=start,
        progress=False,
    )  # fmt: skip


def costs(kinds: dict[str, Any], start: Any, images: Images) -> dict[str, float]:
    """Kernel -> milliseconds of a step of both chains."""
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    for repetition in range(6):
        for name, kernel in kinds.items():
            posterior = sampled(kernel, start, images, warmup=0, draws=images.timed)
            if repetition:  # the first compiles
                taken[name].append(posterior.provenance["seconds"]["sample"])
    return {
        name: 1000 * float(np.median(seconds)) / (images.timed * images.steps)
        for name, seconds in taken.items()
    }


def run(kernel: Any, start: Any, images: Images, *, ms: float, seconds: float) -> dict[str, Any]:
    """One run and its figures."""
    draws = round(1000 * seconds / (ms * images.steps)) - WARMUP
    posterior = sampled(kernel, start, images, warmup=WARMUP, draws=draws)
    found = {"draws": draws, "ms": round(ms, 3)}
    found |= temperatures(posterior, images.train, gradients=30)
    return found if found["stopped"] else found | judged(posterior, images)


def judged(posterior: Any, images: Images) -> dict[str, float]:
    """NLL and accuracy, and how near HMC the class probabilities are."""
    found: dict[str, float] = scores(posterior, images.test)
    if images.reference is not None:
        probabilities = posterior.predict(images.test[0]).probabilities
        found |= mnist160.distances(np.asarray(probabilities), images.reference())
    return found


def main(
    names: tuple[str, ...] = ("digits", "mnist", "cifar10"),
    /,
    *,
    seconds: float = 90.0,
    out: Path = RESULTS,
) -> None:
    """Print a table and write one JSON file.

    Args:
        names: digits, mnist or cifar10.
        seconds: of each run, compilation excluded, by what a step costs.
    """
    jax.config.update("jax_num_cpu_devices", CHAINS)
    warnings.simplefilter("ignore")  # of chains that disagree, which is expected here
    record = Record(out / "minibatch_images.json", settings={"rows": ROWS, "seconds": seconds})
    build: dict[str, Callable[[], Images]] = {
        "digits": lambda: digits(out),
        "mnist": lambda: convolutions("mnist"),
        "cifar10": lambda: convolutions("cifar10"),
    }
    table = Table(
        " <42", "ms >8.2f", "kinetic >16", "configurational >17", "NLL >8.4f", "accuracy >10.4f",
        "agreement >15", "total variation >16",
    )  # fmt: skip
    for name in names:
        images = build[name]()
        start = cache(partial(begun, images))  # not trained where nothing is missing
        key = f"{name}: MAP"
        if key not in record.rows:
            record[key] = judged(start(), images)
        print_row(table, key, record.rows[key])
        ms: dict[str, float] = {}
        for step_size in images.step_sizes:
            kinds = kernels(images.model, step_size, batch=images.batch, steps=images.steps)
            wanted = {f"{name}: {kind}, {step_size:g}": kind for kind in kinds}
            for key in record.missing(wanted):
                ms = ms or costs(kinds, start(), images)
                kind = wanted[key]
                record[key] = run(kinds[kind], start(), images, ms=ms[kind], seconds=seconds)
            for key in wanted:
                print_row(table, key, record.rows[key])


def print_row(table: Table, key: str, row: dict[str, Any]) -> None:
    """One line of the table."""
    kinetic = "{:.2f} to {:.2f}".format(*row["kinetic"]) if "kinetic" in row else None
    configurational = plus_minus(*row["configurational"]) if "kinetic" in row else None
    near = (
        plus_minus(row[name], row[f"{name}_error"]) if name in row else None
        for name in ("agreement", "total_variation")
    )
    table.row(
        key, row.get("ms"), kinetic, configurational, row.get("nll"), row.get("accuracy"), *near
    )
