"""Posteriors on which no sampler converges in minutes: who predicts best on an equal budget?

    BAYESNN_DATA=... python -m benchmarks hard_posteriors yacht energy airfoil
        --bde PYTHON [--networks 50 16-16] [--seconds S] [--only ...] [--out benchmarks/results]

N(0, 1) weights, relu, split 0: one hidden layer of 50 with a learned noise, and MILE's net of 16-16
to mean and scale. Four chains. bde (`sklearn-contrib-bde`, run by the interpreter `--bde` of an
environment of its own) trains four members and takes its 50 000 steps of warm-up and 10 000 of
sampling, every tenth kept. Its networks have its own heads (mean and scale) at both sizes, so that
on the net of 50 it has another likelihood: the last row there is our `mile` with that one. The
others get the seconds that it took, or `--seconds`: compilation apart, training and warm-up
counted; `mile` takes as many steps of warm-up, and samples for the rest of the time.

NLL is that of the mixture of all draws, in the data's own units. Within-chain ESS is the sum over
chains of each chain's own: with R-hat near 2, the only one that means something. `until bde` is the
time after which our run's NLL was at bde's and stayed there.
"""

import argparse
import json
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.samplers.contenders import (
    Compilations,
    Problem,
    bde,
    blackjax_mclmc,
    blackjax_nuts,
    numpyro_nuts,
    ours,
)

WARMUP = 150
MILE = {"energy_variance_end": 0.01}  # what `mile` has; the other row is the paper's
BDE = {
    "epochs": 500,
    "patience": 10,
    "lr": 1e-3,
    "weight_decay": 1e-3,
    "warmup_steps": 50_000,
    "n_samples": 10_000,
    "n_thinning": 10,
}


def contenders(
    problem: Problem, compilations: Compilations, seconds: float
) -> dict[str, Callable[[], dict[str, Any]]]:
    """Name -> a function that runs a sampler."""
    import bayesnn_ppl as bnn

    k, model = bnn.kernels, problem.model
    nuts = partial(numpyro_nuts, problem, compilations, seconds, warmup=WARMUP)
    hmc = {"num_leapfrogs": 200, "jitter": 0.5, "mass": "diagonal", "step_size": 1e-3}

    def our(kernel: Any, warmup: int, **start: Any) -> Callable[[], dict[str, Any]]:
        return lambda: ours(problem, compilations, kernel, warmup, seconds, **start)

    def with_heads(**settings: float) -> dict[str, Any]:
        heads = Problem(problem.name, "50-heads")
        kernel = k.MCLMC(heads.model, steps_per_draw=50, **settings)
        return ours(heads, compilations, kernel, 1000, seconds, **trained)

    trained = {"init": bnn.approximations.Ensemble()}
    bdes_model: dict[str, Callable[[], dict[str, Any]]] = {}
    if problem.network == "50":
        bdes_model = {
            "ours: mile, bde's heads": partial(with_heads, **MILE),
            "ours: heads, v = 0.1": with_heads,
        }
    return {
        "NumPyro NUTS": partial(nuts, method="parallel"),
        "BlackJAX NUTS": partial(blackjax_nuts, problem, compilations, seconds, warmup=WARMUP),
        "BlackJAX MCLMC": partial(blackjax_mclmc, problem, compilations, seconds),
        "ours: HMC, trained": our(k.HMC(model, **hmc), WARMUP, **trained),
        "ours: mile": our(k.MCLMC(model, steps_per_draw=50, **MILE), 1000, **trained),
        "ours: mile, v = 0.1": our(k.MCLMC(model, steps_per_draw=50), 1000, **trained),
        **bdes_model,
    }


def judge(problem: Problem, result: dict[str, Any]) -> dict[str, Any]:
    """Scores, speed and what the chains say of themselves."""
    from bayesnn_ppl.diagnostics import ess_bulk, rhat

    values = result["functions"]
    sound = values[np.isfinite(values).all((1, 2))]
    within = sum(ess_bulk(chain[None]) for chain in sound)
    return {
        "seconds": round(result["seconds"], 1),
        "compile": round(result["compile"], 1),
        "draws": list(values.shape[:2]),
        "gradients": result["gradients"],
        "gradients_per_second": round(result["gradients"] / result["seconds"]),
        "within_chain_ess_median": float(np.nanmedian(within)),
        "rhat_max": float(np.nanmax(rhat(sound))),
        # A chain that never left where it was counts as lost, too.
        "chains_lost": int(len(values) - np.sum(sound.std(axis=1).max(axis=1) > 1e-6)),
        **problem.scores(values),
    }


def time_to(problem: Problem, result: dict[str, Any], nll: float) -> float | None:
    """Seconds after which a run's NLL was at most `nll` at every later block."""
    reached = None
    for seconds, draws in result["history"]:
        if problem.scores(result["functions"][:, :draws])["nll"] > nll:
            reached = None
        elif reached is None:
            reached = seconds
    return reached


def run(
    name: str, network: str, options: Any, compilations: Compilations, stored: dict[str, Any]
) -> dict[str, Any]:
    """All contenders on one posterior, printed as they come; bde's row may be a `stored` one."""
    problem = Problem(name, network)
    print(
        f"\n{name}, {network}\n{'':26}{'s':>7}{'compile':>9}{'grad./s':>9}{'ESS within':>11}"
        f"{'R-hat':>8}{'lost':>5}{'RMSE':>8}{'NLL':>8}{'until bde':>11}"
    )
    found: dict[str, Any] = {}
    wanted = np.inf

    def take(label: str, result: dict[str, Any]) -> dict[str, Any]:
        row = found[label] = judge(problem, result)
        until = ""
        if "history" in result and np.isfinite(wanted):
            row["seconds_to_bde"] = time_to(problem, result, wanted)
            until = "never" if row["seconds_to_bde"] is None else f"{row['seconds_to_bde']:.1f}"
        print(
            f"{label:26}{row['seconds']:>7.1f}{row['compile']:>9.1f}"
            f"{row['gradients_per_second']:>9}{row['within_chain_ess_median']:>11.0f}"
            f"{row['rhat_max']:>8.2f}{row['chains_lost']:>5}{row['rmse']:>8.3f}{row['nll']:>8.3f}"
            f"{until:>11}",
            flush=True,
        )
        return row

    seconds, row = options.seconds, stored.get("bde")
    if options.bde is not None and (row is None or not options.only or "bde" in options.only):
        row = take("bde", bde(problem, options.bde, **BDE))
    if row is not None:
        wanted, seconds = row["nll"], seconds or row["seconds"]
    for label, contender in contenders(problem, compilations, seconds or 30.0).items():
        if options.only and label not in options.only:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            take(label, contender())
    return found


def main() -> None:
    """Print a table for each posterior and write one JSON file."""
    parser = argparse.ArgumentParser(description="Predictions of chains that do not converge.")
    parser.add_argument("names", nargs="+", help="data sets of BAYESNN_DATA")
    parser.add_argument("--networks", nargs="+", default=["50", "16-16"])
    parser.add_argument("--bde", help="an interpreter with sklearn-contrib-bde")
    parser.add_argument(
        "--seconds", type=float, help="the budget of all but bde; by default its own, or 30"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        help="names of contenders, such as `bde` and `ours: mile`; the other rows stay",
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", 2)
    compilations = Compilations()
    path = options.out / "hard-posteriors.json"
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        for network in options.networks:
            key = f"{name}, {network}"
            every = json.loads(path.read_text()) if path.exists() else {}
            stored = every.get(key, {}) if options.only else {}
            found = run(name, network, options, compilations, stored)
            every[key] = stored | found
            path.write_text(json.dumps(every, indent=2) + "\n")
