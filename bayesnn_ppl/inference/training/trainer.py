"""Training: modes of a model, one for each member, with minibatches and early stopping."""

from typing import Any

import jax.numpy as jnp

from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.inference.training.plan import make_training_plan
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.inference.training.result import Trained, TrainingProgress
from bayesnn_ppl.inference.training.run import TrainingBar, TrainingRun
from bayesnn_ppl.inference.training.settings import TrainingSettings

__all__ = ["Trained", "TrainingProgress", "cosine", "train"]


def cosine(fraction: Any) -> Any:
    """½(1 + cos πt), from 1 down to 0 as the fraction t of training goes from 0 to 1."""
    return 0.5 * (1.0 + jnp.cos(jnp.pi * fraction))


def train(problem: Problem, settings: TrainingSettings, members: int) -> Trained:
    r"""Train several members of a model at once, each from its own start.

    With N rows to train on and minibatches of B, the objective per observation is

        J(θ) = -(1/N) [ (N/B) Σ_batch log p(y_i | x_i, θ) + log p(θ) ]      "posterior"
        J(θ) = -(1/B) Σ_batch log p(y_i | x_i, θ)                           "likelihood"

    as functions of NumPyro's unconstrained coordinates, without their Jacobians: the minimum of
    the first is the mode of the posterior in the model's own space, the MAP estimate as it is
    usually meant. (The mode of the density that samplers see, Jacobians included, lies elsewhere
    where a site is constrained.) The prior is then the weight decay. The second leaves it out;
    decay decoupled from the gradient, as in AdamW, then acts on the unconstrained coordinates.
    Temperatures of the model count in J, but not in the held-out loss.

    An epoch goes through the rows once, in an order of each member's own; N mod B rows that fill
    no batch are left out of that epoch. With held-out rows the position returned is that after
    the epoch with the least held-out loss; otherwise it is the last.

    Args:
        problem: a model that keeps the model contract, and its data. Its seed sets the held-out
            rows, which all members share, and starts, orders and noise, which are each member's
            own; its callback is called with a `TrainingProgress` after each block of about half a
            second, and ends training when it returns true; its record is where checkpoints and
            metrics go, and what an earlier process left there.
        settings: how to train.
        members: how many; member i is the same whatever their number.

    Returns:
        The trained members. Ctrl-C, once epochs have been made, returns the best so far.

    Raises:
        ValueError: the settings do not go with the model and its data; raised before anything
            is compiled.
    """
    plan = make_training_plan(problem, settings, members)
    with (
        arithmetic(float64=problem.float64),
        TrainingBar(shown=problem.progress, chains=plan.recipe.members) as bar,
    ):
        return TrainingRun(plan, bar, problem.callback, problem.record).run()
