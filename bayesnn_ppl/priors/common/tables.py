"""A table by name whose entries may be priors over several parameters at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpyro.primitives import Messenger

from bayesnn_ppl.priors.common.base import NetworkPrior, Prior, Shapes
from bayesnn_ppl.priors.common.fitting import sample_parameter
from bayesnn_ppl.priors.common.patterns import ByName, by_name


class _OneOwner(Messenger):
    """Refuses a site that another entry of the table samples too."""

    def __init__(self, pattern: str, owners: dict[str, str]) -> None:
        self.pattern, self.owners = pattern, owners
        super().__init__(None)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] not in ("sample", "deterministic", "plate"):
            return
        owner = self.owners.setdefault(msg["name"], self.pattern)
        if owner != self.pattern:
            raise ValueError(
                f"The priors for `{owner}` and `{self.pattern}` both sample a site "
                f"`{msg['name']}`. Give one of them another `name=`, so that each has its own."
            )


@dataclass(frozen=True)
class _Table:
    table: ByName

    def __call__(self, shapes: Shapes, x: Any) -> dict[str, Any]:
        self.table.check(shapes)
        values: dict[str, Any] = {}
        owners: dict[str, str] = {}
        for pattern, prior in self.table.table:
            mine = {n: s for n, s in shapes.items() if self.table.pattern(n) == pattern}
            with _OneOwner(pattern, owners):
                whole = assembled(prior)
                if isinstance(whole, NetworkPrior):
                    values |= whole.sample_checked(mine, x)
                else:
                    values |= {n: sample_parameter(whole, n, tuple(s)) for n, s in mine.items()}
        return values


def assembled(prior: Prior) -> Prior:
    """The prior, where a table that holds network priors has become one network prior."""
    if isinstance(prior, Mapping):
        prior = by_name(prior)
    if isinstance(prior, ByName) and prior.has_network_priors:
        return NetworkPrior(_Table(prior))
    return prior
