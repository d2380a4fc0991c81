"""Effective draws per second and per gradient, every sampler on the same posteriors, one run.

    BAYESNN_DATA=... python -m benchmarks efficiency bostonHousing horseshoe:bostonHousing
        [--seconds 60] [--only "ours: HMC" ...] [--nutpie PYTHON] [--out benchmarks/results]

A posterior is a data set or `NETWORK:DATA`, with the networks of `benchmarks.samplers.problem`;
without one it is `mlp_regression_small` (one relu layer of 50 to mean and scale), N(0, 1/30) on
every parameter. Standard split 0, four chains from draws of the prior on two devices (ChEES, whose
chains learn together, also of 16 and 64), `--seconds` of warm-up and sampling for each sampler.
Effective sample sizes are those (bulk) of the network's mean and sd at the test inputs. Seconds
hold warm-up and sampling; compilation stands apart. Gradients hold the warm-up's too. nutpie runs
under the interpreter `--nutpie` of an environment that has it, JAX and flatbuffers.

A sampler without an accept step counts where its squared bias is below a tenth of the variance for
every output. The reference is what all samplers with an accept step drew in this run, of chains
that agree (R-hat < 1.05), weighted by their effective draws; `bias` is the largest squared
difference of means over the variance, and `beyond noise` what is left of it after four times the
Monte Carlo variance of that difference.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table
from benchmarks.samplers.contenders import (
    CHAINS,
    blackjax_mclmc,
    blackjax_nuts,
    numpyro_nuts,
    nutpie_nuts,
    ours,
)
from benchmarks.samplers.problem import Compilations, Problem

UNADJUSTED = ("BlackJAX MCLMC", "ours: MCLMC")


def contenders(
    problem: Problem, compilations: Compilations, seconds: float, nutpie: str | None
) -> dict[str, Callable[[], dict[str, Any]]]:
    """Name -> a function that runs a sampler; nutpie's are there if its interpreter is."""
    from numpyro.infer import NUTS

    import bayesnn_ppl as bnn

    k, model = bnn.kernels, problem.model
    nuts = partial(numpyro_nuts, problem, compilations, seconds, warmup=500)
    fine = {"energy_variance_start": 5e-3, "energy_variance_end": 2e-4}
    hmc = {"num_leapfrogs": 300, "jitter": 0.5, "mass": "diagonal", "step_size": 1e-3}

    def our(kernel: Any, warmup: int, chains: int = CHAINS) -> Callable[[], dict[str, Any]]:
        return lambda: ours(problem, compilations, kernel, warmup, seconds, chains=chains)

    nutpies: dict[str, Callable[[], dict[str, Any]]] = {}
    if nutpie is not None:
        theirs = partial(nutpie_nuts, problem, nutpie, seconds, warmup=500)
        nutpies = {
            "nutpie NUTS": theirs,
            "nutpie NUTS, low rank": partial(theirs, low_rank=True),
        }
    return {
        "NumPyro NUTS, parallel": partial(nuts, method="parallel"),
        "NumPyro NUTS, vectorized": partial(nuts, method="vectorized"),
        "BlackJAX NUTS": partial(blackjax_nuts, problem, compilations, seconds, warmup=500),
        "BlackJAX NUTS, low rank": partial(
            blackjax_nuts, problem, compilations, seconds, warmup=500, low_rank=True
        ),
        "BlackJAX MCLMC": partial(blackjax_mclmc, problem, compilations, seconds),
        **nutpies,
        "ours: NUTS": our(NUTS(model), 500),
        "ours: WALNUTS": our(k.WALNUTS(model), 500),
        "ours: HMC": our(k.HMC(model, **hmc), 500),
        "ours: ChEES": our(k.ChEES(model, step_size=1e-3), 500),
        "ours: ChEES, 16 chains": our(k.ChEES(model, step_size=1e-3), 500, 16),
        "ours: ChEES, 64 chains": our(k.ChEES(model, step_size=1e-3), 500, 64),
        "ours: ChEES, Fisher mass": our(k.ChEES(model, step_size=1e-3, mass="fisher"), 500),
        "ours: MCLMC": our(k.MCLMC(model, steps_per_draw=50, **fine), 1000),
        "ours: adjusted MCLMC": our(k.AdjustedMCLMC(model), 300),
    }


def judge(problem: Problem, result: dict[str, Any]) -> dict[str, Any]:
    """Effective sample sizes, R-hat and scores of function values."""
    from bayesnn_ppl.diagnostics import ess_bulk, rhat

    values = result["functions"]
    sound = values[np.isfinite(values).all((1, 2))]
    seconds, gradients = result["seconds"], result["gradients"]
    if sound.shape[1] < 4:  # its warm-up took the time
        ess = np.full(sound.shape[2], np.nan)
    else:
        ess = ess_bulk(sound)
    smallest, median = (
        (np.nan, np.nan) if np.isnan(ess).all() else (np.nanmin(ess), np.nanmedian(ess))
    )
    split = np.nan if np.isnan(ess).all() else np.nanmax(rhat(sound))
    return {
        "seconds": round(seconds, 1),
        "compile": round(result["compile"], 1),
        "gradients": gradients,
        "draws": list(values.shape[:2]),
        "ess_min": float(smallest),
        "ess_median": float(median),
        "ess_min_per_second": float(smallest / seconds),
        "ess_median_per_second": float(median / seconds),
        "ess_median_per_1000_gradients": float(1000 * median / gradients),
        "rhat_max": float(split),
        "chains_lost": len(values) - len(sound),
        **problem.scores(values),
    }


class Reference:
    """Means and variances of outputs, pooled over runs by their effective draws."""

    def __init__(self) -> None:
        self._runs: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def add(self, name: str, values: np.ndarray) -> None:
        """What a run of chains that agree drew."""
        from bayesnn_ppl.diagnostics import ess_bulk

        self._runs[name] = ess_bulk(values), values.mean((0, 1)), values.var((0, 1))

    def bias(self, name: str, values: np.ndarray) -> tuple[float, float]:
        """The largest squared bias over the variance, and that beyond Monte Carlo noise."""
        from bayesnn_ppl.diagnostics import ess_bulk

        others = [run for other, run in self._runs.items() if other != name]
        if not others or values.shape[1] < 4:
            return float("nan"), float("nan")
        ess, means, variances = (np.stack(parts) for parts in zip(*others, strict=True))
        centre, spread = np.average(means, 0, ess), np.average(variances, 0, ess)
        bias = (values.mean((0, 1)) - centre) ** 2 / spread
        noise = 1 / ess_bulk(values) + 1 / ess.sum(0)
        return float(np.nanmax(bias)), float(np.nanmax(bias - 4 * noise))


def run(name: str, seconds: float, only: Sequence[str], nutpie: str | None, record: Record) -> None:
    """All contenders on one posterior, printed and recorded as they come."""
    network, _, data = name.rpartition(":")
    problem = Problem(data, network or "small")
    compilations, reference = Compilations(), Reference()
    values: dict[str, np.ndarray] = {}
    print(f"\n{name}: {len(problem.data.test.y)} test inputs, {seconds:g} s each")
    table = Table(
        " <26", "s >7.1f", "compile >9.1f", "min ESS/s >11.2f", "median >9.2f",
        "/1000 grad. >12.2f", "R-hat >8.3f", "NLL >8.3f", "RMSE >8.3f", "lost >5",
    )  # fmt: skip
    shown = (
        "seconds", "compile", "ess_min_per_second", "ess_median_per_second",
        "ess_median_per_1000_gradients", "rhat_max", "nll", "rmse", "chains_lost",
    )  # fmt: skip
    for label, contender in contenders(problem, compilations, seconds, nutpie).items():
        if only and not any(part in label for part in only):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = contender()
        record[label] = row = judge(problem, result)
        drawn = result["functions"]
        values[label] = drawn[np.isfinite(drawn).all((1, 2))]
        if label not in UNADJUSTED and row["rhat_max"] < 1.05:
            reference.add(label, values[label])
        table.row(label, *(row[key] for key in shown))
    print("squared bias over variance, largest; beyond Monte Carlo noise")
    rows = record.rows
    for label, drawn in values.items():
        bias, beyond = reference.bias(label, drawn)
        record[label] = rows[label] | {"bias_max": bias, "bias_beyond_noise": beyond}
        print(f"{label:26}{bias:>9.4f}{beyond:>9.4f}")
    base = [rows[label]["ess_min_per_second"] for label in values if "NumPyro" in label]
    best = [rows[label]["ess_min_per_second"] for label in values if label.startswith("ours")]
    if base and best:
        print(
            f"smallest ESS per second, our best over NumPyro's best: "
            f"{np.nanmax(best) / np.nanmax(base):.1f}"
        )


def main(
    names: list[str],
    /,
    *,
    seconds: float = 60.0,
    only: tuple[str, ...] = (),
    nutpie: str | None = None,
    out: Path = RESULTS,
) -> None:
    """Print a table for each posterior and write one JSON file.

    Args:
        names: data sets of BAYESNN_DATA, or NETWORK:DATA.
        seconds: of each sampler, compilation apart.
        only: parts of the names of contenders; the other rows stay.
        nutpie: interpreter of an environment with nutpie; without it those rows are not run.
    """
    jax.config.update("jax_num_cpu_devices", 2)
    for name in names:
        run(name, seconds, only, nutpie, Record(out / f"efficiency-{name.replace(':', '-')}.json"))
