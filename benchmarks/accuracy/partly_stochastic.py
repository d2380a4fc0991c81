"""What is lost where only some layers of a network are sampled, and the others trained first.

    BAYESNN_DATA=... python -m benchmarks partly_stochastic yacht energy
        [--splits 0 1 2] [--minutes 20] [--out benchmarks/results]

Two hidden layers of 20 tanh units, `fan_in_normal` on all parameters and a learned noise; standard
splits. MAP trains everything; then one layer is sampled by ChEES from draws of the prior (8 chains,
200 draws of warm-up), the others fixed where MAP has them; or all are sampled. The two stages are
of Sharma et al. (2023), arXiv:2211.06291. A run ends when every output at the test inputs
has R-hat < 1.01 and 400 effective draws, or after 200 draws; `function_rhat` and `ess` are what it
then had. Writes `partly_stochastic.json`, a row for each set, split and choice; what is missing is
run.
"""

import time
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np

import bayesnn_ppl as bnn
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table

KEY = ("data", "split", "sampled")
# What is sampled -> names of layers.
LAYERS = {
    "nothing": None,
    "first layer": "Dense_0.*",
    "second layer": "Dense_1.*",
    "last layer": "Dense_2.*",
    "all layers": "*",
}
UNTIL = {"function_rhat": 1.01, "ess": 400}


def run(data: Any, sampled: str) -> dict[str, Any]:
    """Train, sample the layers, and score on the test rows."""
    model, began, layers = bnn.models.mlp(hidden=(20, 20)), time.perf_counter(), LAYERS[sampled]
    if layers != "*":
        trained = bnn.fit(bnn.approximations.MAP(model), *data.train, progress=False)
        if layers is None:
            return _row(trained, data, began, 0) | {"function_rhat": None, "ess": None}
        prior = {layers: bnn.priors.fan_in_normal(), "*": bnn.priors.fixed(trained)}
        model = bnn.bayesian_network(model.network, prior, model.likelihood)
    posterior = bnn.sample(
        bnn.kernels.ChEES(model, step_size=0.01),
        *data.train,
        warmup=200,
        draws=200,
        chains=8,
        progress=False,
        keep=bnn.Keep(probe=data.test),
        until=UNTIL,
    )
    values = np.concatenate(
        [np.asarray(a).reshape(*a.shape[:2], -1) for a in posterior.function_values().values()],
        axis=2,
    )
    sizes = [np.prod(a.shape[2:], dtype=int) for a in posterior.draws.values()]
    return _row(posterior, data, began, int(sum(sizes))) | {
        "function_rhat": float(bnn.diagnostics.rhat(values).max()),
        "ess": float(bnn.diagnostics.ess_bulk(values).min()),
        "ended": posterior.provenance["ended"]["by"],
    }


def _row(found: Any, data: Any, began: float, parameters: int) -> dict[str, Any]:
    scores = bnn.metrics.evaluate(found, *data.test).to_dict()
    named = {"rmse": scores["rmse"], "nll": scores["nll_mixture"]}
    return {"parameters": parameters, "seconds": round(time.perf_counter() - began, 1)} | named


def main(
    names: list[str],
    /,
    *,
    splits: tuple[int, ...] = (0, 1, 2),
    minutes: float = float("inf"),
    out: Path = RESULTS,
) -> None:
    """Make the runs that are missing, and print a line for each.

    Args:
        names: data sets of BAYESNN_DATA.
        minutes: after which no further run begins.
    """
    jax.config.update("jax_num_cpu_devices", 2)
    record = Record(out / "partly_stochastic.json", key=KEY)
    table = Table(
        "set <10", "split >5", "  sampled <15", "parameters >11", "s >7.1f", "R-hat >8.3f",
        "ESS >7.0f", "RMSE >9.4f", "NLL >9.4f",
    )  # fmt: skip
    columns = ("parameters", "seconds", "function_rhat", "ess", "rmse", "nll")
    for name, split, sampled in record.missing(product(names, splits, LAYERS), minutes):
        row = run(bnn.data.load(name, split=split), sampled)
        record[name, split, sampled] = row
        table.row(name, split, f"  {sampled}", *(row[column] for column in columns))
