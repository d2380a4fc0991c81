"""What a prior may be, and the check that it fits the network's parameters."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpyro.distributions as dist

from bayesnn_ppl.arguments import near_misses

__all__ = ["NetworkPrior", "ParameterPrior", "Prior", "Shapes", "checked_prior"]

type Shapes = Mapping[str, tuple[int, ...]]
type ParameterPrior = dist.Distribution | Callable[[str, tuple[int, ...]], dist.Distribution]


@dataclass(frozen=True)
class NetworkPrior:
    """A prior over all parameters of a network at once: one scale, one covariance, Jeffreys.

    Args:
        function: `(shapes, x) -> {name: value}`. `shapes` maps the dotted parameter names to
            their shapes, `x` is one input row. It calls `numpyro.sample` as it likes and
            returns one array of the right shape for every name.

    Example:
        One unknown scale for the whole network:

        >>> import numpyro, numpyro.distributions as dist
        >>> from bayesnn_ppl.priors import NetworkPrior
        >>> @NetworkPrior
        ... def one_scale(shapes, x):
        ...     scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        ...     return {name: numpyro.sample(name, dist.Normal(0, scale).expand(shape).to_event())
        ...             for name, shape in shapes.items()}
    """

    function: Callable[[Shapes, Any], Mapping[str, Any]]

    def sample_checked(self, shapes: Shapes, x: Any) -> dict[str, Any]:
        """Call the function; raise ValueError unless names and shapes are the network's."""
        values = self.function(shapes, x)
        if not isinstance(values, Mapping):
            raise TypeError(
                "A network prior must return a mapping {parameter name: value}, "
                f"not {type(values).__name__}."
            )
        _match_names(shapes, values)
        for name, shape in shapes.items():
            found = tuple(values[name].shape)
            if found != tuple(shape):
                raise ValueError(
                    f"The network prior returned shape {found} for `{name}`, "
                    f"but the parameter has shape {tuple(shape)}."
                )
        return {name: values[name] for name in shapes}


type Prior = ParameterPrior | NetworkPrior | Mapping[str, ParameterPrior]


def _match_names(shapes: Shapes, given: Iterable[str]) -> None:
    given = set(given)
    for name in shapes:
        if name not in given:
            raise ValueError(
                f"The parameter `{name}` of shape {tuple(shapes[name])} has no prior. "
                + near_misses(name, sorted(given - set(shapes)) or sorted(given))
            )
    for name in sorted(given - set(shapes)):
        raise ValueError(
            f"The prior for `{name}` matches no parameter. " + near_misses(name, shapes)
        )


def _distribution(prior: Any, name: str, shape: tuple[int, ...]) -> dist.Distribution:
    """The prior of one parameter, held against the parameter's shape."""
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
            f"parameter's shape {shape}" + (f" less its event {event}." if event else ".")
        )
    return found


def checked_prior(
    prior: Prior, shapes: Shapes
) -> Callable[[str, tuple[int, ...]], dist.Distribution]:
    """The prior as a function `(name, shape) -> Distribution` that is known to fit `shapes`.

    Raises:
        TypeError: `prior` is none of the forms a prior may have.
        ValueError: a parameter without a prior, a pattern that matches no parameter, or
            (when called) a distribution that does not fit the parameter.
    """
    from bayesnn_ppl.priors.patterns import ByName, by_name

    if isinstance(prior, Mapping):
        prior = by_name(prior)
    if isinstance(prior, ByName):
        prior.check(shapes)
    elif isinstance(prior, NetworkPrior):
        raise TypeError(
            "A NetworkPrior samples a whole parameter tree and cannot stand in a table by name, "
            "nor be given to `random_flax_module`: use `random_network`."
        )
    elif not isinstance(prior, dist.Distribution) and not callable(prior):
        raise TypeError(
            "The prior must be a NumPyro distribution, a function (name, shape) -> Distribution, "
            f"a table {{pattern: prior}} or a NetworkPrior, not {prior!r}."
        )
    return lambda name, shape: _distribution(prior, name, tuple(shape))
