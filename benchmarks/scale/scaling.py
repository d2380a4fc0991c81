"""Steps a second and peak memory on 1 to 8 host devices, and the cases that must fit in 8 GB.

    python -m benchmarks scaling [--out benchmarks/results/scaling.json] [--only NAME ...]
        [--repeats 3]

Each case runs in a process of its own, so that its peak resident memory is its own; cases take
turns, and the median of their times counts. Host devices share the cores of the machine: what is
measured beyond their number is the cost of having more devices, not their speed. The record says
how many cores there were.

`shares-n` has the arithmetic of `data-n` and none of its collectives: n chains, each on a device
and rows / n of its own. `all-reduce-n` is one sum of the gradient over n devices, alone. By the
cost model of docs/scaling.md data-n takes as long as both.
"""

import os
import resource
import statistics
import time
from pathlib import Path
from typing import Any, Literal

from benchmarks.harness.records import Record
from benchmarks.harness.running import in_own_process

# Name -> chains, mesh (chain, data), rows, widths of the hidden layers, leapfrogs a draw.
CASES: dict[str, tuple[int, tuple[int, int], int, tuple[int, ...], int]] = {
    **{f"data-{n}": (1, (1, n), 16_384, (64, 64), 10) for n in (1, 2, 4, 8)},
    **{f"chain-{n}": (8, (n, 1), 2_048, (64, 64), 10) for n in (1, 2, 4, 8)},
    **{f"shares-{n}": (n, (n, 1), 16_384 // n, (64, 64), 10) for n in (2, 4, 8)},
    **{f"all-reduce-{n}": (1, (1, n), 16_384, (64, 64), 10) for n in (2, 4, 8)},
    "100 chains on 4 devices": (100, (4, 1), 512, (50, 50), 5),
    "1 chain on 4 devices": (1, (1, 4), 8_192, (50, 50), 5),
    "a million weights": (1, (1, 1), 512, (1_000, 990), 5),
}
FEATURES = 8
_SECONDS = 5.0  # of draws, after the first block of them


def weights(widths: tuple[int, ...]) -> int:
    """Parameters of the network, and one for the noise."""
    sizes = (FEATURES, *widths, 1)
    return sum(a * b + b for a, b in zip(sizes, sizes[1:], strict=False)) + 1


def flops(rows: int, widths: tuple[int, ...]) -> float:
    """Of one gradient: 2 for each weight and row forward, and twice that backward."""
    return 6.0 * rows * weights(widths)


def measure_all_reduce(devices: int, size: int) -> dict[str, Any]:
    """Milliseconds for the sum of `size` numbers over host devices, many after each other."""
    import jax

    jax.config.update("jax_num_cpu_devices", devices)
    import jax.numpy as jnp
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    import bayesnn_ppl as bnn

    mesh, repeats = bnn.device_mesh(1, devices), 500

    def sums(own: jax.Array) -> jax.Array:
        def step(_: Any, total: jax.Array) -> jax.Array:
            mean: jax.Array = jax.lax.psum(total * own, "data") / devices
            return mean

        return jax.lax.fori_loop(0, repeats, step, own)

    summed = jax.jit(
        jax.shard_map(sums, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_vma=False)
    )
    own = jax.device_put(jnp.ones(devices * size), NamedSharding(mesh, P("data")))
    summed(own).block_until_ready()
    began = time.perf_counter()
    summed(own).block_until_ready()
    return {"ms_a_sum": round(1e3 * (time.perf_counter() - began) / repeats, 4)}


def measure(name: str) -> dict[str, Any]:
    """Run a case; seconds a leapfrog after compilation, and peak memory."""
    import jax

    chains, (chain, data), rows, widths, leapfrogs = CASES[name]
    if name.startswith("all-reduce"):
        return measure_all_reduce(data, weights(widths))
    jax.config.update("jax_num_cpu_devices", chain * data)
    import numpy as np

    import bayesnn_ppl as bnn

    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, FEATURES)).astype(np.float32)
    kernel = bnn.kernels.HMC(
        bnn.models.mlp(hidden=widths),
        num_leapfrogs=leapfrogs,
        step_size=1e-3,
        adapt_step_size=False,
    )
    marks: list[tuple[int, float]] = []

    def look(progress: Any) -> bool:
        if progress.phase == "sample":
            marks.append((progress.done, progress.seconds))
        return bool(marks) and marks[-1][1] - marks[0][1] > _SECONDS

    bnn.sample(
        kernel,
        x,
        x[:, 0],
        warmup=1,
        draws=100_000,  # the callback ends it
        chains=chains,
        mesh=bnn.device_mesh(chain, data),
        progress=False,
        callback=look,
        keep=bnn.Keep(weights="moments", probe=x[:2]),
    )
    made = marks[-1][0] - marks[0][0]
    seconds = (marks[-1][1] - marks[0][1]) / (made * leapfrogs * chains)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "chains": chains,
        "mesh": [chain, data],
        "rows": rows,
        "weights": weights(widths),
        "ms_a_leapfrog_and_chain": round(1e3 * seconds, 3),
        "gflops_a_second": round(flops(rows, widths) / seconds / 1e9, 2),
        "peak_gb": round(peak, 2),
        "load_of_the_machine": round(os.getloadavg()[0], 1),
    }


def main(
    *, only: tuple[Literal[*CASES], ...] = tuple(CASES), repeats: int = 3, out: Path | None = None
) -> None:
    """Run every case, print and write down."""
    record = Record(out, part="cases")
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in only}
    for _ in range(repeats):
        for name, runs in found.items():
            runs.append(in_own_process(measure, name))
            print(name, runs[-1], flush=True)
            record[name] = runs[0] | {
                key: max(values) if key == "peak_gb" else statistics.median(values)
                for key, value in runs[0].items()
                if isinstance(value, float) and (values := [run[key] for run in runs])
            }
