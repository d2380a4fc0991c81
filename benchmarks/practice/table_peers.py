"""Peers of `table_benchmark`, fitted by an interpreter that has them, and their scores."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from scipy.special import logsumexp
from scipy.stats import norm

import bayesnn_ppl as bnn
from benchmarks.harness.running import peer, run_peer
from benchmarks.practice.table_sets import FOLDER, MIXED, UCI

CATBOOST = {"iterations": 1000, "learning_rate": 0.05, "depth": 6, "thread_count": 2}
# The network and the chains of `mile` in this benchmark; training is that of `published_tables`.
BDE = {
    "n_members": 8,
    "hidden_layers": [50],
    "epochs": 1200,
    "patience": 20,
    "warmup_steps": 5000,
    "n_samples": 2000,
    "n_thinning": 10,
}


def catboost(name: str, data: Any, split: int, peers: str) -> dict[str, Any]:
    """CatBoost on the columns as they are, scored as a Gaussian or by its probabilities."""
    if name in UCI:
        raw, target = bnn.data.load(name, split=split, standardise=False), "y"
        parts = [
            pandas.DataFrame(np.asarray(part.x)).assign(y=np.asarray(part.y))
            for part in (raw.train, raw.test)
        ]
    else:
        target = MIXED[name].target
        table = pandas.read_csv(FOLDER / f"{name}.csv").drop(columns=list(MIXED[name].drop))
        rows = bnn.data.uci_split_indices(len(table), split + 1)
        parts = [table.iloc[part[split]] for part in rows]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{part}.csv" for part in ("train", "test")]
        for part, file in zip(parts, files, strict=True):
            part.to_csv(file, index=False)
        made, options = Path(folder) / "made.npz", json.dumps(CATBOOST | {"random_seed": split})
        run_peer(peers, "catboost_table_peer.py", *files, target, data.task, made, options)
        with np.load(made) as arrays:
            found = dict(arrays)
    seconds = {"seconds": round(float(found["seconds"]), 1)}
    if data.classes is None:
        y = parts[1][target].to_numpy(float)
        return seconds | _of_numbers(y, found["mean"][None], found["sd"][None])
    order = [list(found["classes"]).index(name) for name in data.class_names]
    return seconds | _of_classes(data.test.y, found["probabilities"][:, order])


def bde(name: str, data: Any, split: int, peers: str) -> dict[str, Any]:
    """bde on the features that `data.load` makes, with its own prior, N(0, 1)."""
    options = BDE | {"seed": split}
    words = () if data.classes is None else ("classification",)
    x, y = data.train
    given = {"x": x, "y": y, "test": data.test.x}
    found = peer(peers, "bde_peer.py", given, options, *words)
    seconds = {"seconds": round(float(found["seconds"] + found["compile"]), 1)}
    if data.classes is not None:
        return seconds | _of_classes(data.test.y, found["probabilities"])
    draws = found["raw"].reshape(-1, len(data.test), 2).astype(float)
    units = data.standardisation
    y, mean = (units.y_mean + units.y_scale * part for part in (data.test.y, draws[..., 0]))
    return seconds | _of_numbers(np.asarray(y, float), mean, units.y_scale * draws[..., 1])


def _of_numbers(y: np.ndarray, means: np.ndarray, sds: np.ndarray) -> dict[str, float]:
    """Scores of a mixture of Gaussians, shape (draws, rows), each of one weight."""
    log_density = logsumexp(norm.logpdf(y, means, sds), axis=0) - np.log(len(means))
    below = norm.cdf(y, means, sds).mean(axis=0)
    return {
        "nll": float(-log_density.mean()),
        "rmse": float(np.sqrt(np.mean((y - means.mean(axis=0)) ** 2))),
        "crps": bnn.metrics.crps_gaussian_mixture(means, sds, y),
        "coverage": float(((below > 0.05) & (below < 0.95)).mean()),
    }


def _of_classes(labels: Any, p: np.ndarray) -> dict[str, float]:
    labels = np.asarray(labels)
    return {
        "nll": bnn.metrics.nll_probabilities(p, labels),
        "accuracy": bnn.metrics.accuracy(p, labels),
        "brier": bnn.metrics.brier(p, labels),
        "ece": bnn.metrics.ece_equal_width(p, labels),
    }
