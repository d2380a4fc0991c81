"""How near do approximations come to HMC? 160 images of MNIST, agreement and total variation.

    BAYESNN_DATA=... python -m benchmarks mnist160 [--seconds 280] [--seeds 2] [--methods ...]
        [--out benchmarks/results]

The first 160 training images, N(0, 1) on all parameters, one relu layer of 50 (`prior_families`
says why not 256-256), the first 2 000 test images. The reference is our `kernels.HMC`, four chains
from draws of the prior for `--seconds`; two halves of its chains against each other are the floor,
what the reference itself leaves open. Methods have their defaults but for what `methods` says.

Agreement is the share of images given the same class, total variation half the L1 distance of the
probabilities, mean over images; standard errors are over images, and the spread over seeds stands
beside them in the record. Runs that are in `mnist160.json` are not made again; the reference's
probabilities are kept in `mnist160-hmc.npz`.
"""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table, mean_and_error, plus_minus
from benchmarks.priors.prior_families import BASE, MNIST, SETTINGS, model_of, rows_of

MODEL = model_of(MNIST, BASE, SETTINGS[MNIST])


def methods() -> dict[str, Callable[[], Any]]:
    """Name -> a function that builds the approximation."""
    a = bnn.approximations
    whole = {"validation_fraction": 0.0, "patience": None}
    return {
        "MAP": lambda: a.MAP(MODEL),
        "SGD, likelihood alone": lambda: a.MAP(MODEL, objective="likelihood", epochs=500),
        "ensemble": lambda: a.Ensemble(MODEL, members=10, **whole),
        "ensemble of modes": lambda: a.Ensemble(MODEL, members=10, objective="posterior", **whole),
        "SWAG": lambda: a.SWAG(MODEL),
        "MultiSWAG": lambda: a.SWAG(MODEL, members=5),
        "mean field": lambda: a.Variational(MODEL, guide="normal"),
        "Laplace, kfac": lambda: a.Laplace(MODEL, structure="kfac"),
        "Laplace, last layer": lambda: a.Laplace(MODEL, structure="full", layers="last"),
        "MC dropout": lambda: a.Dropout(MODEL),
    }


def reference(path: Path, seconds: float) -> dict[str, Any]:
    """Class probabilities of HMC and of both halves of its chains, made once."""
    if not path.exists():
        train, (x, y) = rows_of(MNIST, 0)
        settings = SETTINGS[MNIST]
        posterior = bnn.sample(
            bnn.kernels.HMC(MODEL, **settings["kernel"]),
            *train,
            warmup=settings["warmup"],
            draws=10 * settings["draws"],
            chains=4,
            keep=bnn.Keep(weights="none", probe=(x, y)),
            until={"max_time": f"{seconds:g}s"},
        )
        values = posterior.function_values()["probability"]
        diagnosis = posterior.diagnose()
        np.savez(
            path,
            whole=values.mean((0, 1)),
            first=values[:2].mean((0, 1)),
            second=values[2:].mean((0, 1)),
            draws=values.shape[1],
            rhat=max(s["rhat_max"] for s in diagnosis.functions.values()),
            seconds=posterior.provenance["seconds"]["total"],
        )
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def distances(probabilities: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """Agreement and total variation with their standard errors over images."""
    same = probabilities.argmax(-1) == other.argmax(-1)
    apart = 0.5 * np.abs(probabilities - other).sum(-1)
    found = {}
    for name, rows in (("agreement", same), ("total_variation", apart)):
        found[name], found[f"{name}_error"] = mean_and_error(rows)
    return found


def scores(probabilities: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Accuracy and NLL."""
    nll = -np.log(np.maximum(probabilities[np.arange(len(y)), y], 1e-30))
    return {"accuracy": float((probabilities.argmax(-1) == y).mean()), "nll": float(nll.mean())}


def run(name: str, seed: int, hmc: np.ndarray) -> dict[str, Any]:
    """One method and seed."""
    train, (x, y) = rows_of(MNIST, 0)
    began = time.perf_counter()
    posterior = bnn.fit(methods()[name](), *train, seed=seed, progress=False)
    seconds = time.perf_counter() - began
    probabilities = posterior.predict(x).probabilities
    return {
        "method": name,
        "seed": seed,
        "seconds": round(seconds, 1),
        "status": posterior.diagnose().status,
        **scores(probabilities, np.asarray(y)),
        **distances(probabilities, hmc),
    }


def print_table(rows: list[dict[str, Any]], hmc: dict[str, Any]) -> None:
    """One line for each method, the nearest first."""
    _, (_, y) = rows_of(MNIST, 0)
    table = Table(
        " <24", "accuracy >9.3f", "NLL >7.3f", "agreement >17", "total variation >18", "s >7.1f"
    )

    def near(row: dict[str, float]) -> tuple[str, ...]:
        names = ("agreement", "total_variation")
        return tuple(plus_minus(row[name], row[f"{name}_error"]) for name in names)

    table.row("HMC", *scores(hmc["whole"], np.asarray(y)).values())
    halves = distances(hmc["first"], hmc["second"])
    table.row("two halves of HMC", None, None, *near(halves))
    by_method: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_method.setdefault(row["method"], []).append(row)
    means = {
        name: {
            k: float(np.mean([r[k] for r in own])) for k in own[0] if isinstance(own[0][k], float)
        }
        for name, own in by_method.items()
    }
    for name, row in sorted(means.items(), key=lambda item: item[1]["total_variation"]):
        table.row(name, row["accuracy"], row["nll"], *near(row), row["seconds"])
    print(f"HMC: {int(hmc['draws'])} draws a chain, largest R-hat {float(hmc['rhat']):.3f}")


def main(
    *,
    seconds: float = 280.0,
    seeds: int = 2,
    methods: tuple[str, ...] = tuple(methods()),
    out: Path = RESULTS,
) -> None:
    """Make what is missing and print the table.

    Args:
        seconds: of HMC.
    """
    warnings.simplefilter("ignore")  # of fits that are poor, which the status says
    out.mkdir(parents=True, exist_ok=True)
    hmc = reference(out / "mnist160-hmc.npz", seconds)
    record = Record(out / "mnist160.json", key=("method", "seed"))
    for name, seed in record.missing((name, seed) for seed in range(seeds) for name in methods):
        record[name, seed] = run(name, seed, hmc["whole"])
        print(record.rows[name, seed], flush=True)
    print_table(list(record.rows.values()), hmc)
