"""Predictions of a reference posterior, from its draws of function values."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesnn_ppl.core.arguments import integer


class ReferencePrediction:
    """The predictive distribution at the test rows, in the data's units.

    It has what comparisons ask of a prediction; targets are Gaussian given mean and noise sd.

    Args:
        draws: output -> (chain, draw, N, ...), as `ReferencePosterior.draws`.
        centre, scale: data = centre + scale · model's units.
    """

    most_samples = None

    def __init__(self, draws: Mapping[str, np.ndarray], *, centre: float, scale: float) -> None:
        self._draws = {
            name: a.reshape(-1, *a.shape[2:]).astype(np.float64) for name, a in draws.items()
        }
        self._centre, self._scale = centre, scale
        self.task = "classification" if "probability" in draws else "regression"

    @property
    def probabilities(self) -> np.ndarray:
        """Class probabilities averaged over draws, (N, K)."""
        if self.task != "classification":
            raise ValueError("A regression has no class probabilities: use `.mean`.")
        p = self._draws["probability"].mean(0)
        return p / p.sum(-1, keepdims=True)

    @property
    def mean(self) -> np.ndarray:
        """E[y|x, D], (N,), or class probabilities (N, K)."""
        if self.task == "classification":
            return self.probabilities
        return self._centre + self._scale * self._draws["mean"].mean(0)

    def samples(self, count: int, *, seed: int = 0) -> np.ndarray:
        """Samples of y, (count, N): mean + sd · noise, the draws in a random order and repeated."""
        count = integer(count, "The number of samples", at_least=1)
        if self.task == "classification":
            raise ValueError("Of labels the reference has `.probabilities` and no samples.")
        generator = np.random.default_rng(seed)
        mean = self._draws["mean"]
        order = np.concatenate(
            [generator.permutation(len(mean)) for _ in range(-(-count // len(mean)))]
        )[:count]
        noise = generator.standard_normal((count, mean.shape[1]))
        values = mean[order] + self._draws["sd"][order] * noise
        return self._centre + self._scale * values

    def y(self, y: Any) -> np.ndarray:
        """Targets in the data's units, as `Prediction.y`."""
        if self.task == "classification":
            return np.asarray(y)
        return self._centre + self._scale * np.asarray(y, dtype=np.float64)
