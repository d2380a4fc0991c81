"""Does a conformal interval hold its level around a network, also where the model is wrong?

    BAYESNN_DATA=... python -m benchmarks conformal_coverage
        [--names diabetes concrete energy] [--repetitions 10] [--minutes 9]
        [--out benchmarks/results]

Half of the rows train a network of 20 tanh units (Laplace around its mode, linearised), a quarter
calibrate and a quarter are predicted, in another order for each repetition. The noise is a
parameter, or fixed at a tenth of the target's standard deviation, which is wrong. Counted are the
targets inside 90 % intervals: the posterior's own, and those of `bnn.conformal`. Of exchangeable
rows the count is beta-binomial exactly, and binomial of intervals that are right; `p` is the
two-sided probability of a count as far out. `summary` has, for each set, model and interval, the
share of all repetitions, the smallest p times their number, and the mean width in the data's units.

Writes `conformal_coverage.json`, a row for each set, model and repetition; what is missing is run.
"""

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import bayesnn_ppl as bnn
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table

KEY = ("data", "model", "repetition")
LEVEL = 0.9
MODELS = {"noise learned": bnn.likelihoods.gaussian(), "noise 0.1": bnn.likelihoods.gaussian(0.1)}
SCORES = {
    "quantile": bnn.conformal.Quantile(),
    "residual": bnn.conformal.Residual(),
    "scaled residual": bnn.conformal.Residual(scaled=True),
}


def run(name: str, model: str, repetition: int) -> dict[str, Any]:
    """Train, calibrate, and count the targets inside the intervals of the last rows."""
    raw = bnn.data.load(name, standardise=False)
    x, y = (np.concatenate(both) for both in zip(raw.train, raw.test, strict=True))
    data = bnn.data.from_arrays(x, y, task="regression", test_fraction=0.5, split=repetition)
    network = bnn.models.mlp(hidden=(20,), likelihood=MODELS[model])
    approximation = bnn.approximations.Laplace(network, structure="kfac", draws=100)
    posterior = bnn.fit(approximation, *data.train, seed=repetition, progress=False)
    half = len(data.test) // 2
    calibration, new = data.test[:half], data.test[half:]
    prediction = posterior.predict(new.x)
    ends = {"own": np.stack(prediction.quantile([(1 - LEVEL) / 2, (1 + LEVEL) / 2]), axis=-1)}
    for score, chosen in SCORES.items():
        calibrated = bnn.conformal.split(posterior, *calibration, score=chosen)
        ends[score] = calibrated.interval(new.x, LEVEL)
    target = prediction.y(new.y)
    rank = math.ceil((half + 1) * LEVEL)
    row: dict[str, Any] = {"calibration": half, "rows": len(new)}
    for kind, found in ends.items():
        count = int(((found[:, 0] <= target) & (target <= found[:, 1])).sum())
        chance = (
            stats.binom(len(new), LEVEL)
            if kind == "own"
            else stats.betabinom(len(new), rank, half + 1 - rank)
        )
        p = min(1.0, 2 * min(chance.cdf(count), chance.sf(count - 1)))
        row[kind] = {"covered": count, "p": p, "width": float(np.ptp(found, axis=1).mean())}
    return row


def summary(rows: list[Any]) -> dict[str, Any]:
    """Set -> model -> interval -> its share of all rows, smallest p times repetitions, width."""
    found: dict[str, Any] = {}
    for name, model in dict.fromkeys((row["data"], row["model"]) for row in rows):
        some = [row for row in rows if (row["data"], row["model"]) == (name, model)]
        found.setdefault(name, {})[model] = {
            kind: {
                "coverage": sum(r[kind]["covered"] for r in some) / sum(r["rows"] for r in some),
                "p": min(1.0, len(some) * min(r[kind]["p"] for r in some)),
                "width": float(np.mean([r[kind]["width"] for r in some])),
            }
            for kind in ("own", *SCORES)
        }
    return {"summary": found}


def main(
    *,
    names: tuple[str, ...] = ("diabetes", "concrete", "energy"),
    repetitions: int = 10,
    minutes: float = float("inf"),
    out: Path = RESULTS,
) -> None:
    """Make the runs that are missing, and print a line for each set, model and interval.

    Args:
        names: data sets of numbers.
        repetitions: orders of the rows.
        minutes: after which no further run begins.
    """
    record = Record(out / "conformal_coverage.json", key=KEY, summary=summary)
    for key in record.missing(product(names, MODELS, range(repetitions)), minutes):
        record[key] = run(*key)
    table = Table("set <10", "model <15", "interval <17", "inside >7.3f", "p >9.1e", "width >9.3f")
    for name, models in summary(list(record.rows.values()))["summary"].items():
        for (model, kinds), kind in product(models.items(), ("own", *SCORES)):
            table.row(name, model, kind, *kinds[kind].values())
