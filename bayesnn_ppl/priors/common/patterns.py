"""One prior per group of parameters, chosen by a pattern on the parameter's name."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.priors.common.base import NetworkPrior, ParameterPrior, Shapes


@dataclass(frozen=True)
class ByName:
    """The table that `by_name` builds."""

    table: tuple[tuple[str, ParameterPrior | NetworkPrior], ...]

    def pattern(self, name: str) -> str | None:
        """The first pattern that matches `name`."""
        return next((p for p, _ in self.table if fnmatchcase(name, p)), None)

    def check(self, shapes: Shapes) -> None:
        """Raise ValueError unless every parameter has a pattern and every pattern a parameter."""
        used = {name: self.pattern(name) for name in shapes}
        patterns = [pattern for pattern, _ in self.table]
        for name, pattern in used.items():
            if pattern is None:
                raise ValueError(
                    f"The parameter `{name}` of shape {tuple(shapes[name])} has no prior. "
                    "No pattern of the table matches it; "
                    + near_misses(name, patterns)
                    + " End the table with '*' to catch the rest."
                )
        for pattern in patterns:
            if pattern not in used.values():
                shadowed = [n for n in shapes if fnmatchcase(n, pattern)]
                why = (
                    f"Earlier patterns take all that it matches ({', '.join(shadowed[:3])}): "
                    "the first match counts, so put it further up."
                    if shadowed
                    else near_misses(pattern, shapes)
                )
                raise ValueError(f"The prior for `{pattern}` matches no parameter. {why}")

    @property
    def has_network_priors(self) -> bool:
        """Whether a pattern of the table, or of a table in it, has a `NetworkPrior`."""
        return any(
            isinstance(prior, NetworkPrior)
            or (isinstance(prior, ByName) and prior.has_network_priors)
            for _, prior in self.table
        )

    def entry(self, name: str, shape: tuple[int, ...]) -> Any:
        """The prior of the first pattern that matches `name`."""
        pattern = self.pattern(name)
        if pattern is None:
            self.check({name: shape})
        return dict(self.table)[str(pattern)]

    def __call__(self, name: str, shape: tuple[int, ...]) -> dist.Distribution:
        """The distribution of the first pattern that matches `name`."""
        prior = self.entry(name, shape)
        if isinstance(prior, NetworkPrior):
            raise TypeError(
                f"The prior for `{name}` is a NetworkPrior, which samples several parameters at "
                "once: use `bayesnn_ppl.random_network`, not NumPyro's `random_flax_module`."
            )
        return prior if isinstance(prior, dist.Distribution) else prior(name, shape)


def by_name(table: Mapping[str, ParameterPrior | NetworkPrior]) -> ByName:
    """A prior that depends on the parameter's name; the first pattern that matches counts.

    Args:
        table: maps shell patterns (`*`, `?`, `[...]`) on the dotted name, such as `*.bias` or
            `Dense_0.*`, to a Distribution, a function `(name, shape) -> Distribution`, or a
            `NetworkPrior`, which is then one over the parameters that the pattern takes.
            A plain dict given as a prior is read as this table.

    Raises:
        TypeError: the table is empty or holds something else.
        ValueError: (when the model runs) a parameter that no pattern matches, a pattern
            that matches no parameter, or two priors that sample a site of one name.

    Example:
        >>> import numpyro.distributions as dist
        >>> from bayesnn_ppl import priors
        >>> prior = priors.by_name({
        ...     "Dense_0.kernel": priors.hierarchical(dist.HalfCauchy(1.0), over="input"),
        ...     "*.bias": dist.Cauchy(0, 1),
        ...     "*": priors.fan_in_normal()})
    """
    if not isinstance(table, Mapping) or not table:
        raise TypeError(f"A prior by name must be a non-empty mapping, not {table!r}.")
    entries = []
    for pattern, prior in table.items():
        if not isinstance(pattern, str):
            raise TypeError(f"The patterns of a prior table must be strings, not {pattern!r}.")
        if not (isinstance(prior, dist.Distribution | NetworkPrior) or callable(prior)):
            raise TypeError(
                f"The prior for `{pattern}` must be a distribution or a function "
                f"(name, shape) -> Distribution, or a NetworkPrior, not {prior!r}."
            )
        entries.append((pattern, prior))
    return ByName(tuple(entries))
