"""The modes that approximations around one of them, or several, begin at."""

from typing import Any, NamedTuple

import jax
import numpy as np
from numpyro.infer.util import unconstrain_fn

from bayesnn_ppl.core.identity import describe, identity_key
from bayesnn_ppl.inference.approximations.trained_networks.maximum_a_posteriori import MAP
from bayesnn_ppl.inference.fitting.approximation import Finding
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.posterior.starting_points import origin, require_same_model, starting_draws

__all__ = ["Mode", "Modes", "check_mode", "find_mode", "find_modes"]


class Mode(NamedTuple):
    """Where an approximation around a mode begins.

    Attributes:
        position: latent site -> unconstrained value.
        record: how it was found, JSON-ready.
        findings: what did not go well.
        interrupted: whether the callback ended its training, of which a finding tells.
    """

    position: dict[str, np.ndarray]
    record: dict[str, Any]
    findings: tuple[Finding, ...]
    interrupted: bool = False


class Modes(NamedTuple):
    """Where the members of an approximation begin; `positions` have a leading axis of members."""

    positions: dict[str, np.ndarray]
    record: dict[str, Any]
    findings: tuple[Finding, ...]
    interrupted: bool = False


def check_mode(mode: Any, name: str) -> None:
    """TypeError unless `mode`, of the approximation `name`, is one that `find_modes` takes."""
    if mode is not None and not isinstance(mode, MAP | Posterior):
        raise TypeError(
            f"`{name}(mode=...)` is `MAP(...)` with settings of your own, the posterior of a fit "
            f"of the same model, or None for `MAP()`, not {mode!r}."
        )


def find_mode(problem: Problem, mode: MAP | Posterior | None, *, same_model: bool = True) -> Mode:
    """The one mode that an approximation begins at; see `find_modes`."""
    found = find_modes(problem, mode, 1, same_model=same_model)
    position = {name: value[0] for name, value in found.positions.items()}
    return Mode(position, found.record, found.findings, found.interrupted)


def find_modes(
    problem: Problem, mode: MAP | Posterior | None, members: int, *, same_model: bool = True
) -> Modes:
    """Train one mode for each member, or take the first draw of as many chains of a posterior.

    Args:
        problem: the model and its data.
        mode: settings to train by, None for those of `MAP()`; or the posterior of a fit of the
            same model.
        members: how many.
        same_model: whether the posterior must be of this model, since it has to be a mode of it;
            else a network with the same sites is enough to begin at.

    Raises:
        ValueError: the mode is of another model, or a posterior has no weights or fewer chains
            than members.
        RuntimeError: a member could not be trained.
        KeyboardInterrupt: Ctrl-C came while a mode was trained; a half-trained network is not a
            mode. A callback that ends the training has judged for itself, and what it came to is
            taken.
    """
    if isinstance(mode, Posterior):
        if same_model:
            require_same_model(mode, problem.model)
        return Modes(_first_draws(problem, mode, members), origin(mode), ())
    mode = MAP() if mode is None else mode
    if mode.model is not None and identity_key(mode.model) != identity_key(problem.model):
        raise ValueError(
            "The MAP that the approximation begins with was built from another model: "
            f"{describe(mode.model)} and {describe(problem.model)}. Leave its model out."
        )
    trained = mode.train_members(problem, members)
    if trained.interrupted and not trained.asked:
        raise KeyboardInterrupt
    mode.require_trained(trained)
    positions = {name: np.asarray(value) for name, value in trained.positions.items()}
    record, findings = mode.describe_training(trained), mode.findings(trained)
    return Modes(positions, record, findings, trained.interrupted)


def _first_draws(problem: Problem, posterior: Posterior, members: int) -> dict[str, np.ndarray]:
    draws = starting_draws(posterior, problem.summary, members, argument="mode", draw=0)
    dtype = np.float64 if problem.float64 else np.float32
    # Compiled as a whole: a model that runs without `jit` compiles operation by operation.
    unconstrain = jax.jit(lambda z, *rows: unconstrain_fn(problem.model, rows, {}, z))
    found = [
        unconstrain(
            {site: values[member].astype(dtype) for site, values in draws.items()},
            problem.x,
            problem.y,
        )
        for member in range(members)
    ]
    return {site: np.stack([np.asarray(jax.device_get(z[site])) for z in found]) for site in draws}
