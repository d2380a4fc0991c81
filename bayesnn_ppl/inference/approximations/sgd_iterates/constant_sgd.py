"""Stochastic gradient descent at a constant rate, whose iterates are the draws."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from math import ceil
from typing import Any

import jax
import numpy as np

from bayesnn_ppl.core.arguments import near_misses, positive, readable, whole_number
from bayesnn_ppl.inference.approximations.sgd_iterates.constant_rate import (
    best_rates,
    drift_findings,
    reduced_finding,
    refuse_burn_in,
    stability,
    stability_findings,
)
from bayesnn_ppl.inference.approximations.sgd_iterates.sgd_loop import Descent, descend
from bayesnn_ppl.inference.approximations.trained_networks.flat_loss import (
    Layout,
    check_minibatches,
)
from bayesnn_ppl.inference.approximations.trained_networks.starting_modes import (
    check_mode,
    find_modes,
)
from bayesnn_ppl.inference.approximations.trained_networks.trained import thinned
from bayesnn_ppl.inference.fitting.approximation import Fitted
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.modeling.temperature import Model

__all__ = ["ConstantSGD"]

_PRECONDITIONERS = ("none", "diagonal", "full")
_MOST_COORDINATES = 2000  # of a full preconditioner
_DESCENT = 0x4353_4744  # stream of randomness


@readable
@dataclass(frozen=True)
class ConstantSGD:
    r"""The iterates of SGD at a constant rate, as draws of the posterior.

        θ' = θ - P ∇Ĵ(θ),    Ĵ of a minibatch of B rows, drawn with replacement

    where J = U/N is the potential per observation in unconstrained coordinates (Jacobians
    included; temperatures of the program count once). Where J is quadratic with Hessian A and the
    minibatch gradients have the same covariance C/B everywhere, the iterates have the mode as
    mean and the stationary covariance

        Σ = (I - PA) Σ (I - AP) + P C P / B,    for small P:  PAΣ + ΣAP = P C P / B,

    while the posterior has A⁻¹/N. Their width is the rate's doing: no noise is added and no step
    rejected. With `learning_rate=None` the rate is the one whose law has the least KL divergence
    from the posterior (Mandt et al.), P = ε I with ε = 2Bd / (N tr C), one number for all
    directions. The "diagonal" preconditioner gives each coordinate its own, 2B / (N C_kk), and the
    "full" one, (2B/N) C⁻¹, makes Σ = A⁻¹/N exactly as the rate goes to 0; it costs d² a step.

    It fails where the noise changes much over the posterior's width, where steps are not small
    (`stability`, the largest eigenvalue of PA, is in the record), and where there are many modes:
    each member stays with its own.

    Args:
        model: a NumPyro program that keeps the model contract.
        mode: what a member begins at, see `SWAG`.
        members: chains, each from a mode of its own.
        learning_rate: ε, of SGD on the mean loss; None for the theory's.
        preconditioner: "none", "diagonal" or "full"; the last two have their own rates.
        batch_size: B, at most all rows.
        draws: of each member.
        every: steps between draws; None for those of an epoch.
        burn_in: draws that are left out at first.

    Raises:
        TypeError, ValueError: an argument is not what it must be, or the program's density is not
            a sum over rows; raised before anything is compiled.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> data = bnn.data.load("diabetes")
        >>> sgd = bnn.approximations.ConstantSGD(
        ...     bnn.models.linear(), mode=bnn.approximations.MAP(epochs=20), members=2, draws=50)
        >>> bnn.fit(sgd, *data.train, progress=False).draws["noise_scale"].shape
        (2, 50)

    References:
        Mandt, Hoffman and Blei (2017), arXiv:1704.04289.
    """

    model: Model | None = None
    _: KW_ONLY
    mode: Any = None
    members: int = 1
    learning_rate: float | None = None
    preconditioner: str = "none"
    batch_size: int = 32
    draws: int = 200
    every: int | None = None
    burn_in: int = 50

    def __post_init__(self) -> None:
        check_mode(self.mode, "ConstantSGD")
        for name in ("members", "batch_size", "draws"):
            whole_number(getattr(self, name), f"`{name}`", at_least=1)
        if self.every is not None:
            whole_number(self.every, "`every`", at_least=1)
        whole_number(self.burn_in, "`burn_in`", at_least=0)
        if self.preconditioner not in _PRECONDITIONERS:
            raise ValueError(
                f"`preconditioner` must be one of {_PRECONDITIONERS}, not "
                f"{self.preconditioner!r}. "
                + near_misses(str(self.preconditioner), _PRECONDITIONERS)
            )
        if self.learning_rate is not None:
            positive(self.learning_rate, "`learning_rate` of ConstantSGD")
            if self.preconditioner != "none":
                raise ValueError(
                    f'The "{self.preconditioner}" preconditioner has the rates of the theory in '
                    "it, and `learning_rate` would be ignored beside it. Leave one of the two out."
                )

    def solve(self, problem: Problem) -> Fitted:
        """Train, and go on at a constant rate; see `fit`."""
        layout = Layout.of(problem)
        check_minibatches(problem, layout, "ConstantSGD")
        if self.preconditioner == "full" and layout.dimension > _MOST_COORDINATES:
            raise ValueError(
                f"The full preconditioner is a matrix of {layout.dimension}² numbers for each "
                f"member, and is for at most {_MOST_COORDINATES} coordinates. Use "
                'preconditioner="diagonal".'
            )
        modes = find_modes(problem, self.mode, self.members)
        starts = layout.vectors(modes.positions)
        batch = min(self.batch_size, len(problem.x))
        every = ceil(len(problem.x) / batch) if self.every is None else self.every
        findings = list(modes.findings)
        if self.learning_rate is None:
            rate, stable, reduced = best_rates(problem, layout, starts, batch, self.preconditioner)
            if reduced.any():
                findings.append(reduced_finding("ConstantSGD", reduced, batch))
        else:
            rate = np.full((self.members, 1), self.learning_rate, starts.dtype)
            stable = stability(problem, layout, starts, rate)
            findings += stability_findings(stable, "ConstantSGD")
        draws = _Draws(np.zeros((self.members, 0, layout.dimension), starts.dtype))
        descended = descend(
            problem,
            starts,
            rate,
            layout,
            Descent(batch, 0.0, 1.0, every, self.burn_in + self.draws),
            jax.random.split(problem.key(_DESCENT), self.members),
            "draws",
            draws,
        )
        vectors = draws.arrays()["vectors"][:, self.burn_in :]
        if not vectors.shape[1]:
            refuse_burn_in(descended, "ConstantSGD")
        diagonal = rate if rate.ndim == 2 else np.diagonal(rate, axis1=1, axis2=2)
        settled = descended._replace(losses=descended.losses[:, self.burn_in :])
        return Fitted(
            positions=layout.sites(vectors),
            record={"mode": modes.record}
            | {
                "learning_rates": np.round(np.median(diagonal, axis=1), 10).tolist(),
                "stability": np.round(stable, 6).tolist(),
                "every": every,
                "losses": thinned(descended.losses),
                "seconds": {"draws": round(descended.seconds, 3)},
            },
            findings=(*findings, *drift_findings(settled, "ConstantSGD")),
            interrupted=descended.interrupted or modes.interrupted,
        )


class _Draws:
    """Collects the iterates, (members, k, d) at a time."""

    def __init__(self, none: np.ndarray) -> None:
        self._parts = [none]

    def take(self, made: np.ndarray) -> None:
        self._parts.append(made)

    def arrays(self) -> dict[str, np.ndarray]:
        self._parts = [np.concatenate(self._parts, axis=1)]
        return {"vectors": self._parts[0]}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._parts = [arrays["vectors"]]
