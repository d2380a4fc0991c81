"""Deep ensembles: several networks trained from different starts; also where chains may start."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from jax.sharding import Mesh

from bayesnn_ppl.core.arguments import integer, readable, strict_switches
from bayesnn_ppl.core.identity import describe, identity_key
from bayesnn_ppl.inference.approximations.trained_networks.anchored_model import with_anchors
from bayesnn_ppl.inference.approximations.trained_networks.trained import TrainedByGradients
from bayesnn_ppl.inference.fitting.approximation import Fitted
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.inference.training.trainer import Trained
from bayesnn_ppl.modeling.temperature import Model

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


@readable
@strict_switches
@dataclass(frozen=True)
class Ensemble(TrainedByGradients):
    r"""An ensemble of networks, each trained from its own start with minibatches in its own order.

    The defaults are those of MILE's configuration for UCI data: AdamW with learning rate 1e-3 and
    decoupled weight decay 1e-3 on the negative log likelihood, minibatches of 32, at most 500
    epochs, an eighth of the training rows held out (its split is 70 to 10), a member's best epoch
    kept once 10 epochs have not bettered it, and the start that of Flax's initialisers where the
    model has a Linen network.

    As an approximation the posterior is the equal mixture of its members, each a chain of one
    draw. With objective="posterior" they are modes of the posterior found from different starts.

    With `anchored`, member m minimises -(1/T) Σ log p(y_i | x_i, θ) - log N(θ; θ_m, s²) with the
    prior's variance s² around its own draw θ_m of the prior (Pearce et al.): members disagree
    where the data say nothing. With `randomised_targets` too, its targets are y_i + √T σ ε_i
    with draws ε_i of the noise, the same throughout. On a linear model with known noise, posterior
    covariance Σ and prior covariance Σ₀, the mean over members is the posterior mean in both cases,
    and their covariance

        Σ Σ₀⁻¹ Σ      anchored alone: narrower than Σ, hardly where the data say nothing
        Σ             with randomised targets: members are draws of the posterior

    as members grow in number. Elsewhere both are approximations.

    As `init=` of `sample` it trains one member for each chain, of the kernel's model, and chain i
    starts where member i was best. Such starts lie near modes: they spare the warm-up the way
    there, and need not be overdispersed, see `diagnostics.dispersion`.

    Args:
        model: a NumPyro model; None, as `init=`, for that of the kernel.
        members: how many; None for 5, or, as `init=`, for the number of chains.
        anchored: centre each member's prior at its own draw of it; the priors of all network
            parameters must be normal, and the objective "posterior".
        randomised_targets: draw new noise of the targets for each member, which must be
            normal; only with `anchored`, and with no rows held out.
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
        start: "auto", "network" or "prior", see `TrainingSettings`.
        retries: how often a member that fails is trained again, from another start.

    Raises:
        TypeError, ValueError: an argument is not what it must be. What depends on the data is
            checked by `starts`, before anything is compiled.

    References:
        Lakshminarayanan et al. (2017), arXiv:1612.01474; Sommer et al. (2025), arXiv:2502.06335.
        Pearce, Leibfried and Brintrup (2020), arXiv:1810.05546 (anchors); Bardsley et al. (2014),
        Randomize-then-optimize (anchors and targets).
    """

    takes_noise: ClassVar[bool] = True  # augmented inputs and live dropout, fresh each step
    _: KW_ONLY
    members: int | None = None
    anchored: bool = False
    randomised_targets: bool = False
    objective: str = "likelihood"
    batch_size: int | None = 32
    epochs: int | None = 500
    validation_fraction: float = 0.125
    patience: int | None = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.members is not None:
            integer(self.members, "`members`", at_least=1)
        if self.anchored and self.objective != "posterior":
            raise ValueError(
                "An anchored ensemble moves the prior of each member, and "
                f'objective="{self.objective}" has no prior. Use objective="posterior".'
            )
        if self.randomised_targets and not self.anchored:
            raise ValueError(
                "`randomised_targets` gives the posterior's width together with `anchored=True`, "
                "and without anchors members would scatter by the noise alone. Set both."
            )
        if self.randomised_targets and self.validation_fraction:
            raise ValueError(
                "With `randomised_targets` the rows have noise of a member's own, and rows held "
                "out have none. Set validation_fraction=0 and patience=None."
            )

    @property
    def member_count(self) -> int:
        """How many members `solve` trains."""
        return self.members or _MEMBERS

    def train_members(self, problem: Problem, members: int) -> Trained:
        """Train so many members of the problem's model, or of one with anchors."""
        if self.anchored:
            model, parameters = problem.model, problem.summary.parameters
            options = {"targets": self.randomised_targets}
            anchored = with_anchors(model, parameters, problem.x, problem.y, **options)
            problem = problem.with_model(anchored)
        return super().train_members(problem, members)

    def solve(self, problem: Problem) -> Fitted:
        """Train all members; see `fit`."""
        return self.as_fitted(self.train_members(problem, self.member_count))

    @strict_switches
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
            model: that of the kernel.
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
            KeyboardInterrupt: training was interrupted. Half-trained members are not a start.
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
        how: dict[str, Any] = {"float64": float64, "mesh": mesh, "progress": progress}
        problem = Problem.of(model, x, y, seed=seed, all_rows=False, **how)
        trained = self.train_members(problem, chains)
        if trained.interrupted:
            raise KeyboardInterrupt
        self.require_trained(trained)
        record = {"method": "Ensemble"} | self.describe_training(trained)
        return Starts(trained.values, record, trained)
