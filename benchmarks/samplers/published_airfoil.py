"""bde's published figures on airfoil, with bde and `mile` on the same protocol.

    BAYESNN_DATA=... python -m benchmarks published_airfoil --bde PYTHON [--splits 0 1]
        [--out benchmarks/results]

Ten members, 50 000 steps of warm-up and 10 000 of sampling, every tenth kept; a relu net of 16-16
to mean and scale, N(0, 1) weights, standardised data, in which RMSE and NLL stand here. Published
(the paper of `sklearn-contrib-bde`, ten cores): RMSE 0.1215 +- 0.0042, NLL -0.9126 +- 0.0131, 235
to 246 s; its splits and its network are not published, so `mile` is compared with bde's own row.
"""

import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.harness.records import RESULTS, Record
from benchmarks.samplers import contenders
from benchmarks.samplers.contenders import ours
from benchmarks.samplers.hard_posteriors import BDE, MILE
from benchmarks.samplers.problem import Compilations, Problem

MEMBERS = 10


def standardised(problem: Problem, result: dict[str, Any]) -> dict[str, float]:
    """Scores in standard deviations of the training targets, and the time without compilation."""
    from bayesnn_ppl.diagnostics import rhat

    scale = problem.data.test.y.standardisation.y_scale
    scores, values = problem.scores(result["functions"]), result["functions"]
    sound = values[np.isfinite(values).all((1, 2))]
    return {
        "seconds": float(result["seconds"]),
        "compile": float(result["compile"]),
        "rmse": float(scores["rmse"] / scale),
        "nll": float(scores["nll"] - np.log(scale)),
        "rhat_max": float(np.nanmax(rhat(sound))),
        "chains_lost": len(values) - len(sound),
    }


def run(split: int, python: str, compilations: Compilations) -> dict[str, dict[str, float]]:
    """Both on one split."""
    import bayesnn_ppl as bnn

    problem = Problem("airfoil", "16-16", split=split)
    kernel = bnn.kernels.MCLMC(problem.model, steps_per_draw=10, **MILE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mile = ours(
            problem,
            compilations,
            kernel,
            BDE["warmup_steps"] // 10,
            np.inf,
            chains=MEMBERS,
            draws=BDE["n_samples"] // 10,
            init=bnn.approximations.Ensemble(),
        )
    return {
        "mile": standardised(problem, mile),
        "bde": standardised(problem, contenders.bde(problem, python, members=MEMBERS, **BDE)),
    }


def main(*, bde: str, splits: tuple[int, ...] = (0,), out: Path = RESULTS) -> None:
    """Print a line for each run and write one JSON file.

    Args:
        bde: an interpreter with sklearn-contrib-bde.
    """
    jax.config.update("jax_num_cpu_devices", 2)
    compilations, record = Compilations(), Record(out / "published-airfoil.json")
    for split in splits:
        record[f"split {split}"] = found = run(split, bde, compilations)
        for name, row in found.items():
            print(
                f"split {split} {name:5} {row['seconds']:6.1f} s (compile {row['compile']:.0f} s) "
                f"RMSE {row['rmse']:.4f} NLL {row['nll']:.4f} R-hat {row['rhat_max']:.2f} "
                f"lost {row['chains_lost']}",
                flush=True,
            )
