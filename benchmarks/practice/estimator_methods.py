"""Which method the scikit-learn estimators take by default: test scores and seconds of four.

    BAYESNN_DATA=... python -m benchmarks estimator_methods yacht bostonHousing energy concrete
        kin8nm [--splits 0 1] [--minutes 20] [--out benchmarks/results]

`BayesianMLPRegressor` as it is, one layer of 50 tanh units, `fan_in_normal` and a learned noise,
on the training rows of a standard split. `seconds` are those of `fit`, with compilation and
diagnosis, on one device; after 200 s a sampler is ended. What ended in its warm-up has no score.
Writes `estimator_methods.json`, a row for each set, split and method; what is missing is run.
"""

import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import bayesnn_ppl as bnn
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table

KEY = ("data", "split", "method")
METHODS = {
    "Ensemble": bnn.approximations.Ensemble,
    "ChEES": bnn.kernels.ChEES,
    "ChEES, 100 leapfrogs": partial(bnn.kernels.ChEES, step_size=0.01, max_leapfrogs=100),
    "mile": partial(bnn.mile, chains=4, warmup_steps=5_000, draws=200),
}
LIMIT = 200.0


def run(data: Any, method: str) -> dict[str, Any]:
    """Fit the estimator to the training rows in their own units, and score it on the test rows."""
    units, (x, y) = data.standardisation, data.train
    estimator = bnn.sklearn.BayesianMLPRegressor(
        method=METHODS[method],
        max_time=None if method == "Ensemble" else LIMIT,
        random_state=0,
    )
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the verdict, which is kept
        try:
            estimator.fit(units.undo_x(x), units.undo_y(y))
        except RuntimeError:  # the time was up
            return {name: None for name in ("seconds", "nll", "rmse", "verdict", "ended")}
        seconds = time.perf_counter() - began
        scores = bnn.metrics.evaluate(estimator.posterior_, *data.test).to_dict()
    return {
        "seconds": round(seconds, 1),
        "nll": scores["nll_mixture"],
        "rmse": scores["rmse"],
        "verdict": estimator.diagnosis_.status,
        "ended": estimator.posterior_.provenance["ended"]["by"],
    }


def main(
    names: list[str],
    /,
    *,
    splits: tuple[int, ...] = (0, 1),
    minutes: float = float("inf"),
    out: Path = RESULTS,
) -> None:
    """Make the runs that are missing, and print a line for each.

    Args:
        names: data sets of BAYESNN_DATA.
        minutes: after which no further run begins.
    """
    record = Record(out / "estimator_methods.json", key=KEY)
    table = Table("set <14", "split >5", "  method <24", "s >7.1f", "NLL >9.4f", "RMSE >9.4f")
    wanted = ((name, s, method) for s, name, method in product(splits, names, METHODS))
    for name, split, method in record.missing(wanted, minutes):
        row = run(bnn.data.load(name, split=split), method)
        record[name, split, method] = row
        table.row(name, split, f"  {method}", *(row[c] for c in ("seconds", "nll", "rmse")))
