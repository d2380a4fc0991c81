"""Parameters of a likelihood that are fixed by a number or learned under a prior."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import integer, positive

type Parameter = float | tuple[float, ...] | dist.Distribution


def sampled(site: str, value: Any, *, count: int | None = None) -> Any:
    """The value itself where it is fixed, else a sample of the site, `count` independent ones."""
    if not isinstance(value, dist.Distribution):
        return np.asarray(value) if isinstance(value, tuple) else value
    if count is not None:
        value = value.expand((count,)).to_event(1)
    return numpyro.sample(site, value)


def fixed_or_learned(value: Any, what: str) -> float | dist.Distribution:
    """`value` as a positive number, or as a prior over the positive reals."""
    if not isinstance(value, dist.Distribution):
        return positive(value, what)
    _check_positive(value, what)
    if value.shape():
        raise ValueError(
            f"The prior of {what[0].lower()}{what[1:]} must be one of a single number, but its "
            f"draws have shape {tuple(value.shape())}."
        )
    return value


def checked_scale(scale: Any, outputs: int | None, *, per_output: bool) -> tuple[Any, int | None]:
    """A noise scale that fits the outputs, and how many are to be sampled: None for one."""
    outputs = check_outputs_argument(outputs)
    several = outputs is not None and outputs > 1
    if per_output and not several:
        raise ValueError(
            "`per_output=True` has a noise scale for each of several outputs, so the likelihood "
            f"must know how many: `outputs=3`, not `outputs={outputs}`."
        )
    if scale is None:
        scale = dist.HalfNormal(1.0)
    if isinstance(scale, dist.Distribution):
        _check_positive(scale, "The noise scale")
        if scale.shape() == ():
            return scale, outputs if per_output else None
        if several and scale.shape() == (outputs,):
            return scale, None
        raise ValueError(
            f"The prior of the noise scale has draws of shape {tuple(scale.shape())}, but the "
            f"likelihood has `outputs={outputs}`. Give the prior of one scale; with "
            "`outputs=D, per_output=True` each output has its own."
        )
    if isinstance(scale, Sequence | np.ndarray) and not isinstance(scale, str):
        numbers = tuple(
            positive(number, f"The noise scale of output {i}")
            for i, number in enumerate(np.asarray(scale).tolist())
        )
        if not several or len(numbers) != outputs:
            raise ValueError(
                f"There are {len(numbers)} noise scales, but the likelihood has "
                f"`outputs={outputs}`: give one number, or one for each of two or more outputs."
            )
        return numbers, None
    number = positive(scale, "The noise scale")
    if per_output:
        raise ValueError(
            f"`per_output=True` with the single fixed scale {number} says two things. Give one "
            "scale for each output, `scale=[0.1, 0.5]`, or a prior, or leave `per_output` out."
        )
    return number, None


def check_outputs_argument(outputs: Any) -> int | None:
    """`outputs` as None or an integer of at least 1."""
    return None if outputs is None else integer(outputs, "`outputs`", at_least=1)


def _check_positive(prior: dist.Distribution, what: str) -> None:
    if prior.support is None or any(
        np.any(prior.support(np.full(prior.shape(), below))) for below in (-1e3, -1.0, -1e-6)
    ):
        raise ValueError(
            f"{what} must be positive, but its prior {type(prior).__name__} has the support "
            f"{prior.support}. Take one over the positive reals, such as "
            "`dist.HalfNormal(1.0)` or `dist.LogNormal(0.0, 1.0)`."
        )
