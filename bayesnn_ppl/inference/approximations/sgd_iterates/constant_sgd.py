"""Stochastic gradient descent at a constant rate, whose iterates are the draws."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from bayesnn_ppl.core.arguments import near_misses, positive, readable
from bayesnn_ppl.inference.approximations.sgd_iterates.iterates import IteratesOfSGD
from bayesnn_ppl.inference.approximations.trained_networks.flat_loss import Layout
from bayesnn_ppl.inference.training.problem import Problem

__all__ = ["ConstantSGD"]

_PRECONDITIONERS = ("none", "diagonal", "full")
_MOST_COORDINATES = 2000  # of a full preconditioner
_SGD = 0x4353_4744  # stream of randomness


@readable
@dataclass(frozen=True)
class ConstantSGD(IteratesOfSGD):
    r"""The iterates of SGD at a constant rate, as draws of the posterior.

        θ' = θ - P ∇Ĵ(θ),    Ĵ of a minibatch of B rows, drawn with replacement

    where J = U/N is the potential per observation in unconstrained coordinates (Jacobians
    included; temperatures of the model count once). Where J is quadratic with Hessian A and the
    minibatch gradients have the same covariance C/B everywhere, the iterates have the mode as
    mean and the stationary covariance

        Σ = (I - PA) Σ (I - AP) + P C P / B,    for small P:  PAΣ + ΣAP = P C P / B,

    while the posterior has A⁻¹/N. Their width is the rate's doing: no noise is added and no step
    rejected. With `learning_rate=None` the rate is the one whose stationary distribution has the
    least KL divergence from the posterior (Mandt et al.), P = ε I with ε = 2Bd / (N tr C), one
    number for all directions. The "diagonal" preconditioner gives each coordinate its own,
    2B / (N C_kk), and the "full" one, (2B/N) C⁻¹, makes Σ = A⁻¹/N exactly as the rate goes to 0;
    it costs d² a step.

    It fails where the noise changes much over the posterior's width, where steps are not small
    (`stability`, the largest eigenvalue of PA, is in the record), and where there are many modes:
    each member stays with its own.

    Args:
        model: a NumPyro model that keeps the model contract.
        mode: what a member begins at, see `SWAG`.
        members: chains, each from a mode of its own.
        learning_rate: ε, of SGD on the mean loss; None for the theory's.
        preconditioner: "none", "diagonal" or "full"; the last two have their own rates.
        batch_size: B, at most all rows.
        draws: of each member.
        every: steps between draws; None for those of an epoch.
        burn_in: draws that are left out at first.

    Raises:
        TypeError, ValueError: an argument is not what it must be, or the model's density is not
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

    _stream, _stage = _SGD, "draws"

    _: KW_ONLY
    preconditioner: str = "none"
    batch_size: int = 32
    draws: int = 200
    burn_in: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
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
                    "it, and `learning_rate` would be ignored with it. Leave one of the two out."
                )

    def _check_layout(self, layout: Layout) -> None:
        if self.preconditioner == "full" and layout.dimension > _MOST_COORDINATES:
            raise ValueError(
                f"The full preconditioner is a matrix of {layout.dimension}² numbers for each "
                f"member, and is for at most {_MOST_COORDINATES} coordinates. Use "
                'preconditioner="diagonal".'
            )

    def _iterates(self) -> tuple[int, float, str]:
        return self.draws, 0.0, self.preconditioner

    def _collector(self, starts: np.ndarray) -> "_Draws":
        return _Draws(starts[:, None][:, :0])

    def _vectors(self, problem: Problem, collector: "_Draws", dtype: Any) -> np.ndarray:
        return collector.arrays()["vectors"][:, self.burn_in :]


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
