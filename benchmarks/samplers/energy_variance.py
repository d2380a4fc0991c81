"""Which energy variance `mile` should end its warm-up at, on splits it is not judged by.

    BAYESNN_DATA=... python -m benchmarks energy_variance [--data yacht energy airfoil]
        [--networks 16-16 50-heads] [--values 0.1 0.01] [--splits 1 2] [--seeds 0]
        [--bde PYTHON] [--minutes 30] [--out benchmarks/results]

`hard_posteriors` compares samplers on split 0; whatever is chosen by its test rows is
not a fair setting there, so that one chooses on other splits, and judges what was chosen on split
0 with several seeds. Four chains, 50 000 steps of warm-up and 20 000 of sampling, bde its 50 000
and 10 000, so that nothing depends on how fast the machine is. NLL is that of the mixture of all
draws, in the data's own units.

Every run is stored when it is done, and is not made again.
"""

import warnings
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np

import bayesnn_ppl as bnn
from benchmarks.harness.records import RESULTS, Record
from benchmarks.samplers import contenders
from benchmarks.samplers.hard_posteriors import BDE
from benchmarks.samplers.problem import Problem

PLACE = ("data", "network", "split", "seed")


def run(problem: Problem, seed: int, value: float) -> dict[str, Any]:
    """One run of `mile`: its scores on the test rows of the split."""
    posterior = bnn.mile(
        problem.model,
        *problem.data.train,
        chains=4,
        warmup_steps=50_000,
        draws=400,
        steps_per_draw=50,
        kernel={"energy_variance_end": value},
        seed=seed,
        progress=False,
    )
    test = problem.data.test
    return {"nll": float(-np.mean(posterior.predict(test.x).log_prob(test.y), dtype=np.float64))}


def peer(problem: Problem, seed: int, python: str) -> dict[str, Any]:
    """One run of bde."""
    found = contenders.bde(problem, python, seed=seed, **BDE)
    return {"nll": problem.scores(found["functions"])["nll"]}


def print_table(rows: list[dict[str, Any]]) -> None:
    """NLL of each run, and means over the places that all methods have."""
    known = {(tuple(row[name] for name in PLACE), row["method"]): row["nll"] for row in rows}
    methods = sorted({method for _, method in known}, reverse=True)
    places = sorted({place for place, _ in known})
    print(f"{'':24}" + "".join(f"{m:>10}" for m in methods))
    for place in places:
        cells = (known.get((place, m)) for m in methods)
        shown = "".join(f"{'-':>10}" if c is None else f"{c:>10.3f}" for c in cells)
        print(f"{' '.join(map(str, place)):24}{shown}")
    full = [place for place in places if all((place, m) in known for m in methods)]
    if full:
        for name, of in (("mean", np.mean), ("median", np.median)):
            values = (of([known[place, m] for place in full]) for m in methods)
            print(f"{name + f' of {len(full)}':24}" + "".join(f"{v:>10.3f}" for v in values))


def main(
    *,
    data: tuple[str, ...] = ("yacht", "energy", "airfoil"),
    networks: tuple[str, ...] = ("16-16", "50-heads"),
    values: tuple[float, ...] = (0.1, 0.01),
    splits: tuple[int, ...] = (1, 2),
    seeds: tuple[int, ...] = (0,),
    bde: str | None = None,
    minutes: float = float("inf"),
    out: Path = RESULTS,
) -> None:
    """Make the runs that are missing; print the table.

    Args:
        bde: an interpreter with sklearn-contrib-bde.
        minutes: after which no further run begins.
    """
    warnings.simplefilter("ignore")  # of chains that do not converge, which is expected here
    jax.config.update("jax_num_cpu_devices", 2)
    record = Record(out / "energy_variance.json", key=(*PLACE, "method"))
    methods = [f"{value:g}" for value in values] + ["bde"] * (bde is not None)
    wanted = [
        (name, network, split, seed, method)
        for split, seed, name, network, method in product(splits, seeds, data, networks, methods)
    ]
    for key in record.missing(wanted, minutes):
        name, network, split, seed, method = key
        problem = Problem(name, network, split=split)
        record[key] = (
            peer(problem, seed, bde) if method == "bde" else run(problem, seed, float(method))
        )
        print(record.rows[key], flush=True)
    print_table(list(record.rows.values()))
