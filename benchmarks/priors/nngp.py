"""How networks of finite width differ from their Gaussian processes, and what heavy tails change.

    python -m benchmarks nngp [--draws 1000000] [--out benchmarks/results]

Draws of `nn.MLP` from their prior, `fan_in_normal`, and its relu kernel in closed form:

* kurtosis: excess kurtosis of the output of one hidden layer of H units without biases, from the
  outputs, and from their variances given the hidden units, 3 Var(Q)/E[Q]², which is the same
  number with far less noise; the theory says 15/H;
* covariance: of the outputs at three inputs, as correlations, with depth 1, 2 and 3: the largest
  difference from the kernel and the standard error of that entry;
* index: α of a stable distribution, estimated from outputs under Cauchy output weights of scale
  1/H, and under normal ones of scale 1/√H;
* outlier: the posterior mean at x = 0 when one target at x = 2 is far out, under normal and under
  Student-t output weights, by quadrature (on the network of
  tests/diagnostics/prior/test_nngp.py);
* outlier_network: the same question for all weights of a network. Twenty targets about sin(1.5 x)
  and one at x = 1.1 that is off by `shift`; eight tanh units, weights all of one distribution
  of scale 1, known noise of 0.1. The posterior mean of f by NUTS, two chains: its largest change on
  x ≤ 0.5 against no shift, its value at the outlier, and R-hat of f, which says how reliable it is.

Writes `nngp.json`, after each table.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.infer import NUTS
from scipy.stats import norm, t

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import nngp_kernel, rhat, stable_tail_index
from benchmarks.harness.records import write_result
from tests.diagnostics.prior.test_nngp import (
    NO_BIAS,
    X,
    excess_kurtosis,
    function_draws,
    mean_at_zero,
    normal_plus_noise,
    student_plus_noise,
)

WIDTHS = (10, 30, 100, 300, 1000)
NETWORK_NOISE = 0.1
SHIFTS = (0.0, 1.0, 3.0, 10.0, 30.0)
# Normal numbers made for one line, and at a time: the second bounds the memory, 128 MB.
_MOST, _AT_A_TIME = 4e8, 2**25


def relu(width: int, depth: int = 1) -> Any:
    """The network."""
    return bnn.nn.MLP((width,) * depth, activation="relu")


def draws_and_parts(draws: int, each: int, most: float = _MOST) -> tuple[int, int]:
    """As many draws as the limits allow, and the parts to make them in."""
    draws = int(min(draws, most // each))
    parts = max(1, round(draws * each / _AT_A_TIME))
    return draws // parts * parts, parts


def kurtosis(width: int, draws: int) -> dict[str, float]:
    """Excess kurtosis of the output of one layer."""
    prior = bnn.priors.fan_in_normal(bias_scale=NO_BIAS)
    count, parts = draws_and_parts(draws, 2 * width)
    outputs = function_draws(relu(width), prior, np.ones((1, 1), np.float32), count, parts=parts)
    found, error = excess_kurtosis(outputs[:, 0].astype(float))

    @jax.jit
    def variances(key: Any) -> Any:
        hidden = jax.nn.relu(jax.random.normal(key, (count // parts, width)))
        return jnp.mean(hidden**2, axis=1)

    keys = jax.random.split(jax.random.key(1), parts)
    q = np.concatenate([variances(key) for key in keys]).astype(float)
    given = (q / q.mean() - 1) ** 2
    return {
        "width": width,
        "draws": count,
        "from_outputs": found,
        "from_outputs_error": error,
        "from_variances": float(3 * given.mean()),
        "from_variances_error": float(3 * given.std() / np.sqrt(count)),
        "theory": 15 / width,
    }


def covariance(width: int, depth: int, draws: int) -> dict[str, float]:
    """The largest difference of a correlation from the kernel's."""
    prior = bnn.priors.fan_in_normal(1.3, bias_scale=0.5)
    count, parts = draws_and_parts(draws, 2 * width + (depth - 1) * width**2, _MOST / 4)
    outputs = function_draws(relu(width, depth), prior, X, count, parts=parts).astype(float)
    kernel = np.asarray(
        nngp_kernel(X, activation="relu", depth=depth, weight_scale=1.3, bias_scale=0.5), float
    )
    products = outputs[:, :, None] * outputs[:, None]
    scale = np.sqrt(np.outer(np.diag(kernel), np.diag(kernel)))
    difference = np.abs(products.mean(axis=0) - kernel) / scale
    error = products.std(axis=0) / np.sqrt(count) / scale
    worst = np.unravel_index(np.argmax(difference), difference.shape)
    return {
        "width": width,
        "depth": depth,
        "draws": count,
        "difference": float(difference[worst]),
        "error": float(error[worst]),
        "largest_z": float((difference / error).max()),
    }


def index(width: int, draws: int) -> dict[str, float]:
    """α under Cauchy and normal output weights."""
    rest = bnn.priors.fan_in_normal(np.sqrt(2), bias_scale=NO_BIAS)

    def heavy(name: str, shape: tuple[int, ...]) -> Any:
        return dist.Cauchy(0.0, 1 / width) if name == "Dense_1.kernel" else rest(name, shape)

    count, parts = draws_and_parts(min(draws, 200_000), 2 * width)
    x = np.ones((1, 1), np.float32)
    found: dict[str, float] = {"width": width, "draws": count}
    for name, prior in (("cauchy", heavy), ("normal", rest)):
        values = function_draws(relu(width), prior, x, count, parts=parts)[:, 0].astype(float)
        found[name] = stable_tail_index(values[: count // 1000 * 1000].reshape(1000, -1))
    return found


def outlier(target: float) -> dict[str, float]:
    """E[f(0)] with one target far out."""
    return {
        "target": target,
        "normal": mean_at_zero(norm(), normal_plus_noise, target),
        "student_t_3": mean_at_zero(t(3), student_plus_noise, target),
    }


def outlier_network(weights: str) -> list[dict[str, Any]]:
    """The posterior of a whole network as one target moves out."""
    priors = {"normal": dist.Normal(0.0, 1.0), "student_t_3": dist.StudentT(3.0, 0.0, 1.0)}
    model = bnn.bayesian_network(
        bnn.nn.MLP((8,), outputs=1), priors[weights], bnn.likelihoods.gaussian(NETWORK_NOISE)
    )
    generator = np.random.default_rng(0)
    x = np.append(np.linspace(-2, 2, 20), 1.1).astype(np.float32)[:, None]
    clean = np.sin(1.5 * x[:, 0]) + NETWORK_NOISE * generator.normal(size=21)
    grid = np.append(np.linspace(-2, 0.5, 26), 1.1).astype(np.float32)[:, None]
    lines: list[dict[str, Any]] = []
    means: list[np.ndarray] = []
    for shift in SHIFTS:
        y = clean + shift * (np.arange(21) == 20)
        posterior = bnn.sample(
            NUTS(model, max_tree_depth=8),
            x,
            y.astype(np.float32),
            warmup=500,
            draws=500,
            chains=2,
            progress=False,
        )
        values = posterior.function_values(grid)["mean"]
        values = values.reshape(*values.shape[:2], -1)
        means.append(values.mean(axis=(0, 1)))
        lines.append(
            {
                "law": weights,
                "shift": shift,
                "change": float(np.abs(means[-1] - means[0])[:-1].max()),
                "at_outlier": float(means[-1][-1]),
                "rhat": float(rhat(values).max()),
            }
        )
    return lines


def main(*, draws: int = 1_000_000, out: Path | None = None) -> None:
    """Print and write the tables.

    Args:
        out: a folder for `nngp.json`.
    """
    tables: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "kurtosis": lambda: [kurtosis(width, draws) for width in WIDTHS],
        "covariance": lambda: [
            covariance(width, depth, draws)
            for depth in (1, 2, 3)
            for width in WIDTHS
            if depth == 1 or width <= 300
        ],
        "index": lambda: [index(width, draws) for width in WIDTHS],
        "outlier": lambda: [outlier(target) for target in (1.5, 3.0, 5.0, 10.0, 20.0, 40.0)],
        "outlier_network": lambda: outlier_network("normal") + outlier_network("student_t_3"),
    }
    record: dict[str, Any] = {}
    for name, table in tables.items():
        record[name] = table()
        print(name)
        for line in record[name]:
            cells = (f"{k} {v if isinstance(v, str) else f'{v:.4g}'}" for k, v in line.items())
            print("  " + "  ".join(cells), flush=True)
        if out is not None:
            write_result(out / "nngp.json", record)
