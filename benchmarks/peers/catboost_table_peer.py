"""Fits CatBoost to a table as it is; runs in an environment that has CatBoost and not us.

python catboost_table_peer.py train.csv test.csv TARGET TASK made.npz '{"random_seed": 0, ...}'
"""

import json
import sys
import time

import numpy as np
import pandas as pd
from catboost import CatBoostClassifier, CatBoostRegressor

train, test = (pd.read_csv(path) for path in sys.argv[1:3])
target, task, made, options = *sys.argv[3:6], json.loads(sys.argv[6])
names = [name for name in train.columns if name != target]
words = [name for name in names if not pd.api.types.is_numeric_dtype(train[name])]
for table in (train, test):
    table[words] = table[words].astype(object).fillna("missing").astype(str)
# As the networks: an eighth of the rows says when to stop.
order = np.random.default_rng(options["random_seed"]).permutation(len(train))
held, kept = train.iloc[order[: len(order) // 8]], train.iloc[order[len(order) // 8 :]]
stop = {"eval_set": None, "early_stopping_rounds": 50, "cat_features": words}


def fitted(loss):
    """CatBoost's regressor on the rows that are kept."""
    model = CatBoostRegressor(
        **options, loss_function=loss, allow_writing_files=False, verbose=False
    )
    return model.fit(kept[names], kept[target], **stop)


def with_uncertainty(rows):
    """Mean and variance by a loss that has both."""
    model, ensembles = by_likelihood, min(10, by_likelihood.tree_count_ // 2)
    if ensembles < 2:  # too few trees for what the estimate is made of
        return model.predict(rows[names], prediction_type="RMSEWithUncertainty").T
    mean, knowledge, data = model.virtual_ensembles_predict(
        rows[names], prediction_type="TotalUncertainty", virtual_ensembles_count=ensembles
    ).T
    return mean, knowledge + data


def with_one_scale(rows):
    """Mean by the squared error, and one variance, that of the rows held out."""
    error = by_squares.predict(held[names]) - held[target]
    return by_squares.predict(rows[names]), np.full(len(rows), np.mean(error**2))


def nll(predict):
    """Of the rows held out, which choose between the two."""
    mean, variance = predict(held)
    variance = np.maximum(variance, 1e-12)
    return np.mean(0.5 * np.log(variance) + 0.5 * (held[target] - mean) ** 2 / variance)


began = time.perf_counter()
if task == "regression":
    stop["eval_set"] = (held[names], held[target])
    by_likelihood, by_squares = fitted("RMSEWithUncertainty"), fitted("RMSE")
    seconds = time.perf_counter() - began
    mean, variance = min((with_uncertainty, with_one_scale), key=nll)(test)
    found = {"mean": mean, "sd": np.sqrt(np.maximum(variance, 1e-12))}
else:
    model = CatBoostClassifier(**options, allow_writing_files=False, verbose=False)
    stop["eval_set"] = (held[names], held[target].astype(str))
    model.fit(kept[names], kept[target].astype(str), **stop)
    seconds = time.perf_counter() - began
    found = {"probabilities": model.predict_proba(test[names]), "classes": model.classes_}
    found["classes"] = np.asarray(found["classes"], dtype=str)
np.savez(made, seconds=seconds, **found)
