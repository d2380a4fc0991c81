"""The modes that approximations around several of them begin at."""

from typing import Any, NamedTuple

import jax
import numpy as np
from numpyro import handlers
from numpyro.distributions.transforms import biject_to

from bayesnn_ppl.identity import describe, identity_key
from bayesnn_ppl.inference.approximations.base import Finding, Problem
from bayesnn_ppl.inference.approximations.maximum_a_posteriori import MAP
from bayesnn_ppl.posterior import Posterior

__all__ = ["Modes", "check_mode", "find_modes"]


class Modes(NamedTuple):
    """Where members begin.

    Attributes:
        positions: latent site -> unconstrained values (members, ...).
        record: how they were found, JSON-ready.
        findings: what did not go well.
    """

    positions: dict[str, np.ndarray]
    record: dict[str, Any]
    findings: tuple[Finding, ...]


def check_mode(mode: Any) -> None:
    """Raise TypeError unless `mode` is one that `find_modes` takes."""
    if mode is not None and not isinstance(mode, MAP | Posterior):
        raise TypeError(
            "`mode` must be a `MAP(...)` to train by, a posterior of the same program to begin at, "
            f"or None for `MAP()`, not {mode!r}."
        )


def find_modes(problem: Problem, mode: Any, members: int) -> Modes:
    """Train one mode for each member, or take the first draw of as many chains of a posterior.

    Args:
        problem: the program and its data.
        mode: a `MAP`; a `Posterior` of the same program; None for `MAP()`.
        members: how many.

    Raises:
        ValueError: the mode is of another program, or a posterior has fewer chains than members.
        RuntimeError: a member could not be trained.
        KeyboardInterrupt: training was interrupted; a half-trained network is no mode.
    """
    if isinstance(mode, Posterior):
        return Modes(_first_draws(problem, mode, members), {"mode": "given"}, ())
    mode = MAP() if mode is None else mode
    if mode.model is not None and identity_key(mode.model) != identity_key(problem.model):
        raise ValueError(
            "The MAP that the approximation begins with was built from another model: "
            f"{describe(mode.model)} and {describe(problem.model)}. Leave its model out."
        )
    trained = mode.train_members(problem, members)
    if trained.interrupted:
        raise KeyboardInterrupt
    mode.require_trained(trained)
    return Modes(
        {name: np.asarray(value) for name, value in trained.positions.items()},
        {"mode": mode.describe_training(trained)},
        mode.findings(trained),
    )


def _first_draws(problem: Problem, posterior: Posterior, members: int) -> dict[str, np.ndarray]:
    run = posterior.provenance
    if run["model"] != describe(problem.model):
        raise ValueError(
            f"The posterior of `mode` is of another program: {run['model']} and "
            f"{describe(problem.model)}."
        )
    if not posterior.has_weights or run["chains"] < members:
        kept = f"{run['chains']} chains" if posterior.has_weights else "no weights"
        raise ValueError(
            f"The posterior of `mode` has {kept}, and {members} members begin at the first draw of "
            "a chain each."
        )
    names = {site: name for name, site in run["site_names"].items()}
    draws = posterior.draws
    values = {s: draws[names[s]][:members, 0] for s in problem.summary.latents}
    first = {site: value[0] for site, value in values.items()}
    seeded = handlers.seed(handlers.substitute(problem.model, data=first), jax.random.key(0))
    trace = handlers.trace(seeded).get_trace(problem.x, problem.y)
    return {
        site: np.stack([np.asarray(biject_to(trace[site]["fn"].support).inv(v)) for v in value])
        for site, value in values.items()
    }
