"""Runs nutpie's NUTS on an exported density; runs where there are nutpie and JAX and not us.

    python nutpie_peer.py given.npz made.npz '{"seconds": 30, "tune": 500, "adaptation": "diag"}'

`given` holds `density`, the bytes of `jax.export` of θ -> (log p, its gradient), and `starts`,
(chain, d). `made` gets the draws after the warm-up, (chain, draw, d), as many as the shortest chain
has when the seconds are over, the gradients of all chains, warm-up included, and the seconds.
"""

import itertools
import json
import sys
import time

import jax
import numpy as np
import nutpie
import pyarrow

given, options = np.load(sys.argv[1]), json.loads(sys.argv[3])
starts = given["starts"].astype(np.float64)
chains, size = starts.shape
density = jax.jit(jax.export.deserialize(bytearray(given["density"])).call)
began = time.perf_counter()
jax.block_until_ready(density(starts[0].astype(np.float32)))
compiling = time.perf_counter() - began


def log_density(position):
    """Of nutpie's positions in float64; the density is in float32, as every other has it."""
    value, gradient = density(position.astype(np.float32))
    return float(value), np.asarray(gradient, np.float64)


number = itertools.count()
model = nutpie.compiled_pyfunc.from_pyfunc(
    size,
    lambda: log_density,
    lambda *_: lambda position: {"position": position},
    [np.dtype("float64")],
    [(size,)],
    ["position"],
    make_initial_point_fn=lambda _: starts[next(number) % chains],
)
began = time.perf_counter()
# A thread for each chain: with fewer the last chains would begin when the first are done.
sampler = nutpie.sample(
    model,
    draws=1_000_000,
    tune=options["tune"],
    chains=chains,
    cores=chains,
    seed=0,
    adaptation=options["adaptation"],
    progress_bar=False,
    blocking=False,
    return_raw_trace=True,
)
time.sleep(options["seconds"])
draws, statistics = sampler.abort().get_arrow_trace()
seconds = time.perf_counter() - began
gradients, kept = 0, []
for of_chain, said in zip(draws, statistics, strict=True):
    gradients += int(said.column("n_steps").to_numpy().sum())
    numbers = pyarrow.array(of_chain.column("position")).flatten().to_numpy()
    kept.append(numbers.reshape(-1, size)[int(said.column("tuning").to_numpy().sum()) :])
if gradients == 0:
    sys.exit("nutpie made no draw. In the background it hides errors; blocking=True shows them.")
shortest = min(map(len, kept))
np.savez(
    sys.argv[2],
    draws=np.stack([draws[:shortest] for draws in kept]),
    gradients=gradients,
    seconds=seconds,
    compile=compiling,
)
