"""The tables of bde's paper on its own protocol: bde, CatBoost, a deep ensemble and `mile`.

    BAYESNN_DATA=... python -m benchmarks published_tables airfoil bikesharing --bde PYTHON
        [--seeds 0 1 2 3 4] [--only mile ensemble ...] [--validation] [--out benchmarks/results]

The protocol is that of the script `paper/scripts/benchmark.py` of `sklearn-contrib-bde`: one split,
`train_test_split(X, y, test_size=0.2, random_state=0)`, both X and y standardised by the training
rows, model seeds 0 to 4, a relu net of four layers of 16 to mean and scale, N(0, 1) weights, ten
members, 50 000 steps of warm-up. bde's `n_samples=1000` with `n_thinning=10` are 1 000 steps and
100 draws of each member, which `mile` has, too. The paper had ten cores, this study has two.

NLL is that of a Gaussian with the predictive mean and standard deviation, as in the paper, and
`nll_mixture` that of the mixture over draws, both in standardised units. `linear` is least squares:
its published RMSE has no randomness, so it says whether rows, columns and split are the same.
`seconds` are of the clock, compilation counted; `cpu_seconds` those that all cores spent on it,
which other work on the machine does not change.

`longer_mile` is an experiment, which runs only if `--only` names it.

With `--validation` nothing sees the test rows: a fifth of the training rows is held out and scored
instead. Settings are chosen on those. Every run is stored when it is done, and is not made again.
"""

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.stats import norm

import bayesnn_ppl as bnn
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.running import peer
from benchmarks.harness.tables import Table
from benchmarks.samplers.problem import Clock, Compilations

MEMBERS = 10
HIDDEN = [16, 16, 16, 16]
CORES = 2
KEY = ("data", "rows", "contender", "seed")
BDE = {
    "n_members": MEMBERS,
    "hidden_layers": HIDDEN,
    "epochs": 1200,
    "validation_split": 0.15,
    "lr": 1e-3,
    "weight_decay": 1e-4,
    "warmup_steps": 50_000,
    "n_samples": 1000,
    "n_thinning": 10,
    "patience": 20,
}
CATBOOST = {
    "depth": 6,
    "iterations": 1000,
    "learning_rate": 0.05,
    "loss_function": "RMSEWithUncertainty",
    "thread_count": CORES,
}
# Means over the seeds 0 to 4, seconds on ten cores: the results.csv of both sets in bde's
# repository, and for TabPFN the version 2.
PUBLISHED = {
    "airfoil": {
        "linear": {"rmse": 0.6598633, "nll": None, "seconds": 0.0008},
        "catboost": {"rmse": 0.2393, "nll": 0.1479, "seconds": 0.84},
        "ensemble": {"rmse": 0.3647, "nll": 0.1764, "seconds": 19.4},
        "tabpfn": {"rmse": 0.1359, "nll": -0.9338, "seconds": 9.3},
        "bde": {"rmse": 0.1216, "nll": -0.9126, "seconds": 240},
    },
    "bikesharing": {
        "linear": {"rmse": 0.7796254, "nll": None, "seconds": 0.003},
        "catboost": {"rmse": 0.2652, "nll": -0.3737, "seconds": 2.5},
        "ensemble": {"rmse": 0.2879, "nll": -0.4551, "seconds": 39},
        "tabpfn": {"rmse": 0.2104, "nll": -0.6856, "seconds": 1246},
        "bde": {"rmse": 0.2261, "nll": -0.7315, "seconds": 2553},
    },
}


@dataclass(frozen=True)
class Rows:
    """Standardised training rows, and the rows that are scored."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray

    @property
    def given(self) -> dict[str, np.ndarray]:
        """All that a contender may see."""
        return {"x": self.x, "y": self.y, "test": self.test_x}


def split(x: np.ndarray, y: np.ndarray, *, validation: bool = False) -> Rows:
    """The paper's split; with `validation` a split of its training rows alone."""
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    x, test_x, y, test_y = train_test_split(x, y, test_size=0.2, random_state=0)
    if validation:
        x, test_x, y, test_y = train_test_split(x, y, test_size=0.2, random_state=1)
    inputs, targets = StandardScaler().fit(x), StandardScaler().fit(y[:, None])
    found = inputs.transform(x), targets.transform(y[:, None])[:, 0]
    tested = inputs.transform(test_x), targets.transform(test_y[:, None])[:, 0]
    return Rows(*(a.astype(np.float32) for a in (*found, *tested)))


def load(name: str, *, validation: bool = False) -> Rows:
    """Those of a set of `BAYESNN_DATA`, whose rows and columns are the paper's."""
    with np.load(Path(os.environ["BAYESNN_DATA"]) / "uci" / f"{name}.npz") as file:
        return split(file["X"], file["y"], validation=validation)


def gaussian_scores(y: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> dict[str, float]:
    """RMSE, and NLL of a Gaussian with the predictive mean and standard deviation."""
    y, mean, sd = (np.asarray(a, dtype=float) for a in (y, mean, sd))
    return {
        "rmse": float(np.sqrt(np.mean((mean - y) ** 2))),
        "nll": float(-norm.logpdf(y, mean, np.maximum(sd, 1e-8)).mean()),
    }


def mixture_scores(y: np.ndarray, means: np.ndarray, sds: np.ndarray) -> dict[str, float]:
    """The same of components (..., row), weighted equally, and the NLL of their mixture."""
    from scipy.special import logsumexp

    means, sds = (np.asarray(a, float).reshape(-1, len(y)) for a in (means, sds))
    sd = np.sqrt((sds**2).mean(0) + means.var(0))
    log_p = logsumexp(norm.logpdf(y, means, sds), axis=0) - np.log(len(means))
    return gaussian_scores(y, means.mean(0), sd) | {"nll_mixture": float(-log_p.mean())}


def linear(rows: Rows, seed: int) -> dict[str, Any]:
    """Least squares, which knows no uncertainty."""
    x, y, test = (np.asarray(a, float) for a in (rows.x, rows.y, rows.test_x))
    weights = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)[0]
    mean = test @ weights[:-1] + weights[-1]
    return {"rmse": gaussian_scores(rows.test_y, mean, np.ones(len(mean)))["rmse"]}


def catboost(rows: Rows, seed: int, python: str) -> dict[str, Any]:
    """CatBoost's mean and its total uncertainty of ten virtual members."""
    options = {"random_seed": seed, **CATBOOST}
    found = peer(python, "catboost_peer.py", rows.given, options, MEMBERS)
    scores = gaussian_scores(rows.test_y, found["mean"], found["sd"])
    return {name: float(found[name]) for name in ("seconds", "cpu_seconds")} | scores


def bde(rows: Rows, seed: int, python: str) -> dict[str, Any]:
    """bde; the moments of its draws are what its `predict(x, mean_and_std=True)` says."""
    found = peer(python, "bde_peer.py", rows.given, {"seed": seed, **BDE})
    seconds, compiling, cpu = (float(found[k]) for k in ("seconds", "compile", "cpu_seconds"))
    scores = mixture_scores(rows.test_y, found["raw"][..., 0], found["raw"][..., 1])
    times = {"seconds": seconds + compiling, "compile": compiling, "cpu_seconds": cpu}
    return times | scores


def model() -> Any:
    """The paper's network and prior."""
    return bnn.models.mlp(
        hidden=tuple(HIDDEN),
        activation="relu",
        prior=bnn.priors.normal(1.0),
        likelihood=bnn.likelihoods.heteroscedastic(),
    )


def ours(
    rows: Rows, seed: int, compilations: Compilations, fit: Callable[..., Any]
) -> dict[str, Any]:
    """What `fit(model, x, y, seed=...)` predicts."""
    clock, cpu = Clock(compilations), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of chains that do not converge, which is expected here
        posterior = fit(model(), rows.x, rows.y, seed=seed, progress=False)
    seconds, cpu = clock.seconds() + clock.compile, time.process_time() - cpu
    prediction = posterior.predict(rows.test_x)
    scores = gaussian_scores(rows.test_y, prediction.mean, np.sqrt(prediction.variance))
    mixture = float(-np.mean(prediction.log_prob(rows.test_y), dtype=np.float64))
    times = {"seconds": seconds, "compile": clock.compile, "cpu_seconds": cpu}
    return {**times, **scores, "nll_mixture": mixture}


def ensemble(net: Any, x: Any, y: Any, **how: Any) -> Any:
    """Ten members with the defaults of `Ensemble`."""
    return bnn.fit(bnn.approximations.Ensemble(net, members=MEMBERS), x, y, **how)


def longer_ensemble(net: Any, x: Any, y: Any, **how: Any) -> Any:
    """Ten members that train for longer and faster, as rows held out of airfoil's prefer."""
    longer = {"epochs": 2000, "patience": 100, "learning_rate": 3e-3}
    return bnn.fit(bnn.approximations.Ensemble(net, members=MEMBERS, **longer), x, y, **how)


def mile(net: Any, x: Any, y: Any, *, steps_per_draw: int = BDE["n_thinning"], **how: Any) -> Any:
    """`mile` with its defaults, and as many chains and steps as bde."""
    return bnn.mile(
        net,
        x,
        y,
        chains=MEMBERS,
        warmup_steps=BDE["warmup_steps"],
        draws=BDE["n_samples"] // BDE["n_thinning"],
        steps_per_draw=steps_per_draw,
        **how,
    )


def longer_mile(net: Any, x: Any, y: Any, **how: Any) -> Any:
    """The same with ten times the steps after the warm-up, and as many draws."""
    return mile(net, x, y, steps_per_draw=10 * BDE["n_thinning"], **how)


def contenders(
    python: str | None, compilations: Compilations
) -> dict[str, Callable[[Rows, int], dict[str, Any]]]:
    """Name -> a function of rows and seed; bde and CatBoost where there is an interpreter."""
    theirs = {} if python is None else {"catboost": catboost, "bde": bde}
    return {
        "linear": linear,
        **{name: partial(function, python=python) for name, function in theirs.items()},
        **{
            fit.__name__: partial(ours, compilations=compilations, fit=fit)
            for fit in (ensemble, longer_ensemble, mile, longer_mile)
        },
    }


def main(
    names: list[str],
    /,
    *,
    bde: str | None = None,
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    only: tuple[str, ...] = (),
    validation: bool = False,
    minutes: float = float("inf"),
    out: Path = RESULTS,
) -> None:
    """Make the runs that are missing, print a line for each and write one JSON file.

    Args:
        names: data sets of BAYESNN_DATA, airfoil and bikesharing.
        bde: an interpreter with sklearn-contrib-bde and catboost.
        only: names of contenders.
        validation: score a fifth of the training rows, which then does not train.
        minutes: after which no further run begins.
    """
    jax.config.update("jax_num_cpu_devices", CORES)
    summary = {"published": PUBLISHED, "published_cores": 10}
    record = Record(out / "published-tables.json", key=KEY, summary=lambda _: summary)
    runs = contenders(bde, Compilations())
    if unknown := set(only) - set(runs):
        raise SystemExit(f"{sorted(unknown)} are not among the contenders {list(runs)}.")
    usual = [name for name in runs if name != "longer_mile"]
    part = "validation" if validation else "test"
    wanted = [
        (name, part, contender, seed)
        for seed, name, contender in product(seeds, names, only or usual)
        if contender != "linear" or seed == 0
    ]
    table = Table(
        "set <13", "contender <17", "seed >5", "s >9.1f", "CPU s >9.1f", "compile >9.1f",
        "RMSE >9.4f", "NLL >9.4f", "mixture >9.4f",
    )  # fmt: skip
    for key in record.missing(wanted, minutes):
        name, _, contender, seed = key
        row = runs[contender](load(name, validation=validation), seed)
        record[key] = row | {"cores": CORES}
        shown = ("seconds", "cpu_seconds", "compile", "rmse", "nll", "nll_mixture")
        table.row(name, contender, seed, *(row.get(column) for column in shown))
