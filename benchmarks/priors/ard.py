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
Writes `ard.json`, after each seed.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpyro.distributions as dist
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import rhat

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


def main() -> None:
    """Run all seeds, print a line for each and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    settings = {name: getattr(arguments, name) for name in ("rows", "warmup", "draws")}
    record: dict[str, Any] = {"settings": settings, "runs": {prior: {} for prior in PRIORS}}
    arguments.out.mkdir(parents=True, exist_ok=True)
    for prior in PRIORS:
        for seed in range(arguments.seeds):
            run = ranked(prior, seed, **settings)
            record["runs"][prior][str(seed)] = run
            print(
                f"{prior:8} seed {seed}: found {run['found']}, ratio {run['ratio']:.2f}, "
                f"R-hat {run['function_rhat']:.3f}, {run['divergences']} divergences, "
                f"{run['seconds']} s",
                flush=True,
            )
            (arguments.out / "ard.json").write_text(json.dumps(record, indent=1))
