"""Training: modes of a program, one for each member, with minibatches and early stopping."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.inference.training.checkpoints import TrainingRecord
from bayesnn_ppl.inference.training.plan import make_training_plan
from bayesnn_ppl.inference.training.result import Trained, TrainingProgress
from bayesnn_ppl.inference.training.run import TrainingBar, TrainingRun

__all__ = ["Trained", "TrainingProgress", "cosine", "train"]


def cosine(fraction: Any) -> Any:
    """½(1 + cos πt), from 1 down to 0 as the fraction t of training goes from 0 to 1."""
    return 0.5 * (1.0 + jnp.cos(jnp.pi * fraction))


def train(
    model: Callable[..., Any],
    x: Any,
    y: Any,
    *,
    members: int,
    seed: int,
    optimiser: optax.GradientTransformation,
    epochs: int,
    batch_size: int | None = None,
    objective: str = "posterior",
    schedule: Callable[[Any], Any] | None = None,
    validation_fraction: float = 0.0,
    patience: int | None = None,
    start: str = "auto",
    retries: int = 0,
    float64: bool = False,
    mesh: Mesh | None = None,
    progress: bool = True,
    callback: Callable[[TrainingProgress], Any] | None = None,
    record: TrainingRecord | None = None,
) -> Trained:
    r"""Train several members of a program at once, each from its own start.

    With N rows to train on and minibatches of B, the objective per observation is

        J(θ) = -(1/N) [ (N/B) Σ_batch log p(y_i | x_i, θ) + log p(θ) ]      "posterior"
        J(θ) = -(1/B) Σ_batch log p(y_i | x_i, θ)                           "likelihood"

    as functions of NumPyro's unconstrained coordinates, without their Jacobians: the minimum of
    the first is the mode of the posterior in the program's own space, the MAP estimate as it is
    usually meant. (The mode of the density that samplers see, Jacobians included, lies elsewhere
    where a site is constrained.) The prior is then the weight decay. The second leaves it out;
    decay decoupled from the gradient, as in AdamW, then acts on the unconstrained coordinates.
    Temperatures of the program count in J, but not in the held-out loss.

    An epoch goes through the rows once, in an order of each member's own; N mod B rows that fill
    no batch are left out of that epoch. With held-out rows the position returned is that after
    the epoch with the least held-out loss; otherwise it is the last.

    Args:
        model: a NumPyro program that keeps the model contract.
        x, y: the data, leading axis of rows.
        members: how many; member i is the same whatever their number.
        seed: sets the held-out rows, which all members share, and starts, orders and noise,
            which are each member's own.
        optimiser: an optax transformation, such as `optax.adamw(1e-3, weight_decay=1e-3)`. One
            that wants the value of the loss, such as `optax.lbfgs()`, is given it.
        epochs: the most passes over the data.
        batch_size: rows of a minibatch; None, or more than there are, for all.
        objective: "posterior" or "likelihood".
        schedule: factor of the updates as a function of the fraction of all epochs done, in
            [0, 1), such as `cosine`; None for a constant factor of 1.
        validation_fraction: share of the rows held out, at least one row when it is above 0.
        patience: stop a member after so many epochs without a lower held-out loss.
        start: "network" for what the initialisers of the program's Flax Linen networks draw, with
            the median of 15 draws from the prior for each other site; "prior" for one draw of
            everything; "auto" for the first where there is such a network, else the second. A draw
            from a wide prior may lie where the noise is next to nothing, far from any mode.
        retries: how often a member that fails is trained again, from another start.
        float64: train in double precision.
        mesh: devices, see `device_mesh`; by default as many as divide the members evenly.
        progress: show a bar.
        callback: called with a `TrainingProgress` after each block of about half a second; ends
            training when it returns true.
        record: where checkpoints and metrics go, and what an earlier process left there.

    Returns:
        The trained members. Ctrl-C, once epochs have been made, returns the best so far.

    Raises:
        TypeError, ValueError: an argument is not what it must be, or the program does not keep
            the contract; raised before anything is compiled.
    """
    plan = make_training_plan(
        model,
        x,
        y,
        members=members,
        seed=seed,
        optimiser=optimiser,
        epochs=epochs,
        batch_size=batch_size,
        objective=objective,
        schedule=schedule,
        validation_fraction=validation_fraction,
        patience=patience,
        start=start,
        retries=retries,
        float64=float64,
        mesh=mesh,
    )
    with (
        arithmetic(float64=plan.recipe.float64),
        TrainingBar(shown=progress, chains=plan.recipe.members) as bar,
    ):
        return TrainingRun(plan, bar, callback, record).run()
