"""Which energy variance `mile` should end its warm-up at, chosen on splits it is not judged by.

    BAYESNN_DATA=... python -m benchmarks.energy_variance [--data yacht energy airfoil]
        [--values 0.1 0.03 0.01] [--splits 1 2] [--minutes 30] [--out benchmarks/results]

`benchmarks.hard_posteriors` compares samplers on split 0; whatever is chosen by its test rows is
not a fair setting there. Here the net of 16-16 is run on other splits: four chains, 50 000 steps
of warm-up and 20 000 of sampling, so that nothing depends on how fast the machine is. NLL is that
of the mixture of all draws, in the data's own units.

Every run is stored when it is done, and is not made again.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

import bayesnn_ppl as bnn
from benchmarks.contenders import Problem


def run(name: str, split: int, value: float) -> dict[str, Any]:
    """One run of `mile`: its scores on the test rows of the split."""
    problem = Problem(name, "16-16", split=split)
    posterior = bnn.mile(
        problem.model,
        *problem.data.train,
        chains=4,
        warmup_steps=50_000,
        draws=400,
        steps_per_draw=50,
        kernel={"energy_variance_end": value},
        seed=split,
        progress=False,
    )
    scores = bnn.metrics.evaluate(posterior, *problem.data.test)
    return {
        "data": name,
        "split": split,
        "energy_variance_end": value,
        "nll": float(scores["nll_mixture"]),
        "rmse": float(scores["rmse"]),
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """NLL by data set and value, and its mean over data sets and splits."""
    values = sorted({r["energy_variance_end"] for r in rows}, reverse=True)
    places = sorted({(r["data"], r["split"]) for r in rows})
    known = {(r["data"], r["split"], r["energy_variance_end"]): r["nll"] for r in rows}
    print(f"{'':16}" + "".join(f"{v:>10g}" for v in values))
    for place in places:
        cells = (known.get((*place, v)) for v in values)
        name = f"{place[0]}, {place[1]}"
        print(f"{name:16}" + "".join("         -" if c is None else f"{c:>10.3f}" for c in cells))
    full = [place for place in places if all((*place, v) in known for v in values)]
    if full:
        means = [np.mean([known[(*place, v)] for place in full]) for v in values]
        print(f"{'mean':16}" + "".join(f"{m:>10.3f}" for m in means))


def main() -> None:
    """Make the runs that are missing; print the table."""
    parser = argparse.ArgumentParser(description="The energy variance that mile ends at.")
    parser.add_argument("--data", nargs="+", default=["yacht", "energy", "airfoil"])
    parser.add_argument("--values", type=float, nargs="+", default=[0.1, 0.03, 0.01])
    parser.add_argument("--splits", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--minutes", type=float, default=float("inf"), help="then stop")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of chains that do not converge, which is expected here
    jax.config.update("jax_num_cpu_devices", 2)
    path, began = options.out / "energy_variance.json", time.perf_counter()
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    done = {(r["data"], r["split"], r["energy_variance_end"]) for r in rows}
    wanted = [(d, s, v) for s in options.splits for d in options.data for v in options.values]
    missing = [key for key in wanted if key not in done]
    options.out.mkdir(parents=True, exist_ok=True)
    for count, key in enumerate(missing, start=1):
        rows.append(run(*key))
        path.write_text(json.dumps(rows, indent=1) + "\n")
        print(rows[-1], flush=True)
        if time.perf_counter() - began > 60 * options.minutes and count < len(missing):
            print(f"{len(missing) - count} runs are left: call the same command again.")
            break
    print_table(rows)


if __name__ == "__main__":
    main()
