"""Does each draw from a prior put most inputs in one class?"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, softmax

from bayesnn_ppl.core.arguments import readable

__all__ = ["ClassCollapse", "collapse_of"]


@readable
@dataclass(frozen=True, eq=False)
class ClassCollapse:
    """The classes that each of S draws predicts for the same inputs, (S, K).

    Attributes:
        shares: share of the inputs whose most probable class is k.
        probabilities: probability of class k averaged over the inputs, E_x p(k|x, θ_s); what
            Wenzel et al. show for single draws and for their average.
        confidence: probability of the most probable class, averaged over inputs and draws.

    References:
        Wenzel et al. (2020), How good is the Bayes posterior in deep neural networks really?,
        arXiv:2002.02405 (the prior predictive experiment, ResNet-20 on CIFAR-10).
    """

    shares: np.ndarray
    probabilities: np.ndarray
    confidence: float

    @property
    def classes(self) -> int:
        """K."""
        return self.shares.shape[1]

    @property
    def largest(self) -> np.ndarray:
        """Share of the inputs in the largest class of each draw, (S,); 1/K ≤ share ≤ 1."""
        return self.shares.max(axis=1)

    @property
    def effective_classes(self) -> float:
        """exp of the entropy of a draw's shares: how many classes it uses; the median draw."""
        return float(np.median(np.exp(entr(self.shares).sum(axis=1))))

    @property
    def average(self) -> np.ndarray:
        """Probability of each class averaged over inputs and draws, (K,)."""
        return self.probabilities.mean(axis=0)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers."""
        return {
            "largest_median": float(np.median(self.largest)),
            "largest_interval": np.quantile(self.largest, [0.05, 0.95]).tolist(),
            "effective_classes": self.effective_classes,
            "confidence": self.confidence,
            "average": self.average.tolist(),
            "shares": self.shares.tolist(),
            "probabilities": self.probabilities.tolist(),
        }


def collapse_of(logits: ArrayLike) -> ClassCollapse:
    """The classes that draws predict.

    Args:
        logits: (S, N, ..., K), of S draws at N inputs; a label for each pixel counts as an input
            of its own. For yes or no give (0, logit).

    Raises:
        ValueError: fewer than three axes, or fewer than two classes.
    """
    values = np.asarray(logits)
    if values.ndim < 3 or values.shape[-1] < 2:
        raise ValueError(
            f"`logits` has shape {values.shape}, but must be (draws, inputs, classes) with at "
            "least two classes."
        )
    draws, classes = values.shape[0], values.shape[-1]
    flat = values.reshape(draws, -1, classes)
    probabilities = softmax(flat, axis=-1)
    chosen = flat.argmax(axis=-1)
    shares = np.stack([(chosen == k).mean(axis=1) for k in range(classes)], axis=1)
    return ClassCollapse(
        shares=shares,
        probabilities=probabilities.mean(axis=1).astype(float),
        confidence=float(probabilities.max(axis=-1).mean()),
    )
