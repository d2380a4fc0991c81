"""What every likelihood provides."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpyro.distributions as dist

from bayesnn_ppl.core.identity import describe


class Likelihood(ABC):
    """From the network's outputs to the distribution of `y`; a frozen dataclass of its settings.

    Attributes:
        outputs: how many outputs per row the network needs, or None where any number will do.
        task: "regression" or "classification".
        noisy: whether training transforms the network's inputs at random, or drops some of them.
        dropout: of the network in training, see `dropout_layers.live_dropout`.
    """

    noisy: bool = False
    dropout: Any = None
    outputs: int | None
    task: str

    def __init_subclass__(cls, **how: Any) -> None:
        super().__init_subclass__(**how)
        # Before the dataclass writes one, which would show a distribution by its address.
        cls.__repr__ = describe  # type: ignore[method-assign]

    def sample_parameters(self) -> dict[str, Any]:
        """Sample the likelihood's own latent sites, outside the data plate."""
        return {}

    def split_inputs(self, x: Any) -> tuple[Any, dict[str, Any]]:
        """What the network sees of `x` (B, ...), and parameters that `x` holds."""
        return x, {}

    def training_inputs(self, x: Any, key: Any) -> Any:
        """What the network sees of its inputs `x` (B, ...) in training, by a random key."""
        return x

    def check_inputs(self, x: np.ndarray) -> None:
        """Raise ValueError unless all rows of `x` can be inputs of this likelihood."""
        self.split_inputs(x[:1])

    @abstractmethod
    def distribution(self, outputs: Any, **parameters: Any) -> dist.Distribution:
        """The distribution of `y` given outputs of shape (B, ...): batch_shape (B,)."""

    def check_outputs(self, outputs: Any) -> None:
        """Raise ValueError unless the network's outputs fit this likelihood."""
        if self.outputs is not None and (outputs.ndim < 2 or outputs.shape[-1] != self.outputs):
            raise ValueError(
                f"The {type(self).__name__} likelihood needs {self.outputs} network outputs per "
                f"row, that is outputs of shape (rows, {self.outputs}), but the network returned "
                f"shape {tuple(outputs.shape)}."
            )

    def elements(self, outputs: Any) -> Any:
        """The checked outputs, one for each element of `y`: a last axis of length 1 is dropped."""
        self.check_outputs(outputs)
        return outputs[..., 0] if self.outputs == 1 else outputs


def as_events(distribution: dist.Distribution) -> dist.Distribution:
    """All axes but the first are one observation: a vector, an image."""
    return distribution.to_event(len(distribution.batch_shape) - 1)
