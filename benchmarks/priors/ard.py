"""Does automatic relevance determination find the inputs that matter?

    python -m benchmarks ard [--seeds 5] [--rows 200] [--warmup 500] [--draws 500]
        [--out benchmarks/results]

Twenty independent standard normal inputs, of which three (drawn anew for each seed) enter
y = sin(1.5 a) + b·c/2 + c + 0.3 ε. A tanh network of 8 hidden units, NUTS, two chains. The
kernel of the first layer has a scale for each input, τ_i ~ HalfCauchy(0.1), not centred; all
else is `fan_in_normal()`, and the noise is learned. Inputs are ranked by the posterior median of
τ_i (ARD) and, from another run, by the root of the posterior mean of Σ_j w_ij² under
`fan_in_normal()`, which has no such scales (control).

For each seed: whether the relevant inputs are ranked first, the ratio of the least relevant
scale to the greatest irrelevant one, R-hat of the function values, divergences, seconds.
Writes `ard.json` after each seed; a seed that is there is not run again.
"""

import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpyro.distributions as dist
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import rhat
from benchmarks.harness.records import RESULTS, Record

INPUTS, RELEVANT = 20, 3
PRIORS = {
    "ard": {
        "Dense_0.kernel": bnn.priors.hierarchical(dist.HalfCauchy(0.1), over="input"),
        "*": bnn.priors.fan_in_normal(),
    },
    "control": bnn.priors.fan_in_normal(),
}


def data_of(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Inputs (rows, 20), targets (rows,), and which inputs matter."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, INPUTS))
    relevant = sorted(int(i) for i in generator.choice(INPUTS, RELEVANT, replace=False))
    a, b, c = x[:, relevant].T
    y = np.sin(1.5 * a) + 0.5 * b * c + c + 0.3 * generator.normal(size=rows)
    return x.astype(np.float32), y.astype(np.float32), relevant


def ranked(prior: str, seed: int, *, rows: int, warmup: int, draws: int) -> dict[str, Any]:
    """The inputs in the order of their relevance under a prior, and how the run went."""
    x, y, relevant = data_of(seed, rows)
    model = bnn.bayesian_network(
        bnn.nn.MLP((8,), outputs=1), PRIORS[prior], bnn.likelihoods.gaussian()
    )
    began = time.perf_counter()
    posterior = bnn.sample(
        NUTS(model, max_tree_depth=8),
        x,
        y,
        warmup=warmup,
        draws=draws,
        chains=2,
        seed=seed,
        progress=False,
    )
    seconds = time.perf_counter() - began
    if prior == "ard":
        scale = np.median(posterior.draws["net.Dense_0.kernel.prior_scale"], axis=(0, 1))
    else:
        kernel = posterior.draws["net.Dense_0.kernel"]
        scale = np.sqrt(np.mean(np.sum(kernel.astype(float) ** 2, axis=-1), axis=(0, 1)))
    order = np.argsort(-scale)
    irrelevant = [i for i in range(INPUTS) if i not in relevant]
    values = posterior.function_values(x[:50])["mean"]
    return {
        "relevant": relevant,
        "first": sorted(int(i) for i in order[:RELEVANT]),
        "found": sorted(int(i) for i in order[:RELEVANT]) == relevant,
        "ratio": float(scale[relevant].min() / scale[irrelevant].max()),
        "scale": [float(s) for s in scale],
        "function_rhat": float(np.max(rhat(values))),
        "divergences": int(posterior.statistics["diverging"].sum()),
        "seconds": round(seconds, 1),
    }


def main(
    *, seeds: int = 5, rows: int = 200, warmup: int = 500, draws: int = 500, out: Path = RESULTS
) -> None:
    """Make the runs that are missing, print a line for each and write the record."""
    settings = {"rows": rows, "warmup": warmup, "draws": draws}
    record = Record(out / "ard.json", part="runs", settings=settings)
    for prior, seed in product(PRIORS, range(seeds)):
        runs = record.rows.get(prior, {})
        if str(seed) not in runs:
            record[prior] = runs = runs | {str(seed): ranked(prior, seed, **settings)}
        run = runs[str(seed)]
        print(
            f"{prior:8} seed {seed}: found {run['found']}, ratio {run['ratio']:.2f}, "
            f"R-hat {run['function_rhat']:.3f}, {run['divergences']} divergences, "
            f"{run['seconds']} s",
            flush=True,
        )
