"""`numpyro.param` sites, which only some methods fit: to the others they would be constants."""

from collections.abc import Sequence
from typing import Any

from numpyro.primitives import Messenger

__all__ = ["FirstValues", "refuse_unfitted"]


class FirstValues(Messenger):
    """Notes the parameters, networks' own left out, that nothing inside it gives a value."""

    def __init__(self) -> None:
        self.names: list[str] = []
        super().__init__(None)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "param" and msg["value"] is None and not msg["name"].endswith("$params"):
            self.names.append(msg["name"])


def refuse_unfitted(names: Sequence[str], method: str) -> None:
    """Raise ValueError if there are parameters, which this method would leave as they are."""
    if names:
        raise ValueError(
            f"The model has parameters {list(names)} (`numpyro.param`), which {method} would leave "
            "at their first values. Fit them with `approximations.EmpiricalBayes`; to use what it "
            "found elsewhere, give weights by `priors.fixed(found)` and others by "
            "`numpyro.handlers.substitute(model, data={...})`. Or give them a prior."
        )
