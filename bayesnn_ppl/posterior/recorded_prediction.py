"""Predictions at inputs whose function values a run has kept: no weights and no model."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from bayesnn_ppl.core.arguments import integer, strict_switches
from bayesnn_ppl.posterior.prediction import Prediction

__all__ = ["RecordedPrediction"]


class RecordedPrediction(Prediction):
    """The posterior predictive distribution at the probe inputs of a run, from what was kept there.

    As a `Prediction`, except that its samples are the one that each draw made, its quantiles
    those of these samples, and its log densities those of the kept targets.

    Args:
        kept: name -> array (S, N, ...) over all draws: `probability`, or `mean` and `sd`; `y`; and
            perhaps `log_likelihood` (S, N) and `exact` (S, N, ...).
        targets: the probe targets (N, ...) in the model's units, or None.
        centre, scale: data = centre + scale · model's units.
        class_names: see `Prediction`.
    """

    def __init__(
        self,
        kept: Mapping[str, np.ndarray],
        targets: np.ndarray | None,
        *,
        centre: Any = 0.0,
        scale: Any = 1.0,
        class_names: Sequence[str] | None = None,
    ) -> None:
        self._kept, self.targets, self.class_names = kept, targets, class_names
        self._centre, self._scale = np.asarray(centre), np.asarray(scale)
        self.task = "classification" if "probability" in kept else "regression"
        self.count = self.most_samples = len(kept["y"])

    def _figures(self) -> dict[str, Any]:
        return {"task": self.task, "shape": self._kept["y"].shape[1:], "draws": self.count}

    @cached_property
    def _moments(self) -> Any:
        if self.task == "classification":
            p = self._kept["probability"]
            return p.mean(0), (p * (1 - p)).mean(0), p.var(0)
        mean, square = self._kept["mean"], self._scale**2
        return (
            self._centre + self._scale * mean.mean(0),
            square * (self._kept["sd"] ** 2).mean(0),
            square * mean.var(0),
        )

    @cached_property
    def _information(self) -> Any:
        p = self.probabilities
        entropy = _entropy(p)
        return entropy, entropy - _entropy(self._kept["probability"]).mean(0)

    def _quantiles(self, levels: np.ndarray) -> np.ndarray:
        kept = self._kept["y"]
        # Between two counts there is none.
        method: Any = "inverted_cdf" if kept.dtype.kind in "iub" else "linear"
        return self._centre + self._scale * np.quantile(kept, levels, axis=0, method=method)

    @strict_switches
    def samples(self, count: int, *, seed: int = 0, in_order: bool = False) -> np.ndarray:
        """Samples of y, shape (count, N, ...), each of another draw: at random, or in order.

        Raises:
            ValueError: more than there are draws; each kept one.
        """
        count = integer(count, "The number of samples", at_least=1)
        if count > self.count:
            raise ValueError(
                f"The run kept one predictive sample of each of its {self.count} draws, and "
                f"{count} are asked for. Ask for fewer, or predict with the model."
            )
        order = np.random.default_rng(seed).permutation(self.count)
        chosen = (np.arange(self.count) if in_order else order)[:count]
        samples = self._kept["y"][chosen]
        return samples if self.task == "classification" else self._centre + self._scale * samples

    def row_log_likelihood(self, y: Any) -> np.ndarray:
        """log p(y_i|x_i, θ_s) in data units, shape (S, N).

        Raises:
            ValueError: the run kept no targets, or `y` are others.
        """
        y = self._targets(y)
        return self._kept["log_likelihood"] - self._log_units(y)

    def log_prob(self, y: Any) -> np.ndarray:
        log_p = self.row_log_likelihood(y).astype(np.float64)
        return np.logaddexp.reduce(log_p, axis=0) - np.log(len(log_p))

    def exact(self, y: Any) -> np.ndarray:
        y, known = self._targets(y), self._kept.get("exact")
        return np.ones(y.shape, bool) if known is None else known.all(0)

    def _targets(self, y: Any) -> np.ndarray:
        if self.targets is None:
            raise ValueError(
                "The run kept no targets at its probe inputs, so it has no log densities there: "
                "sample with `Keep(probe=(x, y))`, or predict with the model."
            )
        y = np.asarray(y)
        if y.shape != self.targets.shape or not np.array_equal(y, self.targets):
            raise ValueError(
                "Log densities are known for the targets that the run kept, and these are "
                "others. Predict with the model: `load(path, model=...)`."
            )
        return y


def _entropy(p: np.ndarray) -> np.ndarray:
    """-Σ p log p over the last axis, in nats."""
    return -np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0).sum(-1)
