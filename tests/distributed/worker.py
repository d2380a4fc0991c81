"""One process of a run in several: `python worker.py FOLDER INDEX COUNT PORT CASE...`.

Without a port the process is alone, with as many devices as the others have together.
"""

import json
import os
import sys
import time
from pathlib import Path

import jax
import numpy as np

ROWS = 40
# Case -> kernel, (chain, data) of the mesh, and whether the run goes to disk, or to an address,
# where the processes share no folder.
CASES = {
    "nuts-2x1": ("nuts", (2, 1), True),
    "nuts-1x2": ("nuts", (1, 2), False),
    "nuts-2x2": ("nuts", (2, 2), True),
    "sghmc-2x1": ("sghmc", (2, 1), False),
    "sghmc-1x2": ("sghmc", (1, 2), True),
    "sghmc-4x1": ("sghmc", (4, 1), True),
    "sghmc-stream": ("sghmc", (1, 2), False),
    "mclmc-2x1": ("mclmc", (2, 1), "address"),
    "mclmc-1x4": ("mclmc", (1, 4), False),
}
SETTINGS = dict(warmup=20, draws=30, chains=4, seed=3, float64=True, progress=False)


def data():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, 2))
    return x, x @ np.array([1.0, -0.5]) + 0.3 * generator.normal(size=ROWS)


def kernel(name):
    from numpyro.infer import NUTS

    import bayesnn_ppl as bnn

    model = bnn.models.linear()
    if name == "nuts":
        return NUTS(model, max_tree_depth=4)
    if name == "mclmc":
        return bnn.kernels.MCLMC(model)
    return bnn.kernels.SGHMC(
        model, step_size=1e-4, batch_size=8, steps_per_draw=4, minibatches="epoch"
    )


def run(case, folder):
    import bayesnn_ppl as bnn

    name, shape, on_disk = CASES[case]
    rows = bnn.data.stream(*data()) if case.endswith("stream") else data()
    places = {False: None, True: folder / case, "address": f"file://{folder / case}"}
    return bnn.sample(
        kernel(name),
        *rows,
        mesh=bnn.device_mesh(*shape),
        out=places[on_disk],
        **SETTINGS,
    )


def main(folder, index, count, port, *cases):
    folder, index, count = Path(folder), int(index), int(count)
    jax.config.update("jax_platforms", "cpu")
    os.environ["XDG_CACHE_HOME"] = str(folder / f"host-{index}")
    total = max(a * b for _, (a, b), _ in (CASES[case] for case in cases))
    jax.config.update("jax_num_cpu_devices", total if port == "alone" else total // count)
    from bayesnn_ppl import distributed

    if port != "alone":
        distributed.initialize(f"127.0.0.1:{port}", count, index)
    for case in cases:
        began = time.perf_counter()
        posterior = run(case, folder)
        if index == 0:
            np.savez(folder / f"{case}.npz", **posterior.draws)
            seconds = round(time.perf_counter() - began, 2)
            print(json.dumps({"case": case, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
