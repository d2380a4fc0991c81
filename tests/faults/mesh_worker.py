"""One process of a mesh under faults.

`python -m tests.faults.mesh_worker FOLDER INDEX COUNT ADDRESS CASE`

It begins the run in the folder, or continues it. Alone (COUNT 1) it has as many devices as the mesh
needs. SIGUSR1 raises an error in it.
"""

import os
import signal
import sys
from pathlib import Path

import jax

from tests.distributed import worker

# Case -> kernel, (chain, data) of the mesh, and draws, so that a run takes some twenty seconds.
CASES = {
    "sghmc-2x1": ("sghmc", (2, 1), 80_000),
    "sghmc-1x2": ("sghmc", (1, 2), 2_000),
    "nuts-3x1": ("nuts", (3, 1), 16_000),
    "mclmc-2x1": ("mclmc", (2, 1), 80_000),
}


def run(case, folder):
    import bayesnn_ppl as bnn

    name, shape, draws = CASES[case]
    kernel, mesh = worker.kernel(name), bnn.device_mesh(*shape)
    if (folder / "commit.json").exists():
        return bnn.resume(folder, kernel, *worker.data(), mesh=mesh, progress=False)
    return bnn.sample(
        kernel,
        *worker.data(),
        mesh=mesh,
        out=folder,
        warmup=20,
        draws=draws,
        chains=6,
        seed=3,
        float64=True,
        progress=False,
    )


def fail(*_):
    raise ValueError("This process was told to fail")


def main(folder, index, count, address, case):
    index, count = int(index), int(count)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_compilation_cache_dir", os.environ["BAYESNN_MESH_CACHE"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    shape = CASES[case][1]
    jax.config.update("jax_num_cpu_devices", shape[0] * shape[1] // count)
    signal.signal(signal.SIGUSR1, fail)
    if count > 1:
        from bayesnn_ppl import distributed

        distributed.initialize(address, count, index, timeout=30)
    run(case, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
