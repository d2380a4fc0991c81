"""Where a variational fit begins: settings checked against the data, and the first position."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions.transforms import biject_to
from numpyro.infer import autoguide

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.inference.approximations.trained_networks.starting_modes import (
    Mode,
    check_mode,
    find_mode,
)
from bayesnn_ppl.inference.approximations.variational.guides.choices import group_sites, size_of
from bayesnn_ppl.inference.approximations.variational.target import Target, learned_sites
from bayesnn_ppl.inference.fitting.approximation import Finding
from bayesnn_ppl.inference.training.plan import check_minibatches, resolve_training_start
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.inference.training.settings import check_choices
from bayesnn_ppl.modeling.network_initialisers import start_position

__all__ = ["Begun", "begin_target", "check_beginning"]

_STEPS = 10_000  # where neither steps nor epochs are given
_LARGEST = 2**28  # numbers of a guide: 1 GB, of which the optimiser keeps three more
_START = 1  # stream of randomness


@dataclass(frozen=True)
class Begun:
    """Where a variational fit begins: everything that was checked and found before it is optimised.

    Attributes:
        target: log p̃.
        z: where means begin, site -> unconstrained value.
        psi: where parameters of the model begin, unconstrained.
        steps: how many.
        batch_size: B, or None for all rows.
        record: how the start was found.
        findings: what did not go well there.
        interrupted: whether the callback ended the training of the mode.
    """

    target: Target
    z: Mapping[str, Any]
    psi: Mapping[str, Any]
    steps: int
    batch_size: int | None
    record: Mapping[str, Any]
    findings: tuple[Finding, ...]
    interrupted: bool = False


def check_beginning(settings: Any, optimiser: Any) -> None:
    """Raise TypeError or ValueError unless the settings that variational fits share go together.

    They are `mode`, `start`, `schedule`, `steps`, `epochs`, `batch_size` and `draws`.
    """
    check_choices(optimiser, "posterior", settings.schedule, settings.start)
    check_mode(settings.mode, type(settings).__name__)
    if settings.mode is not None and settings.start != "auto":
        raise ValueError(f'`start`="{settings.start}" would be ignored with `mode`.')
    integer(settings.draws, "`draws`", at_least=1)
    for name in ("steps", "epochs", "batch_size"):
        if getattr(settings, name) is not None:
            integer(getattr(settings, name), f"`{name}`", at_least=1, below=2**31)
    if settings.steps is not None and settings.epochs is not None:
        raise ValueError("Give `steps` or `epochs`, not both.")


def _steps_for(steps: int | None, epochs: int | None, rows: int, batch_size: int | None) -> int:
    """The number of steps that was asked for one way or the other."""
    if steps is not None:
        return steps
    if epochs is None:
        return _STEPS
    return math.ceil(epochs * rows / (rows if batch_size is None else batch_size))


def begin_target(settings: Any, problem: Problem, *, learn: bool) -> Begun:
    """Check the settings against the data, and find where the fit begins.

    Args:
        settings: an approximation with `steps`, `epochs`, `batch_size`, `mode`, `start`, and a
            `guide` where it has one.
        problem: the model and its data.
        learn: whether the model's parameters are fitted, and it must have some.

    Raises:
        ValueError: the data, the model and the settings do not go together.
    """
    model, x, y = problem.model, problem.x, problem.y
    rows, batch_size = len(x), settings.batch_size
    guide = getattr(settings, "guide", "normal")
    batch_size = None if batch_size is None or batch_size >= rows else batch_size
    if problem.mesh is not None and problem.mesh.devices.size > 1:
        raise ValueError(
            f"{type(settings).__name__} runs on one device, but the mesh has "
            f"{problem.mesh.devices.size}: leave `mesh` out."
        )
    check_minibatches(model, problem.summary, x, y, batch_size, False)
    if isinstance(guide, Mapping):
        group_sites(guide, problem.summary.latents)
    is_dais = guide == "dais" or (isinstance(guide, type) and issubclass(guide, autoguide.AutoDAIS))
    if is_dais and batch_size is not None:
        raise ValueError(
            f'guide="dais" follows the gradient of all rows and cannot be fitted on minibatches of '
            f"{batch_size}: give batch_size=None."
        )
    dimension = sum(math.prod(shape) for shape in problem.summary.latents.values())
    size = size_of(guide, dimension, getattr(settings, "rank", None))
    if size > _LARGEST:
        raise ValueError(
            f'guide="{guide}" of {dimension} coordinates keeps {size:.2g} numbers, and the '
            'optimiser three times as many. Use "low_rank" or "normal", or a mapping that gives '
            "it to one layer alone."
        )
    found = learned_sites(model, x, y)
    if learn and not found:
        raise ValueError(
            "The model has no parameter to fit by its evidence. Use `priors.learned_normal(...)` "
            "or `priors.learned()`, or declare one: "
            '`numpyro.param("scale", 1.0, constraint=constraints.positive)`.'
        )
    steps = _steps_for(settings.steps, settings.epochs, rows, batch_size)
    if settings.mode is not None:
        mode = find_mode(problem, settings.mode, same_model=False)
    else:
        start = settings.start
        if start != "prior":
            start = resolve_training_start(start, model, problem.summary, x, y, 1)
        latents = tuple(problem.summary.latents)
        z = _start(StaticValue(model), latents, start, problem.key(_START), x, y)
        mode = Mode(z, {"start": start}, ())
    sites = tuple((name, tuple(np.shape(mode.position[name]))) for name in problem.summary.latents)
    target = Target(model, sites, tuple((name, c) for name, (_, c) in found.items()))
    dtype = jnp.result_type(float)
    psi = {name: biject_to(c).inv(jnp.asarray(v, dtype)) for name, (v, c) in found.items()}
    z = {name: jnp.asarray(value, dtype) for name, value in mode.position.items()}
    return Begun(target, z, psi, steps, batch_size, mode.record, mode.findings, mode.interrupted)


@partial(jax.jit, static_argnames=("model", "latents", "start"))
def _start(
    model: StaticValue, latents: tuple[str, ...], start: str, key: Any, x: Any, y: Any
) -> Any:
    return start_position(model.value, latents, start, key, x, y)
