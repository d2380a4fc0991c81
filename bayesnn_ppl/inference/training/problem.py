"""A model and its data, as a training or an approximation is given them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.core.arrays import check_array, check_targets, same_index
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.inference.training.checkpoints import TrainingRecord
from bayesnn_ppl.modeling.contract import ModelSummary, inspect_model
from bayesnn_ppl.modeling.temperature import Model

__all__ = ["Problem"]


@dataclass(frozen=True)
class Problem:
    """A model and its data, which have passed every check.

    Attributes:
        model: the NumPyro model.
        x, y: the data as the model takes them, leading axis of rows; integer labels and counts.
        summary: what the model declares.
        seed: of all randomness.
        float64: whether to compute in double precision, which whoever uses the problem switches on.
        mesh: devices for members, or None for the default.
        progress: whether to show a bar.
        callback: the user's, called with a `TrainingProgress` after each block of epochs or steps.
        first_member: number of the first of the members, where others are trained elsewhere.
        record: where the checkpoints of its stages go; None in memory.
    """

    model: Model
    x: np.ndarray
    y: np.ndarray
    summary: ModelSummary
    seed: int
    float64: bool
    mesh: Mesh | None = None
    progress: bool = True
    callback: Callable[[Any], Any] | None = None
    record: TrainingRecord | None = None
    first_member: int = 0

    def key(self, stream: int) -> jax.Array:
        """A PRNG key for one use of randomness, `stream`, of this fit."""
        return jax.random.fold_in(jax.random.key(self.seed), stream)

    @classmethod
    def of(
        cls,
        model: Model,
        x: Any,
        y: Any,
        *,
        seed: int = 0,
        float64: bool = False,
        all_rows: bool = True,
        **how: Any,
    ) -> "Problem":
        """Check the data and the model.

        Args:
            model: the NumPyro model.
            x, y: the data, leading axis of rows.
            seed: of all randomness.
            float64: whether to compute in double precision.
            all_rows: whether these are all the data, so that every label must occur.
            **how: the other attributes.

        Raises:
            TypeError, ValueError: the seed or the data are not what they must be, or the model
                does not keep the contract.
        """
        seed = integer(seed, "`seed`", at_least=0, below=2**32)
        same_index(x, y)
        x, y = check_array(x, "x", float64=float64), check_targets(y, "y", float64=float64)
        with arithmetic(float64=float64):
            summary = inspect_model(model, x, y, all_rows=all_rows)
        if summary.discrete:
            y = y.astype(np.int32)
        return cls(model, x, y, summary, seed, float64, **how)

    def with_model(self, model: Model) -> "Problem":
        """The same data with another model."""
        if model is self.model:
            return self
        with arithmetic(float64=self.float64):
            summary = inspect_model(model, self.x, self.y, all_rows=False)
        return replace(self, model=model, summary=summary)
