"""How far a kernel comes with bnn_hmc's small MLP on UCI regression in a given time.

    BAYESNN_DATA=... python -m benchmarks uci yacht energy --minutes 20 --out benchmarks/results
    BAYESNN_DATA=... python -m benchmarks uci yacht --kernel hmc --minutes 15

`mlp_regression_small` (one relu layer of 50 to mean and scale), N(0, 1/30) on every parameter, on
standard split 0, four chains from the prior; NumPyro's NUTS, or our HMC with a diagonal mass and
long trajectories of random length. The time holds all, compilation and warm-up too; HMC also ends
when every function output has an R-hat below 1.01 and an effective sample size of 400. Writes one
JSON file per data set with R-hat shares, effective sample sizes, scores and the verdict, which
must say so when the posterior has not converged.
"""

import os
from pathlib import Path
from typing import Literal

import jax

from benchmarks.harness.records import RESULTS, write_result


def run(
    name: str, *, kernel: str, leapfrogs: int, minutes: float, warmup: int, chains: int
) -> dict[str, object]:
    """Sample until the time is up; returns what is recorded."""
    import numpy as np
    from numpyro.infer import NUTS

    import bayesnn_ppl as bnn

    data = bnn.data.load(name, split=0)
    model = bnn.models.mlp_regression_small(prior=bnn.priors.normal(variance=1 / 30))
    until: dict[str, object] = {"max_time": 60 * minutes}
    if kernel == "nuts":
        chosen: object = NUTS(model)
    else:
        chosen = bnn.kernels.HMC(
            model, num_leapfrogs=leapfrogs, jitter=0.5, mass="diagonal", step_size=1e-3
        )
        until |= {"function_rhat": 1.01, "ess": 400}
    posterior = bnn.sample(
        chosen,
        *data.train,
        warmup=warmup,
        draws=100_000,
        chains=chains,
        seed=0,
        keep=bnn.Keep(probe=data.test),
        until=until,
    )
    diagnosis = posterior.diagnose(data.test.x)
    print(diagnosis)
    scores = bnn.metrics.evaluate(posterior, *data.test)
    print(scores)
    made = int(np.sum(posterior.statistics["n_steps"], dtype=np.int64))
    return {
        "data": name,
        "seconds": posterior.provenance["seconds"],
        "draws_per_chain": posterior.provenance["draws"],
        "warmup": warmup,
        "leapfrogs_while_sampling": made,
        "kernel": kernel,
        "kernel_settings": posterior.provenance["kernel_settings"],
        "ended": posterior.provenance["ended"],
        "status": diagnosis.status,
        "verdict": diagnosis.verdict,
        "diagnosis": diagnosis.to_dict(),
        "scores": scores.to_dict(),
        "devices": posterior.provenance["devices"],
        "versions": posterior.provenance["versions"],
    }


def main(
    names: list[str],
    /,
    *,
    kernel: Literal["nuts", "hmc"] = "nuts",
    leapfrogs: int = 4000,
    minutes: float = 20.0,
    warmup: int = 1000,
    chains: int = 4,
    devices: int | None = os.cpu_count(),
    out: Path = RESULTS,
) -> None:
    """Run the data sets named, one after another; one whose result exists is left alone.

    Args:
        names: data sets of BAYESNN_DATA.
        leapfrogs: of HMC, on average.
        minutes: per data set.
        warmup: draws per chain.
        devices: host devices.
    """
    jax.config.update("jax_num_cpu_devices", devices)
    settings = {"kernel": kernel, "leapfrogs": leapfrogs, "minutes": minutes}
    for name in names:
        path = out / f"uci-{name}{'' if kernel == 'nuts' else f'-{kernel}'}.json"
        if path.exists():
            print(f"{path} exists; remove it to run {name} again.")
        else:
            write_result(path, run(name, **settings, warmup=warmup, chains=chains))
