"""What a diagnostic asks of a posterior."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

__all__ = ["PosteriorDraws"]


class PosteriorDraws(Protocol):
    """Draws with their provenance and, for predictions, their model; see `Posterior`."""

    model: Any
    data: tuple[Any, Any] | None

    @property
    def has_weights(self) -> bool: ...

    @property
    def draws(self) -> dict[str, np.ndarray]: ...

    @property
    def statistics(self) -> dict[str, np.ndarray]: ...

    @property
    def provenance(self) -> dict[str, Any]: ...

    def function_values(self, x: Any = None) -> dict[str, np.ndarray]: ...

    def function_slopes(
        self, x: Any, latents: Mapping[str, np.ndarray], tangents: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]: ...
