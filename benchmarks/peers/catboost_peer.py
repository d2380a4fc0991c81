"""Fits CatBoost with uncertainty; runs in an environment that has CatBoost and not us.

python catboost_peer.py given.npz made.npz '{"random_seed": 0, "depth": 6, ...}' 10
"""

import json
import sys
import time

import numpy as np
from catboost import CatBoostRegressor

given, options, ensembles = np.load(sys.argv[1]), json.loads(sys.argv[3]), int(sys.argv[4])
began, cpu = time.perf_counter(), time.process_time()
model = CatBoostRegressor(**options, allow_writing_files=False, verbose=False)
model.fit(given["x"], given["y"])
took = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
mean, knowledge, data = model.virtual_ensembles_predict(
    given["test"],
    prediction_type="TotalUncertainty",
    virtual_ensembles_count=ensembles,
    thread_count=options["thread_count"],
).T
np.savez(sys.argv[2], mean=mean, sd=np.sqrt(np.maximum(knowledge + data, 1e-8)), **took)
