"""Random keys for models that are random in training: augmented inputs, live dropout.

The log density of such a model is another random number at each evaluation. Only methods
that want no more than an unbiased gradient may evaluate it, and they say so by giving it a key.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax

__all__ = ["KeyedModel", "clean", "training_key"]


@dataclass
class _Source:
    """Where the keys of one evaluation come from; None where it is to be clean."""

    key: Any
    taken: int = 0


_SOURCE: ContextVar[_Source | None] = ContextVar("bayesnn_ppl_training_keys", default=None)


def training_key() -> Any:
    """A random key of this evaluation of the model, or None where it is to run without noise.

    For a model of your own that augments its inputs in training: ask for a key where `y` is
    given, and transform the rows if it is not None. Each call gives another key. Each step of a
    minibatch kernel, and of the trainings of `MAP` and `Ensemble`, has keys of its own; with a key
    the model must stay a sum over rows.

    Raises:
        ValueError: the density is evaluated by a method that needs a fixed one.

    Example:
        >>> import jax, numpyro, numpyro.distributions as dist, bayesnn_ppl as bnn
        >>> def model(x, y=None, *, batch_size=None):
        ...     slope = numpyro.sample("slope", dist.Normal(0, 1))
        ...     key = None if y is None else bnn.training_key()
        ...     with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        ...         x, y = bnn.minibatch(x, y)
        ...         if key is not None:
        ...             x = x + 0.1 * jax.random.normal(key, x.shape)
        ...         numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)
    """
    source = _SOURCE.get()
    if source is None:
        raise ValueError(
            "The log density of this model is random (augmented inputs, or live dropout), and "
            "here it is evaluated without a key: a kernel of the whole data, an evidence or a "
            "surface needs one fixed number at each position. Sample it with a minibatch "
            "kernel such as `bnn.kernels.SGHMC`, train it with `MAP` or `Ensemble`, or use the "
            "likelihood without augmentation and dropout."
        )
    if source.key is None:
        return None
    source.taken += 1
    return jax.random.fold_in(source.key, source.taken)


@dataclass(frozen=True)
class KeyedModel:
    """A model whose `training_key()` is a key of this evaluation.

    Attributes:
        model: the NumPyro model.
        key: a PRNG key, or None: the model runs without its noise.
    """

    model: Callable[..., Any]
    key: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.run(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> bool:
        """Run the model, and say whether it took a key."""
        source = _Source(self.key)
        token = _SOURCE.set(source)
        try:
            self.model(*args, **kwargs)
        finally:
            _SOURCE.reset(token)
        return source.taken > 0


def clean(model: Callable[..., Any]) -> KeyedModel:
    """The model without its noise, for its sites, shapes and starts; never for its density."""
    return KeyedModel(model, None)
