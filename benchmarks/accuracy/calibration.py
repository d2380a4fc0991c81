"""What `bnn.calibrate` finds, and what it passes: eleven calibrations of a small network.

    python -m benchmarks calibration [--replications 200] [--only NAME ...]
        [--out benchmarks/results] [--folder runs/calibration]

A network of one layer of 8 tanh units on 50 rows of 3 features, 41 parameters and a learned noise.
NUTS, HMC, ChEES, WALNUTS and TemperedSMC must pass, and SGMCLMC on all rows at a short step. Found
must be, the first three under HMC: a cold posterior (T = 0.5), a prior whose standard deviation is
1.3 times too large, a likelihood with 0.7 times the noise; mean-field variational inference; and
MCLMC at its defaults. Each is one call of `calibrate`, in memory or, with --folder, resumable.
Writes `calibration.json`: p-values by quantity, seconds.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from benchmarks.harness.records import RESULTS, Record

ROWS, FEATURES, UNITS = 50, 3, 8
X = np.random.default_rng(0).normal(size=(ROWS, FEATURES)).astype(np.float32)


def network(*, scale: float = 1.0, noise: float | None = None) -> Any:
    """The network, its prior `scale` times as wide, and its noise known or learned."""
    return bnn.models.mlp(
        hidden=(UNITS,),
        prior=bnn.priors.fan_in_normal(scale, bias_scale=scale),
        likelihood=bnn.likelihoods.gaussian(noise),
    )


def cases() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Name -> method, the model that makes the data, settings."""
    model, known = network(), network(noise=0.3)
    kernels, approximations = bnn.kernels, bnn.approximations

    def hmc(model: Any) -> Any:
        return kernels.HMC(model, num_leapfrogs=20, jitter=0.5, mass="diagonal")

    sgmclmc = kernels.SGMCLMC(
        model, step_size=3e-5, batch_size=ROWS, momentum_decay=0.99, steps_per_draw=200
    )
    return {
        "NUTS": (NUTS(model), model, {}),
        "HMC": (hmc(model), model, {}),
        "ChEES": (kernels.ChEES(model), model, {}),
        "WALNUTS": (kernels.WALNUTS(model), model, {}),
        "TemperedSMC": (
            kernels.TemperedSMC(model),
            model,
            {"warmup": 80, "draws": 10, "chains": 64},
        ),
        "SGMCLMC": (sgmclmc, model, {"warmup": 300}),
        "cold, T = 0.5": (hmc(bnn.cold(known, 0.5)), known, {}),
        "prior sd x 1.3": (hmc(network(scale=1.3)), model, {}),
        "noise x 0.7": (hmc(network(noise=0.21)), known, {}),
        "mean-field VI": (approximations.Variational(model, steps=2000, weigh=False), model, {}),
        "MCLMC": (kernels.MCLMC(model), model, {"warmup": 300}),
    }


def main(
    *,
    replications: int = 200,
    only: tuple[str, ...] = (),
    out: Path = RESULTS,
    folder: Path | None = None,
) -> None:
    """Run them, and write what was found.

    Args:
        only: names of cases; all without.
        folder: where replications are kept, so a calibration can be resumed.
    """
    record = Record(out / "calibration.json", settings={"replications": replications})
    for name in only or cases():
        method, model, settings = cases()[name]
        processor = time.process_time()
        found = bnn.calibrate(
            method,
            model,
            X,
            replications=replications,
            progress=False,
            out=folder and folder / name.replace(" ", "-"),
            **settings,
        )
        record[name] = row = {
            "status": found.status,
            "p_value": found.p_value,
            "p_values": found.p_values,
            "verdict": found.verdict,
            "replications": found.replications,
            "seconds": found.seconds,
            "processor_seconds": round(time.process_time() - processor, 1),
            "sampling": found.record["sampling"],
        }
        print(
            f"{name}\n{found}\n{row['seconds']} s, of processors {row['processor_seconds']} s\n",
            flush=True,
        )
