"""Deep ensembles: several networks trained from different starts; also where chains may start."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from jax.sharding import Mesh

from bayesnn_ppl.arguments import whole_number
from bayesnn_ppl.identity import describe, identity_key
from bayesnn_ppl.inference.approximations.base import Fitted, Problem
from bayesnn_ppl.inference.approximations.trained import TrainedByGradients, thinned
from bayesnn_ppl.inference.training import Trained
from bayesnn_ppl.temperature import Model

__all__ = ["Ensemble", "Starts"]

_MEMBERS = 5  # of Lakshminarayanan et al.


@dataclass(frozen=True)
class Starts:
    """Where chains start, and how they came there.

    Attributes:
        values: latent site -> constrained values (chains, ...), as `init=` of `sample` takes them.
        record: JSON-ready facts for the provenance.
        trained: losses and the rest, see `Trained`.
    """

    values: Mapping[str, np.ndarray]
    record: Mapping[str, Any]
    trained: Trained = field(repr=False)


@dataclass(frozen=True)
class Ensemble(TrainedByGradients):
    """An ensemble of networks, each trained from its own start with minibatches in its own order.

    The defaults are those of MILE's configuration for UCI data: AdamW with learning rate 1e-3 and
    decoupled weight decay 1e-3 on the negative log likelihood, minibatches of 32, at most 500
    epochs, an eighth of the training rows held out (its split is 70 to 10), a member's best epoch
    kept once 10 epochs have not bettered it, and the start that of Flax's initialisers where the
    program has a Linen network.

    As an approximation the posterior is the equal mixture of its members, each a chain of one
    draw. With objective="posterior" they are modes of the posterior found from different starts.

    As `init=` of `sample` it trains one member for each chain, of the kernel's model, and chain i
    starts where member i was best. Such starts lie near modes: they spare the warm-up the way
    there, and need not be overdispersed, see `diagnostics.dispersion`.

    Args:
        model: a NumPyro program; None, as `init=`, for that of the kernel.
        members: how many; None for 5, or, as `init=`, for the number of chains.
        objective: "likelihood", or "posterior" for the mode of the posterior (MAP); see `train`.
        learning_rate, weight_decay: of AdamW, with β = (0.9, 0.999). The weight decay is by
            default 1e-3 for "likelihood" and 0 for "posterior", where the prior is the decay.
        optimiser: an optax transformation in place of that AdamW.
        schedule: factor of the updates as a function of the fraction of all epochs done, such as
            `training.cosine`; None for a constant learning rate.
        batch_size: rows of a minibatch; None for all.
        epochs: the most passes over the data.
        validation_fraction: share of the rows held out.
        patience: epochs without a lower held-out loss; None to train for all epochs.
        start: "auto", "network" or "prior", see `train`.
        retries: how often a member that fails is trained again, from another start.

    Raises:
        TypeError, ValueError: an argument is not what it must be. What depends on the data is
            checked by `starts`, before anything is compiled.

    References:
        Lakshminarayanan et al. (2017), arXiv:1612.01474; Sommer et al. (2025), arXiv:2502.06335.
    """

    _: KW_ONLY
    members: int | None = None
    objective: str = "likelihood"
    batch_size: int | None = 32
    epochs: int | None = 500
    validation_fraction: float = 0.125
    patience: int | None = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.members is not None:
            whole_number(self.members, "`members`", at_least=1)

    def solve(self, problem: Problem) -> Fitted:
        """Train all members; see `fit`."""
        trained = self.train_members(problem, self.members or _MEMBERS)
        return Fitted(
            positions={name: value[:, None] for name, value in trained.positions.items()},
            record=self.describe_training(trained)
            | {
                "losses": thinned(trained.losses),
                "held_out_losses": thinned(trained.held_out_losses),
            },
            findings=self.findings(trained),
            interrupted=trained.interrupted,
        )

    def starts(
        self,
        model: Model,
        x: Any,
        y: Any,
        *,
        chains: int,
        seed: int,
        float64: bool = False,
        mesh: Mesh | None = None,
        progress: bool = True,
    ) -> Starts:
        """Train one member of `model` for each chain.

        Args:
            model: the kernel's program.
            x, y: the data, leading axis of rows.
            chains: number of chains.
            seed: of the run; the members' keys are set apart from those of its chains.
            float64: train in double precision.
            mesh: devices, see `device_mesh`.
            progress: show a bar.

        Raises:
            TypeError, ValueError: an argument is not what it must be, or the ensemble was built
                from another model or for another number of members.
            RuntimeError: a member failed at each attempt; the sentence names it.
            KeyboardInterrupt: training was interrupted. Half-trained members are no start.
        """
        if self.model is not None and self.model is not model:
            if identity_key(self.model) != identity_key(model):
                raise ValueError(
                    "The ensemble of `init=` was built from another model than the kernel: "
                    f"{describe(self.model)} and {describe(model)}. Leave its model out."
                )
        if self.members is not None and self.members != chains:
            raise ValueError(
                f"The ensemble of `init=` has {self.members} members, but the run has {chains} "
                "chains, and each starts from a member of its own. Leave `members` out."
            )
        trained = self.train_on(
            model,
            x,
            y,
            members=chains,
            seed=seed,
            float64=float64,
            mesh=mesh,
            progress=progress,
        )
        if trained.interrupted:
            raise KeyboardInterrupt
        self.require_trained(trained)
        record = {"method": "Ensemble"} | self.describe_training(trained)
        return Starts(trained.values, record, trained)
