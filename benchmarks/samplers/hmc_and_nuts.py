"""Do two samplers of one density agree? Our full-batch HMC and NumPyro's NUTS on UCI data.

    BAYESNN_DATA=... python -m benchmarks hmc_and_nuts [--data bostonHousing concrete]
        [--minutes 10] [--out benchmarks/results]

`mlp_regression_small` with prior variance 1/30, split 0, and the model itself is what both get:
`bnn.sample(HMC(model))` and `numpyro.infer.MCMC(NUTS(model))`, two independent runs of each,
four chains. A fifth run is the control: HMC at the temperature 1.5, which is another density.

Compared are the predictive mean and sd at the test rows, in standard deviations of the training
targets: the distance of the predictive means (root mean square over rows), the 1-Wasserstein
distance of the posterior of f(x), mean over rows, and the NLL. Two runs of one sampler say how far
apart runs are by chance; the other sampler's must be no farther, and the control's must be. Each
run is stored when it is done and is not made again. Yacht and energy need long trajectories.
"""

import time
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import jax
import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import ess_bulk, rhat
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table
from benchmarks.samplers.contenders import numpyro_nuts, ours
from benchmarks.samplers.problem import Compilations, Problem

RUNS = ("HMC 1", "HMC 2", "NUTS 1", "NUTS 2", "control")
# Data set -> leapfrogs of a draw of HMC on average, and its warm-up.
TRAJECTORIES = {"yacht": (4000, 800), "energy": (5000, 800)}
SHORT = (300, 500)


def run(problem: Any, name: str, seconds: float) -> np.ndarray:
    """Mean and sd at the test rows, (chain, draw, 2 rows)."""
    compilations = Compilations()
    if name.startswith("NUTS"):
        seed = 10 * int(name[-1])
        nuts = numpyro_nuts(
            problem, compilations, seconds, method="parallel", warmup=500, seed=seed
        )
        return np.asarray(nuts["functions"])
    model = bnn.cold(problem.model, 1.5) if name == "control" else problem.model
    leapfrogs, warmup = TRAJECTORIES.get(problem.name, SHORT)
    kernel = bnn.kernels.HMC(
        model, num_leapfrogs=leapfrogs, jitter=0.5, mass="diagonal", step_size=1e-3
    )
    hmc = ours(problem, compilations, kernel, warmup, seconds, seed=2 if name == "HMC 2" else 1)
    return np.asarray(hmc["functions"])


def between(first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """Distances of two runs at the test rows, standardised."""
    rows = first.shape[2] // 2
    f, g = (values[..., :rows].reshape(-1, rows) for values in (first, second))
    return {
        "means": float(np.sqrt(np.mean((f.mean(0) - g.mean(0)) ** 2))),
        "wasserstein": bnn.metrics.wasserstein(f, g),
    }


def report(problem: Any, found: dict[str, np.ndarray]) -> dict[str, Any]:
    """What each run says, and how far apart each two are."""
    rows: dict[str, Any] = {"runs": {}, "pairs": {}}
    print(f"\n{problem.name}")
    table = Table(" <10", "draws >7", "R-hat >8.3f", "ESS >7.0f", "NLL >9.4f", "spread >8.4f")
    for name, values in found.items():
        outputs = values.shape[2] // 2
        rows["runs"][name] = own = {
            "draws": values.shape[0] * values.shape[1],
            "rhat": float(np.max(rhat(values))),
            "ess": float(np.min(ess_bulk(values))),
            "nll": problem.scores(values)["nll"],
            "spread": float(values[..., :outputs].std((0, 1)).mean()),
        }
        table.row(name, *own.values())
    table = Table(" <20", "means >9.4f", "Wasserstein >13.4f", "NLL >9.4f")
    for first, second in combinations(found, 2):
        pair = between(found[first], found[second])
        pair["nll"] = rows["runs"][first]["nll"] - rows["runs"][second]["nll"]
        rows["pairs"][f"{first} - {second}"] = pair
        table.row(f"{first} - {second}", *pair.values())
    return rows


def main(
    *,
    data: tuple[str, ...] = ("bostonHousing", "concrete"),
    minutes: float = 10.0,
    out: Path = RESULTS,
) -> None:
    """Make the runs that are missing; print the distances.

    Args:
        minutes: of each run.
    """
    warnings.simplefilter("ignore")  # of chains that were ended by the time
    jax.config.update("jax_num_cpu_devices", 2)
    record = Record(out / "hmc_and_nuts.json")
    out.mkdir(parents=True, exist_ok=True)
    for data_name in data:
        problem, found = Problem(data_name), {}
        for name in RUNS:
            stored = out / f"hmc-and-nuts-{data_name}-{name.replace(' ', '-')}.npy"
            if not stored.exists():
                began = time.perf_counter()
                np.save(stored, run(problem, name, 60 * minutes).astype(np.float32))
                print(f"{data_name}, {name}: {time.perf_counter() - began:.0f} s", flush=True)
            found[name] = np.load(stored)
        record[data_name] = report(problem, found)
