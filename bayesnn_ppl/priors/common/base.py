"""What a prior may be: the forms, and the prior over a whole network."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import natural, near_misses
from bayesnn_ppl.core.identity import describe

type Shapes = Mapping[str, tuple[int, ...]]
type ParameterPrior = dist.Distribution | Callable[[str, tuple[int, ...]], dist.Distribution]


@dataclass(frozen=True)
class NetworkPrior:
    """A prior over all parameters of a network at once: one scale, one covariance, Jeffreys.

    In a table by name it is given the parameters that its pattern takes, and no others.

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

    def __repr__(self) -> str:
        return describe(self)

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


type Prior = ParameterPrior | NetworkPrior | Mapping[str, ParameterPrior | NetworkPrior]


def check_others(others: Any) -> None:
    """Raise TypeError unless `others` is None or the prior of one parameter."""
    one = isinstance(others, dist.Distribution) or callable(others)
    if others is not None and (isinstance(others, NetworkPrior) or not one):
        raise TypeError(
            "`others` must be a distribution or a function (name, shape) -> Distribution, not "
            f"{others!r}."
        )


def _match_names(shapes: Shapes, given: Iterable[str]) -> None:
    given = set(given)
    for name in shapes:
        if name not in given:
            raise ValueError(
                f"The parameter `{name}` of shape {tuple(shapes[name])} has no prior. "
                + near_misses(name, natural(given - set(shapes)) or natural(given))
            )
    for name in natural(given - set(shapes)):
        raise ValueError(
            f"The prior for `{name}` matches no parameter. " + near_misses(name, shapes)
        )
