"""Posterior SBC: the parameters, given data at hand, that new data are simulated from."""

from typing import Any

import numpy as np

from bayesnn_ppl.calibration.methods import Method, Sampling
from bayesnn_ppl.calibration.record import Replications
from bayesnn_ppl.calibration.truths import ORDER, seed_of
from bayesnn_ppl.diagnostics.convergence.measures import ess_bulk
from bayesnn_ppl.posterior.posterior import Posterior

_AROUND_DRAWS = 4  # draws around the data for each replication, of which one is taken


def own_posterior(
    method: Any,
    x: np.ndarray,
    y: np.ndarray,
    sampling: Sampling | None,
    replications: int,
    seed: int,
    *,
    float64: bool,
) -> Posterior:
    """The method's own posterior of the data at hand, with draws enough for all replications."""
    ready = Method(method, x, y, sampling, float64=float64)
    draws = None
    if sampling is not None:
        draws = max(sampling.draws, -(-_AROUND_DRAWS * replications // sampling.chains))
    return ready.posterior(y, seed_of(seed, 0, ORDER), draws=draws)


def take_around(
    kept: Replications, posterior: Posterior, probe: np.ndarray, replications: int, seed: int
) -> float | None:
    """Choose the parameters that new data are simulated from; returns their ESS."""
    run, arrays = posterior.provenance, posterior.draws
    if not arrays:
        raise ValueError(
            "`around` has kept no weights, and new data are simulated from them. Sample with "
            '`Keep(weights="all")`.'
        )
    names = {site: name for name, site in run["site_names"].items()}
    draws = {site: arrays[names[site]] for site in run["latents"]}
    flat = {site: a.reshape(-1, *a.shape[2:]) for site, a in draws.items()}
    total = len(next(iter(flat.values())))
    if total < replications:
        raise ValueError(
            f"The posterior of the data at hand has {total} draws, and {replications} replications "
            "need one each. Ask for fewer replications, or give a longer run with `around`."
        )
    ess = None
    if not run.get("approximation"):
        values = next(iter(posterior.function_values(probe).values()))
        ess = round(float(np.nanmin(ess_bulk(values))), 1)
    chosen = (np.arange(replications) * total / replications).astype(int)
    # In no order, so that the first replications are of all of the posterior.
    chosen = np.random.default_rng([seed, ORDER]).permutation(chosen)
    kept.keep_around({site: a[chosen] for site, a in flat.items()})
    kept.update(around_ess=ess)
    return ess
