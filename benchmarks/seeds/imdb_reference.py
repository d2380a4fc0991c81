"""HMC on IMDB at a size where it converges, and how near cheaper methods of its density come.

    BAYESNN_DATA=... python -m benchmarks imdb_reference [--minutes 60] [--methods ...]
        [--seeds 0 1 2] [--out benchmarks/results]

The first 2 000 training reviews of IMDB and the first 5 000 test reviews, as counts of the 1 000
most frequent words over the square root of a review's length. One layer of 8 tanh units, N(0, 1) on
all parameters, T = 1. Izmailov et al. (2021, arXiv:2104.14421) compare with HMC on 20 000 reviews
and a CNN-LSTM, whose chains two cores cannot bring to agree. The reference is ChEES, eight chains
from draws of the prior, until R-hat of every test probability is below 1.01 or the time is over;
"HMC, again" is another sampler and other chains, which says how near a right answer comes.

Agreement is the share of reviews given the same class, total variation the mean distance of the
probability of a class, each with its standard error over reviews. Settings are those of `methods`;
none was chosen by the reference, and the step of the stochastic gradients is what `find_step_size`
finds on the training rows. Recorded runs are not made again, and chains continue where they ended.
"""

import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

import bayesnn_ppl as bnn
from benchmarks.accuracy.mnist160 import distances, scores
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table, plus_minus

ROWS, TESTED, WORDS = 2000, 5000, 1000
FOLDER = Path("runs/imdb_reference")
MODEL = bnn.models.mlp(
    hidden=(8,), prior=bnn.priors.normal(1.0), likelihood=bnn.likelihoods.categorical(2)
)
REFERENCE = "ChEES"

type Rows = tuple[np.ndarray, np.ndarray]


@cache
def reviews() -> tuple[Rows, Rows]:
    """Counts (rows, words) and labels, for training and for the test."""
    data = bnn.data.load("imdb")
    train, test = data.train[:ROWS], data.test[:TESTED]
    return (_counts(train.x), np.asarray(train.y)), (_counts(test.x), np.asarray(test.y))


def _counts(tokens: Any) -> np.ndarray:
    tokens = np.asarray(tokens)
    # 0 fills short reviews, 1 begins each, and 2 stands for rare words.
    known = (tokens > 2) & (tokens < WORDS)
    counts = np.zeros((len(tokens), WORDS), np.float32)
    np.add.at(counts, (np.nonzero(known)[0], tokens[known]), 1.0)
    return counts / np.sqrt(np.maximum(known.sum(axis=1, keepdims=True), 1))


def _sampled(name: str, kernel: Any, minutes: float, **settings: Any) -> Any:
    """Full-batch chains that keep probabilities alone, begun or continued."""
    train, test = reviews()
    folder = FOLDER / name
    until = {"function_rhat": 1.01, "ess": 400, "max_time": 60 * minutes}
    if (folder / "commit.json").exists():
        return bnn.resume(folder, kernel, *train, until=until, progress=False)
    keep = bnn.Keep(weights="none", probe=test)
    return bnn.sample(
        kernel, *train, draws=20_000, keep=keep, until=until, out=folder, progress=False, **settings
    )


def _minibatches(kernel: Callable[..., Any], **settings: Any) -> Callable[[int], Any]:
    """A stochastic-gradient sampler of 200 epochs, a fifth of them warm-up."""
    epoch = ROWS // 100

    def run(seed: int) -> Any:
        train, test = reviews()
        pilot = kernel(MODEL, step_size=1e-5, batch_size=100)
        step = bnn.find_step_size(pilot, *train, seed=seed).step_size
        return bnn.sample(
            kernel(MODEL, step_size=step, batch_size=100, steps_per_draw=2 * epoch, **settings),
            *train,
            warmup=20,
            draws=80,
            chains=8,
            seed=seed,
            keep=bnn.Keep(weights="none", probe=test),
            progress=False,
        )

    return run


def _fitted(approximation: Any) -> Callable[[int], Any]:
    return lambda seed: bnn.fit(approximation, *reviews()[0], seed=seed, progress=False)


def _mile(seed: int) -> Any:
    train, test = reviews()
    keep = bnn.Keep(weights="none", probe=test)
    steps = {"chains": 8, "warmup_steps": 5000, "draws": 200}
    return bnn.mile(MODEL, *train, seed=seed, keep=keep, progress=False, **steps)


def methods() -> dict[str, Callable[[int], Any]]:
    """Name -> a function that makes the posterior of a seed."""
    a = bnn.approximations
    whole = {"objective": "posterior", "validation_fraction": 0.0, "patience": None}
    return {
        "MAP": _fitted(a.MAP(MODEL)),
        "deep ensemble": _fitted(a.Ensemble(MODEL, members=10)),
        "ensemble of modes": _fitted(a.Ensemble(MODEL, members=10, **whole)),
        "SWAG": _fitted(a.SWAG(MODEL)),
        "mean field": _fitted(a.Variational(MODEL, guide="normal")),
        "Laplace, kfac": _fitted(a.Laplace(MODEL, structure="kfac")),
        "Laplace, last layer": _fitted(a.Laplace(MODEL, structure="full", layers="last")),
        "MC dropout": _fitted(a.Dropout(MODEL)),
        "SGLD": _minibatches(bnn.kernels.SGLD),
        "SGHMC": _minibatches(bnn.kernels.SGHMC),
        "mile": _mile,
    }


def chains(name: str, minutes: float) -> tuple[np.ndarray, dict[str, Any]]:
    """Class probabilities of ChEES or of HMC, and how its chains agree."""
    if name == REFERENCE:
        kernel, settings = bnn.kernels.ChEES(MODEL, step_size=0.01), {"chains": 8, "seed": 0}
    else:
        kernel = bnn.kernels.HMC(MODEL, num_leapfrogs=60, jitter=0.5, mass="diagonal")
        settings = {"chains": 4, "seed": 1}
    posterior = _sampled(name.split(",")[0].lower(), kernel, minutes, warmup=300, **settings)
    functions = posterior.diagnose().functions.values()
    run = posterior.provenance
    return posterior.predict().probabilities, {
        "seconds": round(run["seconds"]["total"], 1),
        "draws": run["draws"],
        "chains": run["chains"],
        "rhat": max(float(one["rhat_max"]) for one in functions),
        "ess": min(float(one["ess_bulk_min"]) for one in functions),
    }


def probabilities(name: str, seed: int) -> tuple[np.ndarray, float]:
    """Those of a method at the test reviews, and the seconds it took."""
    began = time.perf_counter()
    posterior = methods()[name](seed)
    seconds = time.perf_counter() - began
    kept = posterior.probe is not None
    return (
        posterior.predict() if kept else posterior.predict(reviews()[1][0])
    ).probabilities, seconds


def main(
    *,
    minutes: float = 60.0,
    methods: tuple[str, ...] = tuple(methods()),
    seeds: tuple[int, ...] = (0, 1, 2),
    out: Path = RESULTS,
) -> None:
    """Make what is missing and print the table.

    Args:
        minutes: of each of the two full-batch samplers, at most.
    """
    warnings.simplefilter("ignore")  # of fits that are poor, which the distances say
    jax.config.update("jax_num_cpu_devices", 2)
    labels = reviews()[1][1]
    record = Record(out / "imdb_reference.json", key=("method", "seed"))
    reference, agreed = chains(REFERENCE, minutes)
    record[REFERENCE, 0] = agreed | scores(reference, labels)
    again, agreed = chains("HMC, again", minutes)
    record["HMC, again", 1] = agreed | scores(again, labels) | distances(again, reference)
    for name, seed in record.missing((name, seed) for seed in seeds for name in methods):
        found, seconds = probabilities(name, seed)
        row = {"seconds": round(seconds, 1), **scores(found, labels), **distances(found, reference)}
        record[name, seed] = row
    table = Table(
        " <24", "seed >5", "accuracy >9.4f", "NLL >8.4f", "agreement >17", "total variation >18",
        "s >7.1f", "R-hat >6.3f",
    )  # fmt: skip
    for (name, seed), row in record.rows.items():
        near = [
            plus_minus(row[key], row[f"{key}_error"]) if key in row else ""
            for key in ("agreement", "total_variation")
        ]
        table.row(name, seed, row["accuracy"], row["nll"], *near, row["seconds"], row.get("rhat"))
