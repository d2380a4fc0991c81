"""Posteriors with a narrow neck: divergences, and effective draws for each gradient.

    python -m benchmarks necks [funnel horseshoe ...] [--draws 1000] [--out benchmarks/results]

Neal's funnel of ten coordinates, v ~ N(0, 3²), w | v ~ N(0, eᵛ); a horseshoe regression; and a
network of 10 tanh units with a scale of the weights for each layer, the latter two on 300 rows of
diabetes, centred and not. NUTS at three acceptance probabilities, and WALNUTS; four chains from
draws of the prior, 500 draws of warm-up, which are not counted. Effective draws (bulk) are the
smallest of the functions at 50 inputs, and of the logarithms of scales; of the funnel, which has
eight times the draws, of v. There `below` is the share of v below its 5 % quantile.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table

WARMUP, CHAINS, ROWS = 500, 4, 300
QUANTILE = 3 * -1.6448536  # of v, 5 %


def funnel(x: Any, y: Any = None) -> None:
    """Neal's funnel; the data have no part in it."""
    v = numpyro.sample("v", dist.Normal(0.0, 3.0))
    numpyro.sample("w", dist.Normal(jnp.zeros(9), jnp.exp(v / 2)).to_event(1))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(0.0, 1.0), obs=y)


def models() -> dict[str, Any]:
    """Name -> model."""
    import bayesnn_ppl as bnn

    learned, priors = bnn.likelihoods.gaussian(), bnn.priors
    found: dict[str, Any] = {"funnel": funnel}
    for centred in (False, True):
        name = ", centred" if centred else ""
        found[f"horseshoe{name}"] = bnn.models.linear(
            prior=priors.horseshoe(centred=centred), likelihood=learned
        )
        found[f"hierarchical{name}"] = bnn.models.mlp(
            hidden=(10,), prior=priors.hierarchical(centred=centred), likelihood=learned
        )
    return found


def kernels(model: Any) -> dict[str, Any]:
    """Name -> kernel."""
    from numpyro.infer import NUTS

    import bayesnn_ppl as bnn

    nuts = {f"NUTS, {a}": NUTS(model, target_accept_prob=a) for a in (0.8, 0.95, 0.99)}
    return {**nuts, "WALNUTS": bnn.kernels.WALNUTS(model)}


def run(name: str, model: Any, kernel: Any, draws: int) -> dict[str, Any]:
    """One sampler on one posterior."""
    import bayesnn_ppl as bnn
    from bayesnn_ppl.diagnostics import ess_bulk, rhat

    draws = 8 * draws if name == "funnel" else draws
    data = bnn.data.load("diabetes")
    x, y = (np.asarray(a)[:ROWS] for a in data.train)
    posterior = bnn.sample(
        kernel, x, y, warmup=WARMUP, draws=draws, chains=CHAINS, seed=0, progress=False
    )
    statistics = posterior.statistics
    gradients = int(statistics["n_steps"].sum(dtype=np.int64))
    found: dict[str, Any] = {
        "gradients": gradients,
        "divergences": round(float(statistics["diverging"].mean()), 4),
        "seconds": round(posterior.provenance["seconds"]["total"], 1),
    }
    if name == "funnel":
        values = {"scales": np.asarray(posterior.draws["v"])[..., None]}
        found["below"] = round(float(np.mean(values["scales"] < QUANTILE)), 4)
    else:
        scales = [
            np.log(np.asarray(a).reshape(CHAINS, draws, -1))
            for site, a in posterior.draws.items()
            if "horseshoe_" in site or "prior_scale" in site
        ]
        mean = posterior.function_values(np.asarray(data.test.x)[:50])["mean"]
        values = {
            "functions": mean.reshape(CHAINS, draws, -1),
            "scales": np.concatenate(scales, axis=2),
        }
    for part, a in values.items():
        found[f"ess_{part}"] = round(float(ess_bulk(a).min()), 1)
        found[f"rhat_{part}"] = round(float(rhat(a).max()), 3)
        found[f"ess_{part}_per_1000_gradients"] = round(1000 * found[f"ess_{part}"] / gradients, 3)
    return found


def main(*names: str, draws: int = 1000, out: Path = RESULTS) -> None:
    """Print a table for each posterior and write one JSON file.

    Args:
        names: of the posteriors; all without.
        draws: of each chain.
    """
    jax.config.update("jax_num_cpu_devices", 2)
    record = Record(out / "necks.json", settings={"draws": draws})
    for name in names or models():
        model = models()[name]
        print(f"\n{name}")
        table = Table(
            " <12", "diverging >10.4f", "below >7.3f", "ESS of functions >17.1f",
            "/1000 grad. >12.2f", "ESS of scales >14.1f", "/1000 grad. >12.2f", "R-hat >7.3f",
            "s >7.1f",
        )  # fmt: skip
        for label, kernel in kernels(model).items():
            row = run(name, model, kernel, draws)
            record[f"{name}: {label}"] = row
            table.row(
                label,
                *(
                    row.get(key)
                    for key in (
                        "divergences", "below", "ess_functions",
                        "ess_functions_per_1000_gradients", "ess_scales",
                        "ess_scales_per_1000_gradients", "rhat_scales", "seconds",
                    )
                ),
            )  # fmt: skip
