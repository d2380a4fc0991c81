"""The bias of mean and variance against step size and minibatch, and what theory predicts.

    python -m benchmarks bias [--methods SGLD SGHMC BAOAB SGNHT] [--rows 200] [--draws 4000]
        [--out benchmarks/results]

Bayesian linear regression with known noise, three coefficients, `--rows` rows with leverage: the
posterior is Gaussian in closed form. Whole kernels run on minibatches drawn at random. The step of
each is linear, so its stationary mean and covariance are exact (tests/inference/kernels/
stationary_distributions.py): the minibatch's gradient noise enters the Lyapunov equation as added
noise, and its part that changes with the state as a term E[D Σ Dᵀ]/B. SGNHT is not linear; its
prediction holds for thermostats that move slowly.

For each method, ε and B:

* mean: the largest bias of a coordinate, in posterior standard deviations, and its standard error;
  predicted is 0 for all, the steps being linear and the gradients unbiased;
* variance: tr(Σ_found Σ⁻¹)/3 - 1 in per cent, found ± standard error, and predicted;
* constant noise: the prediction when the state-dependent part is left out;
* z: the largest distance of any mean, variance or covariance from its prediction, in standard
  errors; of 9 · 36 such distances one is above 4.5 with probability 0.002.

Draws with a bulk ESS below 400 end the benchmark. Writes `bias.json`.
"""

import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import ess_bulk
from bayesnn_ppl.inference.kernels.stochastic_gradient.langevin import Langevin
from bayesnn_ppl.inference.kernels.stochastic_gradient.sghmc import SGHMC
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgld import SGLD
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgnht import SGNHT
from benchmarks.harness.records import Record
from benchmarks.harness.tables import Table
from tests.inference.kernels.known_moments import (
    NOISE,
    closed_form,
    coefficients,
    worst_deviation,
)
from tests.inference.kernels.stationary_distributions import (
    METHODS,
    Rows,
    minibatch_distribution,
    regression_rows,
    thermostat_distribution,
)

MODEL = bnn.models.linear(likelihood=bnn.likelihoods.gaussian(NOISE))
DECAY = 0.9
# ε times the largest curvature; symplectic Euler is stable below 3.8.
STEPS = {
    "SGLD": (0.05, 0.1, 0.2),
    "SGHMC": (0.01, 0.02, 0.04),
    "BAOAB": (0.01, 0.02, 0.04),
    "SGNHT": (0.01, 0.02, 0.04),
}
BATCH_SIZES = (20, 50, 200)


def regression(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, 2) from a Student t with 5 degrees of freedom: some count more than others."""
    generator = np.random.default_rng(0)
    x = generator.standard_t(5, size=(rows, 2))
    y = 0.7 * x[:, 0] - 0.4 * x[:, 1] + 0.2 + NOISE * generator.normal(size=rows)
    return x.astype(np.float32), y.astype(np.float32)


def kernel(method: str, **settings: Any) -> Any:
    """Of a name in the table."""
    if method == "SGLD":
        return SGLD(MODEL, **settings)
    makers: dict[str, Callable[..., Any]] = {"SGHMC": SGHMC, "BAOAB": Langevin, "SGNHT": SGNHT}
    return makers[method](MODEL, momentum_decay=DECAY, **settings)


def prediction(
    method: str, rows: Rows, batch_size: int, step_size: float, *, state_dependent: bool = True
) -> tuple[Any, Any]:
    """The stationary mean (3,) and covariance (3, 3)."""
    settings = {"step_size": step_size, "temperature": 1.0, "mass": 1.0}
    if method == "SGNHT":
        injected = (1 - DECAY) / step_size**0.5
        stationary, _ = thermostat_distribution(rows, batch_size, settings, lambda z: (z, injected))
    else:
        name = {"SGHMC": "symplectic_euler"}.get(method, method)
        settings["momentum_decay"] = DECAY
        stationary = minibatch_distribution(
            METHODS[name], rows, batch_size, settings, state_dependent=state_dependent
        )
    return stationary.mean[:3], stationary.part(0, 3)


def excess(covariance: Any, exact: Any) -> float:
    """tr(Σ Σ_exact⁻¹)/d - 1, in per cent."""
    return float(100 * (np.trace(covariance @ np.linalg.inv(exact)) / len(exact) - 1))


def measured(theta: Any, mean: Any, covariance: Any) -> dict[str, float]:
    """Bias of mean and variance of draws (chain, draw, 3), with standard errors."""
    spread = np.sqrt(np.diag(covariance))
    scaled = (theta - mean) / spread
    errors = scaled.std(axis=(0, 1)) / np.sqrt(ess_bulk(scaled))
    worst = np.argmax(np.abs(scaled.mean(axis=(0, 1))))
    whole = theta - theta.mean(axis=(0, 1))
    squares = np.einsum("cdi,ij,cdj->cd", whole, np.linalg.inv(covariance), whole) / 3
    ess = float(np.asarray(ess_bulk(squares[..., None])).min())
    return {
        "mean": float(scaled.mean(axis=(0, 1))[worst]),
        "mean_error": float(errors[worst]),
        "variance": float(100 * (squares.mean() - 1)),
        "variance_error": float(100 * squares.std() / np.sqrt(ess)),
        "ess": ess,
    }


def compare(
    method: str, share: float, batch_size: int, data: Any, *, draws: int, seed: int
) -> dict[str, Any]:
    """One line of the table."""
    x, y = data
    rows = regression_rows(x, y)
    mean, covariance = closed_form(x, y)
    curvatures = 1 / np.linalg.eigvalsh(covariance)
    step_size = float(share / curvatures.max())
    # A draw takes about the time in which the slowest coordinate forgets where it was.
    slow = curvatures.min() * step_size
    steps = 1 / slow if method == "SGLD" else max((1 - DECAY) / slow, 2 / (1 - DECAY))
    began = time.perf_counter()
    posterior = bnn.sample(
        kernel(method, step_size=step_size, batch_size=batch_size, steps_per_draw=round(2 * steps)),
        x,
        y,
        warmup=200,
        draws=draws,
        chains=4,
        seed=seed,
        progress=False,
    )
    theta = coefficients(posterior)
    predicted = prediction(method, rows, batch_size, step_size)
    plain = prediction(method, rows, batch_size, step_size, state_dependent=False)
    return {
        "method": method,
        "step_size": step_size,
        "step_size_times_curvature": share,
        "batch_size": batch_size,
        **measured(theta, mean, covariance),
        "predicted_variance": excess(predicted[1], covariance),
        "constant_noise": None if method == "SGNHT" else excess(plain[1], covariance),
        "z": float(worst_deviation(theta, *predicted)),
        "seconds": round(time.perf_counter() - began, 1),
    }


def main(
    *,
    methods: tuple[Literal[*STEPS], ...] = tuple(STEPS),
    rows: int = 200,
    draws: int = 4000,
    out: Path | None = None,
) -> None:
    """Run the table.

    Args:
        out: a folder for `bias.json`, where lines of other methods stay.
    """
    data = regression(rows)
    record = Record(
        out and out / "bias.json",
        part="lines",
        key=("method", "step_size_times_curvature", "batch_size"),
        settings={"rows": rows, "draws": draws},
    )
    table = Table(
        "method <6", "ελ_max >8.3f", "B >5", " <3", "mean/sd <19", "variance, % <17",
        "predicted >9.2f", "const. noise >14.2f", "z >6.1f",
    )  # fmt: skip
    for method in methods:
        # Every line has its own noise.
        first = 100 * list(STEPS).index(method)
        for seed, (share, batch_size) in enumerate(product(STEPS[method], BATCH_SIZES), first):
            line = compare(method, share, batch_size, data, draws=draws, seed=seed)
            record[method, share, batch_size] = line
            mean = f"{line['mean']:+.4f} ± {line['mean_error']:.4f}"
            variance = f"{line['variance']:+7.2f} ± {line['variance_error']:4.2f}"
            rest = (line[name] for name in ("predicted_variance", "constant_noise", "z"))
            table.row(method, share, batch_size, None, mean, variance, *rest)
