"""Draws of another run at which a sampler or an approximation begins."""

from typing import Any, Literal

import numpy as np

from bayesnn_ppl.core.arguments import natural
from bayesnn_ppl.core.identity import describe, identity_key
from bayesnn_ppl.modeling.contract import ModelSummary
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.storage import STARTS, variable_names

__all__ = ["first_starts", "origin", "require_same_model", "starting_draws"]


def starting_draws(
    posterior: Posterior,
    summary: ModelSummary,
    count: int,
    *,
    argument: Literal["init", "mode"],
    draw: int,
) -> dict[str, np.ndarray]:
    """Latent site -> its constrained value in one draw of each chain, leading axis `count`.

    Prior, likelihood and temperature may differ from those of the other run: sites and shapes are
    what has to agree.

    Args:
        posterior: with a chain for each value. The only chain of one stands for all chains of a
            sampler, but not for the members of an ensemble.
        summary: of the model that is to begin.
        count: how many values are wanted.
        argument: which one the posterior was given as.
        draw: number of the draw, -1 for the last.

    Raises:
        ValueError: it has no weights, other sites or shapes, or too few chains.
    """
    chains = posterior.provenance["chains"]
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
    shapes = {name: draws[name].shape[2:] for name in draws}
    wrong = {
        name: shape
        for site, name in names.items()
        if shapes.get(name) != (shape := summary.latents[site])
    }
    if wrong:
        name = natural(wrong)[0]
        there = f"shape {shapes[name]}" if name in shapes else "no draws"
        raise ValueError(
            f"The posterior of `{argument}` has {there} for `{name}`, which has shape "
            f"{wrong[name]} in this model. Give a run of the same network."
        )
    of = _chains(posterior, count)
    return {site: np.stack([draws[name][c, draw] for c in of]) for site, name in names.items()}


def first_starts(
    posterior: Posterior, summary: ModelSummary, count: int
) -> dict[str, np.ndarray] | None:
    """Latent site -> where the chains of a sampler's run began, leading axis `count`.

    What continues a run explores as far as that run has begun, however far its last draws lie
    apart. None of a fit, or where the starts are not known.
    """
    if posterior.provenance.get("approximation") or STARTS[0] not in posterior.tree.children:
        return None
    names, starts = variable_names(summary.latents), posterior.tree[STARTS[0]].data_vars
    if not set(names.values()) <= set(starts):
        return None
    of = _chains(posterior, count)
    return {site: starts[name].values[of] for site, name in names.items()}


def _chains(posterior: Posterior, count: int) -> list[int]:
    """The chains that `count` others continue: each its own, or all the only one."""
    return [0] * count if posterior.provenance["chains"] == 1 else list(range(count))


def require_same_model(posterior: Posterior, model: Any) -> None:
    """ValueError unless it is a posterior of this model, prior and likelihood included."""
    run = posterior.provenance
    same = run["model"] == describe(model)
    if posterior.model is not None:
        same = identity_key(posterior.model) == identity_key(model)
    if not same:
        raise ValueError(
            f"The posterior of `mode` is of another model, {run['model']}, than this one, "
            f"{describe(model)}. Give a fit of the same model."
        )


def origin(posterior: Posterior) -> dict[str, Any]:
    """What a record says of the run that another begins at."""
    run = posterior.provenance
    return {"given": run.get("kernel"), "created": run.get("created"), "model": run["model"]}
