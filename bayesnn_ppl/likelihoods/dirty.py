"""Dirty likelihoods: practices of deep learning that are not a likelihood of the data.

Class weights and label smoothing change what the observations count for, augmentation and dropout
what they are observations of, so the "posterior" is not one given these data under any model
of them. Wenzel et al. call that a dirty likelihood, and a suspect of the cold-posterior effect.
Here it goes by that name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import positive
from bayesnn_ppl.likelihoods import augmentations
from bayesnn_ppl.likelihoods.common.base import Likelihood
from bayesnn_ppl.likelihoods.common.pseudo import PseudoLikelihood


class DirtyInputs(PseudoLikelihood):
    """Trains by log p at augmented inputs, or under dropout; predicts and scores by p without."""

    def log_prob(self, value: Any) -> Any:
        """That of the clean distribution, at whatever outputs it was made of."""
        return self.base_dist.log_prob(value)


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
    """A likelihood whose observations count otherwise; made by `likelihoods.dirty`."""

    likelihood: Likelihood
    class_weights: tuple[float, ...] | None
    label_smoothing: float
    outputs: int | None
    _: KW_ONLY
    augmentation: Callable[[Any, Any], Any] | None = None
    dropout: Any = None

    @property
    def task(self) -> str:  # type: ignore[override]
        """That of the clean likelihood."""
        return self.likelihood.task

    @property
    def noisy(self) -> bool:  # type: ignore[override]
        """Whether training transforms inputs at random, or drops some of them."""
        return self.augmentation is not None or self.dropout is not None

    def sample_parameters(self) -> dict[str, Any]:
        """Sample the sites of the clean likelihood."""
        return self.likelihood.sample_parameters()

    def split_inputs(self, x: Any) -> tuple[Any, dict[str, Any]]:
        """As the clean likelihood does."""
        return self.likelihood.split_inputs(x)

    def check_inputs(self, x: np.ndarray) -> None:
        """As the clean likelihood does."""
        self.likelihood.check_inputs(x)

    def training_inputs(self, x: Any, key: Any) -> Any:
        """The augmented inputs, in the shape of `x` (B, ...)."""
        if self.augmentation is None:
            return x
        augmented = jnp.asarray(self.augmentation(key, x))
        if augmented.shape != x.shape or augmented.dtype != x.dtype:
            raise ValueError(
                f"The augmentation turns inputs {x.dtype}{tuple(x.shape)} into "
                f"{augmented.dtype}{tuple(augmented.shape)}: it must be a function `(key, x) -> x` "
                "that keeps shape and type, since predictions see inputs as they are."
            )
        return augmented

    def distribution(self, outputs: Any, **parameters: Any) -> dist.Distribution:
        """The clean distribution, with the dirty density for training."""
        clean = self.likelihood.distribution(outputs, **parameters)
        if self.class_weights is None and not self.label_smoothing:
            return DirtyInputs(clean)
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
    augmentation: str | Callable[[Any, Any], Any] | None = None,
    dropout: float | Mapping[str, float] | str | None = None,
) -> DirtyLikelihood:
    r"""A likelihood with practices of deep learning that make it none: a pseudo-likelihood.

    The weights θ of the network are drawn by exp of

        Σ_i E_a,z [ Σ_k w_k q_k(y_i) log p_k(a(x_i), θ ∘ z) ],    q_k(y) = (1 - α) 1[k = y] + α/K

    with a random transformation a of the inputs, and dropout z of elements inside the network. By
    Jensen it is no more than Σ_i log E[p], the likelihood of a model that is averaged over a and
    z, and it is normalised over y by no constant: the probability of nothing. Predictions, log
    likelihoods and scores are those of the clean likelihood p at the inputs as they are and with
    all elements, as Wenzel et al. predict. The provenance of a run says `DirtyLabels` where labels
    count otherwise, else `DirtyInputs`, and its model which augmentation and dropout.

    The expectation is taken by one a and z for each row and step, with fresh keys of the chain's
    own stream, so a resumed run is bit-for-bit identical. Minibatch kernels need no more than an
    unbiased gradient, though its noise is larger, and widens what they draw as that of the
    minibatch does; a temperature T of the whole posterior is that of the expectation above. Kernels
    of the whole data, evidences and control variates need its value and refuse. `MAP` and
    `Ensemble` train so; rows held out are judged clean.

    Args:
        likelihood: any; class weights and label smoothing are for `categorical`, `bernoulli` and
            `ordinal`.
        class_weights: w, positive, one for each class. All of them 1/T are the temperature T.
        label_smoothing: α in [0, 1).
        augmentation: a, a function `(key, x) -> x` of a minibatch x (B, ...) of the network's
            inputs that treats each row by itself, such as those of `bayesnn_ppl.augmentations`, or
            the name of one: "flip", "crop", "crop-reflect", "flip-crop" (CIFAR's, of Wenzel et
            al.), "noise" (of standard deviation 0.1).
        dropout: p in [0, 1) of the inputs of each dense and convolutional layer, the first
            included; `{layer: p}` for those named and no others; or "network" for the network's
            own `linen.Dropout` layers, live in training and off in prediction whatever they say
            of `deterministic`. Of Flax Linen networks only. An element is dropped by itself and
            the others scaled by 1/(1 - p).

    Raises:
        TypeError: not a likelihood, or weights that are not numbers.
        ValueError: numbers instead of labels where labels count otherwise, a likelihood that is
            dirty already, an argument out of range, nothing dirty at all. Class weights,
            layers and augmentation are checked against the model when it first runs.

    References:
        Wenzel et al. (2020), arXiv:2002.02405, *Dirty likelihoods*, and their code,
        `cold_posterior_bnn/datasets.py`. Szegedy et al. (2016), arXiv:1512.00567, section 7, for
        label smoothing.
    """
    if not isinstance(likelihood, Likelihood):
        raise TypeError(
            f"`dirty` wraps a likelihood, such as `likelihoods.categorical(10)`, not "
            f"{likelihood!r}."
        )
    if isinstance(likelihood, DirtyLikelihood):
        raise ValueError(
            "The likelihood is dirty already. Give all that is dirty of it together, in one call."
        )
    if isinstance(label_smoothing, bool) or not isinstance(label_smoothing, int | float):
        raise TypeError(f"The label smoothing must be a number, not {label_smoothing!r}.")
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"The label smoothing must lie in [0, 1), not {label_smoothing}.")
    of_labels = class_weights is not None or label_smoothing != 0
    if of_labels and likelihood.task != "classification":
        raise ValueError(
            f"Class weights and label smoothing are of labels, but {type(likelihood).__name__} "
            "has numbers. For outliers use `likelihoods.student_t`."
        )
    if not of_labels and augmentation is None and dropout is None:
        raise ValueError(
            "Nothing is dirty here: give `class_weights`, `label_smoothing`, `augmentation` or "
            f"`dropout`, or use {type(likelihood).__name__} as it is."
        )
    weights = None
    if class_weights is not None:
        weights = tuple(
            positive(weight, f"The weight of class {k}") for k, weight in enumerate(class_weights)
        )
    return DirtyLikelihood(
        likelihood,
        weights,
        float(label_smoothing),
        likelihood.outputs,
        augmentation=_augmentation(augmentation),
        dropout=_dropout(dropout),
    )


def _augmentation(given: Any) -> Any:
    if given is None or (callable(given) and not isinstance(given, type)):
        return given
    if isinstance(given, str):
        return augmentations.named(given)
    raise TypeError(
        "`augmentation` must be a function `(key, x) -> x` or the name of one, such as "
        f'"flip-crop", not {given!r}.'
    )


def _dropout(given: Any) -> Any:
    """The rate, sorted pairs of a layer and its rate, or "network"."""
    if given is None or given == "network":
        return given
    if isinstance(given, Mapping):
        if not given:
            raise ValueError("`dropout` names no layer: give `{layer: rate}`, or one rate for all.")
        return tuple((str(n), _rate(p, f"`dropout` of `{n}`")) for n, p in sorted(given.items()))
    return _rate(given, "`dropout`")


def _rate(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
        raise TypeError(
            f'{what} must be a rate in [0, 1), {{layer: rate}} or "network", not {value!r}.'
        )
    if not 0 <= value < 1:
        raise ValueError(
            f"{what} must be at least 0 and below 1, not {value}: it is the share of elements that "
            "are dropped."
        )
    return float(value)
