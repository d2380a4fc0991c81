"""Fits bde and stores its raw outputs, or probabilities; runs where there is bde and not us.

python bde_peer.py given.npz made.npz '{"n_members": 4, "hidden_layers": [16, 16], ...}' \
    [classification]
"""

import json
import os
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import numpy as np
from bde import BdeClassifier, BdeRegressor

compiled = 0.0


def _note(event, seconds, **_):
    global compiled
    if event.startswith("/jax/core/compile"):
        compiled += seconds


jax.monitoring.register_event_duration_secs_listener(_note)
given, options = np.load(sys.argv[1]), json.loads(sys.argv[3])
began, cpu = time.perf_counter(), time.process_time()
labels = "classification" in sys.argv[4:]
model = (BdeClassifier if labels else BdeRegressor)(**options).fit(given["x"], given["y"])
took, cpu = time.perf_counter() - began, time.process_time() - cpu
seconds, compiling = took - compiled, compiled
if labels:
    found = {"probabilities": np.asarray(model.predict_proba(given["test"]))}
else:
    raw = np.asarray(model.predict(given["test"], raw=True))
    # The second head is a scale after softplus, as bde documents of its predictions.
    found = {"raw": np.stack([raw[..., 0], np.logaddexp(0.0, raw[..., 1]) + 1e-6], axis=-1)}
np.savez(sys.argv[2], seconds=seconds, compile=compiling, cpu_seconds=cpu, **found)
