"""MAP: the mode of the posterior, one set of weights."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.inference.approximations.trained_networks.trained import TrainedByGradients
from bayesnn_ppl.inference.fitting.approximation import Fitted
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.inference.training.trainer import cosine

__all__ = ["MAP"]


@readable
@dataclass(frozen=True)
class MAP(TrainedByGradients):
    r"""The maximum of the posterior density of the model's own sites.

        θ* = argmax_θ  log p(y | x, θ) + log p(θ)

    without the Jacobians of constrained sites (the mode as it is usually meant). The prior is the
    weight decay: a normal prior of variance s² is a decay of 1/(N s²) on the mean loss. A
    tempered likelihood counts as it is in the model. Minibatches give unbiased gradients of
    the same objective.

    As a posterior it is a single draw: its predictions have the noise of the likelihood and no
    uncertainty of the weights. `Laplace`, `SWAG` and `LastLayer` begin at it.

    Args:
        model: a NumPyro model that keeps the model contract; None where another approximation
            has one.
        objective: "posterior", or "likelihood" for maximum likelihood, with AdamW's decoupled
            `weight_decay` in place of the prior.
        learning_rate: of AdamW, by default 3e-3.
        weight_decay: by default 0 for "posterior" and 1e-3 for "likelihood".
        optimiser: an optax transformation in its place: `optax.sgd(0.1, momentum=0.9)`, or
            `optax.lbfgs()` with `batch_size=None, schedule=None` for small networks.
        schedule: factor of the updates as a function of the fraction of training done; by default
            ½(1 + cos πt). None for a constant rate.
        batch_size: rows of a minibatch; None for all.
        epochs: passes over the data; None for as many as make 10 000 steps.
        validation_fraction, patience: with both, training stops after so many epochs without a
            lower loss of the rows held out, and the best epoch is kept.
        start: "auto", "network" or "prior", see `TrainingSettings`.
        retries: how often a training that fails is begun again, from another start.

    Raises:
        TypeError, ValueError: an argument is not what it must be.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> data = bnn.data.load("diabetes")
        >>> approximation = bnn.approximations.MAP(bnn.models.linear(), epochs=200)
        >>> mode = bnn.fit(approximation, *data.train, progress=False)
        >>> mode.draws["noise_scale"].shape
        (1, 1)
    """

    takes_noise: ClassVar[bool] = True  # augmented inputs and live dropout, fresh each step
    _learning_rate: ClassVar[float] = 3e-3
    _: KW_ONLY
    schedule: Callable[[Any], Any] | None = cosine
    batch_size: int | None = 128

    def solve(self, problem: Problem) -> Fitted:
        """Train one member; see `fit`."""
        return self.as_fitted(self.train_members(problem, 1))
