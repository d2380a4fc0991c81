"""Does a distribution fit a parameter? Said before anything is compiled."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from bayesnn_ppl.priors.common.base import NetworkPrior, ParameterPrior, Prior, Shapes
from bayesnn_ppl.priors.common.patterns import ByName, by_name


@dataclass(frozen=True)
class _Constrained:
    prior: ParameterPrior

    def __call__(self, name: str, shape: tuple[int, ...]) -> dist.Distribution:
        return self.prior if isinstance(self.prior, dist.Distribution) else self.prior(name, shape)


def constrained(prior: ParameterPrior) -> _Constrained:
    """A prior on a part of the real line, such as `HalfNormal`, that is meant so.

    Weights of one sign are so rarely meant that such a prior is refused without this word.

    Args:
        prior: a continuous Distribution, or a function `(name, shape) -> Distribution`.

    Raises:
        TypeError: `prior` is neither.
    """
    if not isinstance(prior, dist.Distribution) and (
        isinstance(prior, NetworkPrior) or not callable(prior)
    ):
        raise TypeError(
            "`constrained` takes a distribution or a function (name, shape) -> Distribution, "
            f"not {prior!r}."
        )
    return _Constrained(prior)


def distribution_of(prior: Any, name: str, shape: tuple[int, ...]) -> dist.Distribution:
    """The prior of one parameter, checked against the parameter."""
    while isinstance(prior, ByName):
        prior = prior.entry(name, shape)
    found = prior if isinstance(prior, dist.Distribution) else prior(name, shape)
    if not isinstance(found, dist.Distribution):
        raise TypeError(
            f"The prior for `{name}` must be a NumPyro distribution, not {type(found).__name__}."
            + (" A prior function must return a distribution." if found is None else "")
        )
    event = tuple(found.event_shape)
    if event != tuple(shape[len(shape) - len(event) :]) or len(event) > len(shape):
        raise ValueError(
            f"The prior for `{name}` has event_shape {event}, but the parameter has shape {shape}. "
            "The event must equal the trailing axes of the parameter. "
            "Flax kernels are (in, out), convolution kernels (height, width, in, out): "
            "permute the event to match."
        )
    leading = shape[: len(shape) - len(event)]
    batch = tuple(found.batch_shape)
    if len(batch) > len(leading) or any(
        b not in (1, size) for b, size in zip(reversed(batch), reversed(leading), strict=False)
    ):
        raise ValueError(
            f"The prior for `{name}` has batch_shape {batch}, which does not broadcast to the "
            f"parameter's shape {shape}" + (f" without its event {event}." if event else ".")
        )
    _check_support(found, name, meant=isinstance(prior, _Constrained))
    _check_settings(found, name)
    return found


def sample_parameter(prior: Any, name: str, shape: tuple[int, ...]) -> Any:
    """Sample the site of one parameter; all its axes are one event."""
    found = distribution_of(prior, name, shape)
    return numpyro.sample(name, found.expand(shape[: len(shape) - found.event_dim]).to_event())


def innermost(found: Any) -> Any:
    """The distribution inside `Independent`, `Expanded`, `Masked` and transformed ones."""
    while hasattr(found, "base_dist"):
        found = found.base_dist
    return found


def lower_bound(found: dist.Distribution) -> float | None:
    """The number that all values of a scalar distribution are above; None where none is known."""
    bound = getattr(_base(found.support), "lower_bound", None)
    try:
        return None if bound is None else float(bound)
    except (TypeError, jax.errors.JAXTypeError):  # an array, or known only when the model runs
        return None


def _base(support: Any) -> Any:
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return support


def _check_support(found: dist.Distribution, name: str, *, meant: bool) -> None:
    kind = type(innermost(found)).__name__
    if isinstance(innermost(found), dist.ImproperUniform):
        raise ValueError(
            f"The prior for `{name}` is improper: {kind} has no finite integral, and the posterior "
            "of a network's weights then rarely has one. Use a wide proper prior such as "
            "`priors.normal(10.0)`; `priors.jeffreys` is the one improper prior there is."
        )
    support = found.support
    if support.is_discrete:
        raise ValueError(
            f"The prior for `{name}` is discrete ({kind}): a gradient cannot move such weights. "
            "For weights of ±1 there is `priors.bernoulli_weights()`, which says what samples them."
        )
    if not meant and not isinstance(_base(support), type(constraints.real)):
        raise ValueError(
            f"The prior for `{name}` ({kind}) has the support {support}: the weights could not "
            "take all real values. Use a prior on the real line, or write "
            "`priors.constrained(...)` around it if that is meant."
        )


def _check_settings(found: dist.Distribution, name: str) -> None:
    """NumPyro refuses a negative scale when a distribution is made, but not an infinite one."""
    inner = innermost(found)
    for setting in inner.arg_constraints:
        value = vars(inner).get(setting)
        if value is None or isinstance(value, jax.core.Tracer):
            continue
        if np.isinf(value).any():
            raise ValueError(
                f"The prior for `{name}`, {type(inner).__name__}, has {setting} = inf: it is "
                "improper. Use a wide one such as `priors.normal(10.0)`."
            )


def checked_prior(
    prior: Prior, shapes: Shapes
) -> Callable[[str, tuple[int, ...]], dist.Distribution]:
    """The prior as a function `(name, shape) -> Distribution` that is known to fit `shapes`."""
    if isinstance(prior, Mapping):
        prior = by_name(prior)
    if isinstance(prior, ByName):
        prior.check(shapes)
    if not isinstance(prior, dist.Distribution) and not callable(prior):
        raise TypeError(
            "The prior must be a NumPyro distribution, a function (name, shape) -> Distribution, "
            f"a table {{pattern: prior}} or a NetworkPrior, not {prior!r}."
        )
    return lambda name, shape: distribution_of(prior, name, tuple(shape))
