"""Evidence and agreement of independent runs of sequential Monte Carlo on posteriors of UCI data.

    BAYESNN_DATA=... python -m benchmarks evidence small:bostonHousing small:concrete small:energy
        [--chains 512] [--warmup 120] [--moves 3] [--out benchmarks/results]

Each posterior is `NETWORK:DATA`, with the networks of `benchmarks.samplers.problem`. Four runs of
particles go from the prior to the posterior (`bnn.kernels.TemperedSMC`). The table has the log
evidence of the standardised targets and its standard error from the four runs; the smallest share
of the particles that a stage has left; the largest nested R-hat of the functions at 100 test
inputs; and the NLL of the test rows. A posterior takes minutes to an hour: it is kept in a folder
of runs as it goes, and the command continues when it is called again.
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table
from benchmarks.samplers.problem import Problem

DRAWS = 10


def sampled(problem: Problem, folder: Path, *, chains: int, warmup: int, moves: int) -> Any:
    """The posterior of one problem, begun or continued in the folder."""
    import bayesnn_ppl as bnn

    kernel = bnn.kernels.TemperedSMC(problem.model, moves=moves)
    keep = bnn.Keep(probe=(problem.data.test.x[:100], problem.data.test.y[:100]))
    if folder.exists():
        return bnn.resume(folder, kernel, *problem.data.train, progress=False)
    return bnn.sample(
        kernel, *problem.data.train, warmup=warmup, draws=DRAWS, chains=chains, seed=0,
        keep=keep, out=folder, progress=False,
    )  # fmt: skip


def judged(problem: Problem, posterior: Any) -> dict[str, Any]:
    """A row of the table."""
    import bayesnn_ppl as bnn

    found, statistics = bnn.metrics.log_evidence(posterior), posterior.statistics
    verdict = posterior.diagnose()
    scores = bnn.metrics.evaluate(posterior, *problem.data.test, intervals=()).to_dict()
    chains, draws = statistics["n_steps"].shape
    warmup = posterior.provenance["warmup"]
    noise = {n: a for n, a in posterior.draws.items() if n.startswith("noise")}
    return {
        "log_evidence": round(found.value, 3),
        "error": round(found.error, 3),
        "of_each_run": found.runs.round(3).tolist(),
        "effective_share": round(found.effective_share, 3),
        "nested_rhat_max": round(max(s["rhat_max"] for s in verdict.functions.values()), 4),
        "status": verdict.status,
        "gradients_per_draw": round(float(statistics["n_steps"].mean())),
        "particles": chains,
        "stages_at_most": warmup,
        "noise_median": {n: round(float(np.median(a)), 5) for n, a in noise.items()},
        "seconds": round(posterior.provenance["seconds"]["total"], 1),
        **{name: round(float(scores[name]), 4) for name in ("rmse", "nll_mixture")},
    }


def main(
    names: list[str],
    /,
    *,
    chains: int = 512,
    warmup: int = 120,
    moves: int = 3,
    runs: Path = Path("runs/evidence"),
    out: Path = RESULTS,
) -> None:
    """Print a row for each posterior and write one JSON file.

    Args:
        names: posteriors as NETWORK:DATA, such as small:bostonHousing.
        chains: particles, in four runs.
        warmup: stages, at most.
        moves: trajectories of each particle in a stage.
        runs: the folder of unfinished and finished runs.
    """
    jax.config.update("jax_num_cpu_devices", 2)
    record = Record(out / "evidence.json")
    table = Table(" <24", "log Z >10.2f", "± >6.2f", "share >7.2f", "R-hat >7.3f", "NLL >8.3f")
    for name in names:
        network, data = name.split(":")
        key = f"{name}, {chains} particles, {moves} moves"
        if key not in record.rows:
            problem = Problem(data, network)
            folder = runs / f"{network}-{data}-{chains}-{moves}"
            posterior = sampled(problem, folder, chains=chains, warmup=warmup, moves=moves)
            record[key] = judged(problem, posterior)
        row = record.rows[key]
        columns = ("log_evidence", "error", "effective_share", "nested_rhat_max", "nll_mixture")
        table.row(name, *(row[column] for column in columns))
