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

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table
from benchmarks.samplers.contenders import (
    bde,
    blackjax_mclmc,
    blackjax_nuts,
    numpyro_nuts,
    ours,
)
from benchmarks.samplers.problem import Compilations, Problem

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
    record: Record,
    name: str,
    network: str,
    compilations: Compilations,
    *,
    python: str | None,
    seconds: float | None,
    only: Sequence[str],
) -> None:
    """All contenders on one posterior, printed and recorded; bde's row may be a stored one.

    Args:
        record: of all posteriors, a row each; `only` some contenders keep the others of a row.
        name, network: of the posterior.
        compilations: whose seconds are left out.
        python: an interpreter that has bde.
        seconds: the budget; without it bde's own time, or 30.
        only: names of contenders.
    """
    problem, key, wanted = Problem(name, network), f"{name}, {network}", np.inf
    found: dict[str, Any] = dict(record.rows.get(key, {})) if only else {}
    print(f"\n{key}")
    table = Table(
        " <26", "s >7.1f", "compile >9.1f", "grad./s >9", "ESS within >11.0f", "R-hat >8.2f",
        "lost >5", "RMSE >8.3f", "NLL >8.3f", "until bde >11.1f",
    )  # fmt: skip
    shown = (
        "seconds", "compile", "gradients_per_second", "within_chain_ess_median", "rhat_max",
        "chains_lost", "rmse", "nll",
    )  # fmt: skip

    def take(label: str, result: dict[str, Any]) -> dict[str, Any]:
        row = found[label] = judge(problem, result)
        until = None
        if "history" in result and np.isfinite(wanted):
            row["seconds_to_bde"] = time_to(problem, result, wanted)
            until = "never" if row["seconds_to_bde"] is None else row["seconds_to_bde"]
        table.row(label, *(row[column] for column in shown), until)
        record[key] = found
        return row

    row = found.get("bde")
    if python is not None and (row is None or not only or "bde" in only):
        row = take("bde", bde(problem, python, **BDE))
    if row is not None:
        wanted, seconds = row["nll"], seconds or row["seconds"]
    for label, contender in contenders(problem, compilations, seconds or 30.0).items():
        if only and label not in only:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            take(label, contender())


def main(
    names: list[str],
    /,
    *,
    networks: tuple[str, ...] = ("50", "16-16"),
    bde: str | None = None,
    seconds: float | None = None,
    only: tuple[str, ...] = (),
    out: Path = RESULTS,
) -> None:
    """Print a table for each posterior and write one JSON file.

    Args:
        names: data sets of BAYESNN_DATA.
        bde: an interpreter with sklearn-contrib-bde.
        seconds: the budget of all but bde; without it bde's own, or 30.
        only: names of contenders, such as `bde` and `ours: mile`; the other rows stay.
    """
    jax.config.update("jax_num_cpu_devices", 2)
    record, compilations = Record(out / "hard-posteriors.json"), Compilations()
    for name, network in product(names, networks):
        run(record, name, network, compilations, python=bde, seconds=seconds, only=only)
