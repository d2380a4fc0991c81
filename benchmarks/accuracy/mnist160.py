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

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
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
        found[name] = float(rows.mean())
        found[f"{name}_error"] = float(rows.std(ddof=1) / len(rows) ** 0.5)
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
    own = scores(hmc["whole"], np.asarray(y))
    floor = distances(hmc["first"], hmc["second"])
    print(f"{'':24}{'accuracy':>9}{'NLL':>7}{'agreement':>17}{'total variation':>18}{'s':>7}")
    for name, row in (("HMC", own), ("two halves of HMC", floor)):
        print(
            f"{name:24}"
            + (f"{row['accuracy']:>9.3f}{row['nll']:>7.3f}" if "nll" in row else " " * 16)
            + (
                f"{_pair(row, 'agreement'):>17}{_pair(row, 'total_variation'):>18}"
                if row is floor
                else ""
            )
        )
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
        print(
            f"{name:24}{row['accuracy']:>9.3f}{row['nll']:>7.3f}{_pair(row, 'agreement'):>17}"
            f"{_pair(row, 'total_variation'):>18}{row['seconds']:>7.1f}"
        )
    print(f"HMC: {int(hmc['draws'])} draws a chain, largest R-hat {float(hmc['rhat']):.3f}")


def _pair(row: dict[str, float], name: str) -> str:
    return f"{row[name]:.3f} ± {row[f'{name}_error']:.3f}"


def main() -> None:
    """Make what is missing and print the table."""
    parser = argparse.ArgumentParser(description="Approximations against HMC on MNIST-160.")
    parser.add_argument("--seconds", type=float, default=280.0, help="of HMC")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--methods", nargs="+", default=list(methods()))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of fits that are poor, which the status says
    options.out.mkdir(parents=True, exist_ok=True)
    hmc = reference(options.out / "mnist160-hmc.npz", options.seconds)
    path = options.out / "mnist160.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    done = {(row["method"], row["seed"]) for row in rows}
    for seed in range(options.seeds):
        for name in options.methods:
            if (name, seed) not in done:
                rows.append(run(name, seed, hmc["whole"]))
                path.write_text(json.dumps(rows, indent=1) + "\n")
                print(rows[-1], flush=True)
    print_table(rows, hmc)
