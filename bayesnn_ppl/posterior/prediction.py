"""Posterior predictive distributions: p(y|x, D) ≈ (1/S) Σ_s p(y|x, θ_s), an equal mixture.

Everything is computed from the distribution of the model's observed site `"y"`, and comes out
in the data's units.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from bayesnn_ppl.core.arguments import html_table, integer, readable, strict_switches
from bayesnn_ppl.core.arrays import check_targets
from bayesnn_ppl.likelihoods.common.observed import (
    base_distribution,
    is_label,
    is_partly_observed,
    predicted_distribution,
    predicted_shape,
)
from bayesnn_ppl.modeling.target_support import check_support
from bayesnn_ppl.posterior.components import Components
from bayesnn_ppl.posterior.mixture import (
    component_moments,
    exact_elements,
    has_exact_quantile,
    label_summary,
    log_densities,
    mixture_log_density,
    mixture_moments,
    mixture_quantile,
)

__all__ = ["Prediction", "brief_sd", "function_values"]

_MOST_CLASSES = 6  # in a table


@readable
class Prediction:
    """The posterior predictive distribution at N inputs, in the data's units.

    Made by `Posterior.predict`. Quantities are computed when first asked for.

    Attributes:
        task: "regression" or "classification".
        components: the mixture's components.
        class_names: the name of each class, where the run was trained on a `Dataset`; else None.
        most_samples: how many samples can be drawn; None for any number.
    """

    most_samples: int | None = None

    def __init__(
        self,
        components: Components,
        *,
        centre: Any = 0.0,
        scale: Any = 1.0,
        class_names: Sequence[str] | None = None,
    ) -> None:
        self.components, self.class_names = components, class_names
        self._centre, self._scale = np.asarray(centre), np.asarray(scale)
        self._known_quantiles: dict[float, np.ndarray] = {}
        self.task = "classification" if is_label(components.distribution) else "regression"

    def _figures(self) -> dict[str, Any]:
        shape = tuple(predicted_shape(self.components.distribution))
        return {"task": self.task, "shape": shape, "draws": self.components.count}

    def _repr_html_(self) -> str:
        rows = [(name, str(value)) for name, value in self._figures().items()]
        return html_table("Prediction", [*rows, *self._known_rows()])

    def _known_rows(self) -> list[tuple[str, str]]:
        """What a table shows of quantities that have been computed; it computes none itself."""
        if "_moments" not in vars(self):
            more = "`.probabilities`, `.labels`" if self.task != "regression" else "`.quantile(q)`"
            return [("values", f"computed when asked for: `.mean`, `.variance`, {more}")]
        if self.task == "regression":
            found = {"mean": self.mean, "sd": np.sqrt(self.variance)}
            return [(name, f"{a.min():.4g} to {a.max():.4g}") for name, a in found.items()]
        names, counts = np.unique(self.labels, return_counts=True)
        shares = [f"{name} in {count}" for name, count in zip(names, counts, strict=True)]
        more = ", ..." if len(shares) > _MOST_CLASSES else ""
        return [("most probable class", ", ".join(shares[:_MOST_CLASSES]) + more)]

    @cached_property
    def _labels(self) -> Any:
        return self.components.apply(label_summary)

    @cached_property
    def _moments(self) -> Any:
        if self.task == "classification":
            return self._labels[:3]
        mean, aleatoric, epistemic = self.components.apply(mixture_moments)
        square = self._scale**2
        return self._centre + self._scale * mean, square * aleatoric, square * epistemic

    @property
    def mean(self) -> np.ndarray:
        """E[y|x, D], shape (N, ...); for labels the class probabilities (N, ..., K)."""
        return self._moments[0]

    @property
    def aleatoric(self) -> np.ndarray:
        """E_θ[Var(y|x, θ)]: the noise. Shape of `mean`; squared units."""
        return self._moments[1]

    @property
    def epistemic(self) -> np.ndarray:
        """Var_θ[E(y|x, θ)]: what more data could remove. Shape of `mean`; squared units."""
        return self._moments[2]

    @property
    def variance(self) -> np.ndarray:
        """Var(y|x, D) = aleatoric + epistemic (law of total variance). Shape of `mean`."""
        return self.aleatoric + self.epistemic

    @property
    def probabilities(self) -> np.ndarray:
        """Class probabilities averaged over draws, shape (N, ..., K).

        Raises:
            ValueError: the observed site has no labels.
        """
        if self.task != "classification":
            raise ValueError(
                "Only a model with labels has class probabilities; this one predicts numbers. "
                "Use `.mean`, `.variance` and `.quantile(q)`."
            )
        return self.mean

    @property
    def labels(self) -> np.ndarray:
        """The most probable class of each row, shape (N, ...): names, or else numbers.

        Raises:
            ValueError: the observed site has no labels.
        """
        best = self.probabilities.argmax(axis=-1)
        classes = self.probabilities.shape[-1]
        named = list(self.class_names or ())[:classes]
        if not named:
            return best
        return np.array([*named, *map(str, range(len(named), classes))])[best]

    @cached_property
    def _information(self) -> Any:
        self.probabilities  # noqa: B018 - refuses regression
        return self._labels[3:]

    @property
    def entropy(self) -> np.ndarray:
        """Entropy of the class probabilities, in nats, shape (N, ...)."""
        return self._information[0]

    @property
    def mutual_information(self) -> np.ndarray:
        """Mutual information of label and weights (BALD), in nats, shape (N, ...)."""
        return self._information[1]

    def quantile(self, q: float | Sequence[float]) -> np.ndarray:
        """The q-quantile of the predictive distribution of each element of y.

        Exact (bisection of the mixture's distribution function) where the likelihood knows its
        own and the inverse, otherwise from 4 000 samples. Of counts it is the least one whose
        share of the samples reaches q.

        Args:
            q: in (0, 1); one number gives shape (N, ...), a sequence (len(q), N, ...).

        Raises:
            ValueError: q outside (0, 1), or labels, which have no order.
        """
        if self.task == "classification":
            raise ValueError("Labels have no quantiles: use `.probabilities`.")
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"A quantile's level must lie between 0 and 1, not {q}.")
        if ((levels < 1e-6) | (levels > 1 - 1e-6)).any():
            raise ValueError(
                f"A quantile's level must be at least 1e-6 from 0 and 1, not {q}: single "
                "precision knows no others."
            )
        values = self._quantiles(levels)
        return values[0] if np.ndim(q) == 0 else values

    def _quantiles(self, levels: np.ndarray) -> np.ndarray:
        fn = self.components.distribution
        if not has_exact_quantile(fn):
            counts = predicted_distribution(fn).support.is_discrete
            method: Any = "inverted_cdf" if counts else "linear"
            return np.quantile(self.samples(4000), levels, axis=0, method=method)
        values = np.stack([self._exact_quantile(float(level)) for level in levels])
        return self._centre + self._scale * values

    def _exact_quantile(self, level: float) -> np.ndarray:
        if level not in self._known_quantiles:
            precision = np.float64 if self.components.float64 else np.float32
            rows = np.full(len(self.components.x), level, dtype=precision)
            self._known_quantiles[level] = self.components.apply(mixture_quantile, rows)
        return self._known_quantiles[level]

    @strict_switches
    def samples(self, count: int, *, seed: int = 0, in_order: bool = False) -> np.ndarray:
        """Samples of y, shape (count, N, ...), each from a draw chosen at random.

        Up to as many as there are draws, no draw is used twice. With `in_order` the first sample
        is from the first draw, and so on.
        """
        count = integer(count, "The number of samples", at_least=1)
        samples = self.components.sample(count, seed, in_order=in_order)
        return samples if self.task == "classification" else self._centre + self._scale * samples

    def row_log_likelihood(self, y: Any) -> np.ndarray:
        """log p(y_i|x_i, θ_s) in data units, shape (S, N)."""
        y = self._targets(y)
        log_p = self.components.apply(log_densities, y, axis=1)
        return log_p - self._log_units(y)

    def log_prob(self, y: Any) -> np.ndarray:
        """Exact log density of the mixture, log (1/S) Σ_s p(y|x, θ_s), shape (N,).

        Args:
            y: targets (N, ...) in the units the model was given, as `data.test.y` are. The
                density is per data unit: a standardised one minus log(y_scale) per element. Of a
                censored element it is a probability, and a masked one does not count.

        Raises:
            ValueError: y has not the shape of the predictions.
        """
        y = self._targets(y)
        return self.components.apply(mixture_log_density, y) - self._log_units(y)

    def exact(self, y: Any) -> np.ndarray:
        """Which elements of y (N, ...) are observed as they are, neither censored nor masked.

        The shape of `mean`. Errors and coverage are judged by these; the log density knows what the
        others say.
        """
        y = self._targets(y)
        if not is_partly_observed(self.components.distribution):
            return np.ones(predicted_shape(self.components.distribution), bool)
        return self.components.apply(exact_elements, y)

    def _log_units(self, y: np.ndarray) -> Any:
        """log |∂ data units / ∂ model's units|, of each row or of all alike."""
        if self.task == "classification" or (self._scale == 1).all():
            return 0.0
        exact = self.exact(y)
        return (np.log(self._scale) * exact).reshape(len(exact), -1).sum(-1)

    def _targets(self, y: Any) -> np.ndarray:
        y = np.asarray(y)
        fn = self.components.distribution
        if y.shape != tuple(fn.shape()):
            raise ValueError(
                f"`y` has shape {y.shape}, but the model predicts shape {tuple(fn.shape())} at "
                "these inputs."
            )
        y = check_targets(y, "y", float64=self.components.float64)
        check_support(fn, y, "y")
        return y.astype(np.int32) if base_distribution(fn).support.is_discrete else y

    def y(self, y: Any) -> np.ndarray:
        """Targets in the model's units, turned into the data's units."""
        y = np.asarray(y)
        return y if self.task == "classification" else self._centre + self._scale * y


def function_values(components: Components) -> dict[str, np.ndarray]:
    """What each draw's network says, in the model's units; see `Posterior.function_values`."""
    means, variances = components.apply(component_moments, axis=1)
    if is_label(components.distribution):
        return {"probability": means}
    return {"mean": means} | brief_sd(np.sqrt(variances))


def brief_sd(sd: np.ndarray) -> dict[str, np.ndarray]:
    """`sd` (S, N, ...) with N = 1 where it does not depend on the row; nothing when it is fixed."""
    if (sd == sd[:, :1]).all():
        sd = sd[:, :1]
    return {} if (sd == sd[:1]).all() else {"sd": sd}
