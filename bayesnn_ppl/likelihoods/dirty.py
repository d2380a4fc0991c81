"""Dirty likelihoods: practices of deep learning that are no likelihood of the data.

Class weights and label smoothing change what the observations count for, so that the "posterior"
is not one given these data under any model of them. Wenzel et al. call that a dirty likelihood,
and a suspect of the cold-posterior effect. Here it goes by that name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from bayesnn_ppl.arguments import positive
from bayesnn_ppl.likelihoods.base import Likelihood
from bayesnn_ppl.likelihoods.pseudo import PseudoLikelihood

__all__ = ["DirtyLabels", "DirtyLikelihood", "dirty_likelihood"]


class DirtyLabels(PseudoLikelihood):
    """Trains by Σ_k w_k q_k(y) log p_k; predicts and scores by p.

    Args:
        base_dist: p, the clean distribution of the labels.
        class_weights: w, shape (K,).
        label_smoothing: α of q_k(y) = (1 − α) 1[k = y] + α/K.
    """

    pytree_data_fields = ("class_weights", "label_smoothing")

    def __init__(
        self, base_dist: dist.Distribution, class_weights: Any, label_smoothing: Any
    ) -> None:
        self.class_weights, self.label_smoothing = class_weights, label_smoothing
        super().__init__(base_dist)

    def log_prob(self, value: Any) -> Any:
        """Σ_k w_k q_k(y) log p_k, summed over the elements of a row."""
        log_p = _log_probabilities(self.base_dist)
        classes = log_p.shape[-1]
        value = jnp.asarray(value, dtype=jnp.int32)
        smooth = self.label_smoothing / classes
        target = (1 - self.label_smoothing) * jax.nn.one_hot(value, classes) + smooth
        each = (self.class_weights * target * log_p).sum(-1)
        return each.sum(tuple(range(each.ndim - len(self.event_shape), each.ndim)))


def _log_probabilities(labels: Any) -> Any:
    """log p of each class along the last axis."""
    while isinstance(labels, dist.Independent):
        labels = labels.base_dist
    if isinstance(labels, dist.BernoulliLogits):
        logits = jnp.stack([-labels.logits, labels.logits], -1)
        return jax.nn.log_sigmoid(logits)
    return jax.nn.log_softmax(labels.logits)


@dataclass(frozen=True)
class DirtyLikelihood(Likelihood):
    """A likelihood of labels whose observations count otherwise; made by `likelihoods.dirty`."""

    likelihood: Likelihood
    class_weights: tuple[float, ...] | None
    label_smoothing: float
    outputs: int | None
    task = "classification"

    def sample_parameters(self) -> dict[str, Any]:
        """Sample the sites of the clean likelihood."""
        return self.likelihood.sample_parameters()

    def distribution(self, outputs: Any, **parameters: Any) -> dist.Distribution:
        """The clean distribution, with the dirty density for training."""
        clean = self.likelihood.distribution(outputs, **parameters)
        classes = jax.eval_shape(_log_probabilities, clean).shape[-1]
        weights = (1.0,) * classes if self.class_weights is None else self.class_weights
        if len(weights) != classes:
            raise ValueError(
                f"The dirty likelihood has {len(weights)} class weights, but its "
                f"{type(self.likelihood).__name__} has {classes} classes: give one for each."
            )
        return DirtyLabels(clean, jnp.asarray(weights), jnp.asarray(self.label_smoothing))


def dirty_likelihood(
    likelihood: Likelihood,
    *,
    class_weights: Sequence[float] | None = None,
    label_smoothing: float = 0.0,
    augmentation: Any = None,
    dropout: Any = None,
) -> DirtyLikelihood:
    """A likelihood of labels with class weights or label smoothing: a pseudo-likelihood.

    The weights of the network are drawn by exp Σ_k w_k q_k(y) log p_k(x), where
    q_k(y) = (1 − α) 1[k = y] + α/K. It is normalised over y by no constant, and is not the
    probability of anything. Predictions, log likelihoods and scores are those of the clean
    likelihood p. The provenance of a run says `DirtyLabels`.

    Args:
        likelihood: `categorical`, `bernoulli` or `ordinal`.
        class_weights: w, positive, one for each class. All of them 1/T are the temperature T.
        label_smoothing: α in [0, 1).
        augmentation, dropout: refused, with the reason and with what to do instead. Inputs or
            masks drawn anew at each evaluation make the log density a random number, and kernels
            evaluate a program without a key for one.

    Raises:
        TypeError: not a likelihood, or weights that are not numbers.
        ValueError: numbers instead of labels, a likelihood that is dirty already, weights or
            smoothing out of range, nothing dirty at all, augmentation or dropout. The number of
            weights is held against the classes when the program first runs.

    References:
        Wenzel et al. (2020), arXiv:2002.02405, section 5.1, *Dirty likelihoods*. Szegedy et al.
        (2016), arXiv:1512.00567, section 7, for label smoothing.
    """
    if not isinstance(likelihood, Likelihood):
        raise TypeError(
            f"`dirty` wraps a likelihood, such as `likelihoods.categorical(10)`, not "
            f"{likelihood!r}."
        )
    _refuse_randomness(augmentation, dropout)
    if isinstance(likelihood, DirtyLikelihood):
        raise ValueError(
            "The likelihood is dirty already. Give its class weights and label smoothing together."
        )
    if likelihood.task != "classification":
        raise ValueError(
            f"Class weights and label smoothing are of labels, but {type(likelihood).__name__} "
            "has numbers. For outliers use `likelihoods.student_t`."
        )
    if isinstance(label_smoothing, bool) or not isinstance(label_smoothing, int | float):
        raise TypeError(f"The label smoothing must be a number, not {label_smoothing!r}.")
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"The label smoothing must lie in [0, 1), not {label_smoothing}.")
    if class_weights is None and label_smoothing == 0:
        raise ValueError(
            "Nothing is dirty here: give `class_weights` or `label_smoothing`, or use "
            f"{type(likelihood).__name__} as it is."
        )
    weights = None
    if class_weights is not None:
        weights = tuple(
            positive(weight, f"The weight of class {k}") for k, weight in enumerate(class_weights)
        )
    return DirtyLikelihood(likelihood, weights, float(label_smoothing), likelihood.outputs)


def _refuse_randomness(augmentation: Any, dropout: Any) -> None:
    if augmentation is not None:
        raise ValueError(
            "A random augmentation makes the log density a random number, and kernels evaluate a "
            "program without a key for one; drawn once, it is another data set. Apply a finite set "
            "of versions inside the network and average its outputs over them: an invariant "
            "network with a clean likelihood. Or add G versions of each row to the data and give "
            "the model `temperature=G`: the dirty likelihood that averages log densities."
        )
    if dropout is not None:
        raise ValueError(
            "A random dropout mask makes the log density a random number, and kernels evaluate a "
            "program without a key for one; drawn once, it is another network. Leave the layer "
            "out, or switch it off with `deterministic=True`: the prior does what it was for."
        )
