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
began = time.perf_counter()
if task == "regression":
    options["loss_function"] = "RMSEWithUncertainty"
    model = CatBoostRegressor(**options, allow_writing_files=False, verbose=False)
    stop["eval_set"] = (held[names], held[target])
    model.fit(kept[names], kept[target], **stop)
    seconds = time.perf_counter() - began
    mean, knowledge, data = model.virtual_ensembles_predict(
        test[names], prediction_type="TotalUncertainty", virtual_ensembles_count=10
    ).T
    found = {"mean": mean, "sd": np.sqrt(np.maximum(knowledge + data, 1e-12))}
else:
    model = CatBoostClassifier(**options, allow_writing_files=False, verbose=False)
    stop["eval_set"] = (held[names], held[target].astype(str))
    model.fit(kept[names], kept[target].astype(str), **stop)
    seconds = time.perf_counter() - began
    found = {"probabilities": model.predict_proba(test[names]), "classes": model.classes_}
    found["classes"] = np.asarray(found["classes"], dtype=str)
np.savez(made, seconds=seconds, **found)
