"""Draws of another run at which a sampler or an approximation begins."""

from typing import Any, Literal

import numpy as np

from bayesnn_ppl.core.arguments import natural
from bayesnn_ppl.core.identity import describe, identity_key
from bayesnn_ppl.modeling.contract import ModelSummary
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.storage import variable_names

__all__ = ["origin", "starting_draws"]


def starting_draws(
    posterior: Posterior,
    model: Any,
    summary: ModelSummary,
    count: int,
    *,
    argument: Literal["init", "mode"],
    draw: int,
) -> dict[str, np.ndarray]:
    """Latent site -> its constrained value in one draw of each chain, leading axis `count`.

    Args:
        posterior: of the same model, with a chain for each value. The only chain of one stands for
            all chains of a sampler, but not for the members of an ensemble.
        model, summary: what is to begin.
        count: how many values are wanted.
        argument: which one the posterior was given as.
        draw: number of the draw, -1 for the last.

    Raises:
        ValueError: it is of another model, or has no weights or too few chains.
    """
    run = posterior.provenance
    same = run["model"] == describe(model)
    if posterior.model is not None:
        same = identity_key(posterior.model) == identity_key(model)
    if not same:
        raise ValueError(
            f"The posterior of `{argument}` is of another model, {run['model']}, than this one, "
            f"{describe(model)}. Give a run of the same model."
        )
    chains = run["chains"]
    for_all = chains == 1 and argument == "init"
    if not posterior.has_weights or (chains < count and not for_all):
        kept = f"{chains} chains" if posterior.has_weights else "no weights"
        what, instead = {
            "init": ("chains", "one chain for all"),
            "mode": ("members", "`MAP(...)` settings"),
        }[argument]
        raise ValueError(
            f"The posterior of `{argument}` has {kept}, and {count} {what} begin at a draw of a "
            f"chain each. Give a run that kept as many, or {instead}."
        )
    names, draws = variable_names(summary.latents), posterior.draws
    if absent := natural(set(names.values()) - set(draws)):
        raise ValueError(
            f"The posterior of `{argument}` has no draws of {absent}, which this model has. Give a "
            "run of the same model."
        )
    of = [0] * count if for_all else range(count)
    return {site: np.stack([draws[names[site]][c, draw] for c in of]) for site in summary.latents}


def origin(posterior: Posterior) -> dict[str, Any]:
    """What a record says of the run that another begins at."""
    run = posterior.provenance
    return {"given": run.get("kernel"), "created": run.get("created")}
