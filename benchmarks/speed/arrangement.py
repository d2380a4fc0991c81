"""Several chains on few devices: one after another, or in a batch? And one chain, on all cores?

    python -m benchmarks arrangement [--repeats 3] [--one-chain]

Four chains of HMC with 200 leapfrogs a draw on `mlp_regression_small` (synthetic data, eight
inputs); with `--one-chain` one chain on one device, or on two that share the rows. Each number of
host devices needs a process of its own; the processes take turns.
"""

import os
import statistics
from functools import partial

from benchmarks.harness.running import in_own_process
from benchmarks.harness.tables import Table
from benchmarks.harness.timing import in_turns
from benchmarks.speed.baselines import numpyro_hmc, sine_rows

LEAPFROGS, CHAINS = 200, 4
ROWS = {276: 60, 690: 30, 8_610: 4}  # rows -> draws
CASES = [(2, "map"), (2, "vmap"), (4, "map"), (1, "map"), (1, "vmap")]
ONE_CHAIN = [(1, "alone"), (2, "shared rows")]


def measure(devices: int, arrangement: str, rows: int, draws: int) -> float:
    """Leapfrogs per second of all chains together, in this process."""
    import jax

    jax.config.update("jax_num_cpu_devices", devices)
    import bayesnn_ppl as bnn
    from bayesnn_ppl.inference.sampling import plan

    one = (devices, arrangement) in ONE_CHAIN
    chains, mesh = (1, bnn.device_mesh(1, devices)) if one else (CHAINS, None)
    if not one:
        place_chains = plan.place_chains
        plan.place_chains = lambda *a, **b: (place_chains(*a, **b)[0], arrangement)
    kernel = numpyro_hmc(bnn.models.mlp_regression_small(), 1e-5, LEAPFROGS)
    data, seconds = sine_rows(rows), []
    for _ in range(3):
        posterior = bnn.sample(
            kernel,
            *data,
            warmup=2,
            draws=draws,
            chains=chains,
            mesh=mesh,
            progress=False,
        )
        seconds.append(posterior.provenance["seconds"]["sample"])
    return chains * LEAPFROGS * draws / statistics.median(seconds)


def main(*, repeats: int = 3, one_chain: bool = False) -> None:
    """Print one table: rows of data × arrangement."""
    cases = ONE_CHAIN if one_chain else CASES
    reference = (1, "alone") if one_chain else (1, "vmap")
    chains = "one chain" if one_chain else f"{CHAINS} chains"
    print(
        f"leapfrogs per second, {chains}, {os.cpu_count()} cores; ratio to {reference[0]} device, "
        f"{reference[1]}"
    )
    table = Table(
        "N >6", "devices >9", " <2", "arrangement <12", "leapfrogs/s >12.0f", "ratio >7.2f"
    )
    for rows, draws in ROWS.items():
        runs = {case: partial(in_own_process, measure, *case, rows, draws) for case in cases}
        speed = {case: statistics.median(v) for case, v in in_turns(runs, repeats).items()}
        for (devices, arrangement), value in speed.items():
            table.row(rows, devices, None, arrangement, value, value / speed[reference])
