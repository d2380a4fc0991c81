"""Labels that have an order: a cumulative logit."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions.transforms import SimplexToOrderedTransform

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.likelihoods.common.base import Likelihood, as_events


@dataclass(frozen=True)
class Ordinal(Likelihood):
    """P(y ≤ k) = sigmoid(c_k − f(x)); made by `likelihoods.ordinal`."""

    classes: int
    cutpoints: tuple[float, ...] | dist.Distribution | None = None
    outputs: int | None = 1
    task = "classification"

    def sample_parameters(self) -> dict[str, Any]:
        """Sample the site `cutpoints`, shape (classes − 1,), unless they are fixed."""
        if isinstance(self.cutpoints, tuple):
            return {"cutpoints": jnp.asarray(self.cutpoints)}
        prior = self.cutpoints
        if prior is None:
            uniform = dist.Dirichlet(jnp.ones(self.classes))
            prior = dist.TransformedDistribution(uniform, SimplexToOrderedTransform())
        return {"cutpoints": numpyro.sample("cutpoints", prior)}

    def distribution(self, outputs: Any, **parameters: Any) -> dist.Distribution:
        """Categorical with the log probabilities of the intervals between cutpoints."""
        logits = _log_probabilities(self.elements(outputs), parameters["cutpoints"])
        return as_events(dist.Categorical(logits=logits))


def _log_probabilities(centre: Any, cutpoints: Any) -> Any:
    """log [s(a) − s(b)] = log s(a) + log s(−b) + log(1 − e^{b−a}), s the sigmoid, for a > b.

    The difference itself is 0 in single precision some 17 units beyond the cutpoints, where its
    gradient would be lost.
    """
    from_centre = cutpoints - centre[..., None]
    below = jax.nn.log_sigmoid(from_centre)
    above = jax.nn.log_sigmoid(-from_centre)
    gap = jnp.log(-jnp.expm1(-jnp.diff(cutpoints)))
    inner = below[..., 1:] + above[..., :-1] + gap
    return jnp.concatenate([below[..., :1], inner, above[..., -1:]], axis=-1)


def ordinal_likelihood(
    classes: int, *, cutpoints: Sequence[float] | dist.Distribution | None = None
) -> Ordinal:
    """P(y ≤ k | x) = sigmoid(c_k − f(x)), labels 0 … K − 1 in their order (proportional odds).

    A logistic variable around the network's one output falls into the interval between the
    cutpoints c_0 < … < c_{K−2}; y is that interval's number. Predictions and scores are those of
    class labels.

    Args:
        classes: K ≥ 2; the network returns (N, 1), and y has shape (N,).
        cutpoints: K − 1 increasing numbers fix them; a distribution over ordered vectors of K − 1
            is their prior. By default learned, as the site `cutpoints`, shape (K − 1,), such that
            the class probabilities where f(x) = 0 are uniform on the simplex, Dirichlet(1, …, 1).

    Raises:
        TypeError: the number of classes is not a whole one, or cutpoints are not numbers.
        ValueError: fewer than two classes, cutpoints that do not increase or are not K − 1, or a
            prior of another shape or over vectors without an order.

    References:
        McCullagh (1980), Regression models for ordinal data, Journal of the Royal Statistical
        Society B 42(2). Betancourt (2019), Ordinal regression, section 2.2, for the prior.
    """
    classes = integer(classes, "The number of classes", at_least=2)
    if isinstance(cutpoints, dist.Distribution):
        _check_prior(cutpoints, classes)
        return Ordinal(classes, cutpoints)
    if cutpoints is None:
        return Ordinal(classes)
    try:
        numbers = tuple(float(number) for number in cutpoints)
    except (TypeError, ValueError):
        raise TypeError(
            f"The cutpoints must be {classes - 1} numbers or a distribution, not {cutpoints!r}."
        ) from None
    if (
        len(numbers) != classes - 1
        or not all(map(isfinite, numbers))
        or any(low >= high for low, high in pairwise(numbers))
    ):
        raise ValueError(
            f"{classes} classes in their order have {classes - 1} finite cutpoints, each greater "
            f"than the one before, not {list(numbers)}."
        )
    return Ordinal(classes, numbers)


def _check_prior(prior: dist.Distribution, classes: int) -> None:
    count = classes - 1
    falling = np.linspace(1.0, -1.0, count)
    if (
        prior.batch_shape != ()
        or prior.event_shape != (count,)
        or prior.support is None
        or (count > 1 and bool(np.any(prior.support(falling))))
    ):
        raise ValueError(
            f"The prior of the cutpoints of {classes} classes must be one of an increasing vector "
            f"of {count}, event_shape ({count},), but {type(prior).__name__} has batch_shape "
            f"{tuple(prior.batch_shape)}, event_shape {tuple(prior.event_shape)} and the support "
            f"{prior.support}. `dist.TransformedDistribution(dist.Normal(0, 1).expand([{count}])"
            ".to_event(1), dist.transforms.OrderedTransform())` is one."
        )
