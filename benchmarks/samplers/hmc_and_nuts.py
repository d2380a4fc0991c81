"""Do two samplers of one density agree? Our full-batch HMC and NumPyro's NUTS on UCI data.

    BAYESNN_DATA=... python -m benchmarks hmc_and_nuts [--data bostonHousing concrete]
        [--minutes 10] [--out benchmarks/results]

`mlp_regression_small` with prior variance 1/30, split 0, and the program itself is what both get:
`bnn.sample(HMC(program))` and `numpyro.infer.MCMC(NUTS(program))`, two independent runs of each,
four chains. A fifth run is the control: HMC at the temperature 1.5, which is another density.

Compared are the predictive mean and sd at the test rows, in standard deviations of the training
targets: the distance of the predictive means (root mean square over rows), the 1-Wasserstein
distance of the posterior of f(x), mean over rows, and the NLL. Two runs of one sampler say how far
apart runs are by chance; the other sampler's must be no farther, and the control's must be. Each
run is stored when it is done and is not made again. Yacht and energy need long trajectories.
"""

import argparse
import json
import time
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

RUNS = ("HMC 1", "HMC 2", "NUTS 1", "NUTS 2", "control")
# Data set -> leapfrogs of a draw of HMC on average, and its warm-up.
TRAJECTORIES = {"yacht": (4000, 800), "energy": (5000, 800)}
SHORT = (300, 500)


def run(problem: Any, name: str, seconds: float) -> np.ndarray:
    """Mean and sd at the test rows, (chain, draw, 2 rows)."""
    from benchmarks.samplers.contenders import Compilations, numpyro_nuts, ours

    compilations = Compilations()
    if name.startswith("NUTS"):
        seed = 10 * int(name[-1])
        nuts = numpyro_nuts(
            problem, compilations, seconds, method="parallel", warmup=500, seed=seed
        )
        return np.asarray(nuts["functions"])
    import bayesnn_ppl as bnn

    model = bnn.cold(problem.model, 1.5) if name == "control" else problem.model
    leapfrogs, warmup = TRAJECTORIES.get(problem.name, SHORT)
    kernel = bnn.kernels.HMC(
        model, num_leapfrogs=leapfrogs, jitter=0.5, mass="diagonal", step_size=1e-3
    )
    hmc = ours(problem, compilations, kernel, warmup, seconds, seed=2 if name == "HMC 2" else 1)
    return np.asarray(hmc["functions"])


def between(first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """Distances of two runs at the test rows, standardised."""
    import bayesnn_ppl as bnn

    rows = first.shape[2] // 2
    f, g = (values[..., :rows].reshape(-1, rows) for values in (first, second))
    return {
        "means": float(np.sqrt(np.mean((f.mean(0) - g.mean(0)) ** 2))),
        "wasserstein": bnn.metrics.wasserstein(f, g),
    }


def report(problem: Any, found: dict[str, np.ndarray]) -> dict[str, Any]:
    """What each run says, and how far apart each two are."""
    from bayesnn_ppl.diagnostics import ess_bulk, rhat

    rows: dict[str, Any] = {"runs": {}, "pairs": {}}
    print(f"\n{problem.name}\n{'':10}{'draws':>7}{'R-hat':>8}{'ESS':>7}{'NLL':>9}{'spread':>8}")
    for name, values in found.items():
        outputs = values.shape[2] // 2
        rows["runs"][name] = own = {
            "draws": values.shape[0] * values.shape[1],
            "rhat": float(np.max(rhat(values))),
            "ess": float(np.min(ess_bulk(values))),
            "nll": problem.scores(values)["nll"],
            "spread": float(values[..., :outputs].std((0, 1)).mean()),
        }
        print(
            f"{name:10}{own['draws']:>7}{own['rhat']:>8.3f}{own['ess']:>7.0f}{own['nll']:>9.4f}"
            f"{own['spread']:>8.4f}"
        )
    print(f"{'':20}{'means':>9}{'Wasserstein':>13}{'NLL':>9}")
    for first, second in combinations(found, 2):
        pair = between(found[first], found[second])
        pair["nll"] = rows["runs"][first]["nll"] - rows["runs"][second]["nll"]
        rows["pairs"][f"{first} - {second}"] = pair
        print(
            f"{first + ' - ' + second:20}{pair['means']:>9.4f}{pair['wasserstein']:>13.4f}"
            f"{pair['nll']:>9.4f}"
        )
    return rows


def main() -> None:
    """Make the runs that are missing; print the distances."""
    parser = argparse.ArgumentParser(description="HMC and NUTS on one density.")
    parser.add_argument("--data", nargs="+", default=["bostonHousing", "concrete"])
    parser.add_argument("--minutes", type=float, default=10.0, help="of each run")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of chains that were ended by the time

    import jax

    jax.config.update("jax_num_cpu_devices", 2)
    from benchmarks.samplers.contenders import Problem

    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "hmc_and_nuts.json"
    for data_name in options.data:
        problem, found = Problem(data_name), {}
        for name in RUNS:
            stored = options.out / f"hmc-and-nuts-{data_name}-{name.replace(' ', '-')}.npy"
            if not stored.exists():
                began = time.perf_counter()
                np.save(stored, run(problem, name, 60 * options.minutes).astype(np.float32))
                print(f"{data_name}, {name}: {time.perf_counter() - began:.0f} s", flush=True)
            found[name] = np.load(stored)
        rows = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(rows | {data_name: report(problem, found)}, indent=1) + "\n")
