"""A Gaussian process as the last layer of a network with bounded kernels."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.core.arguments import integer, positive, readable
from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.inference.approximations.trained_networks.sngp_model import WEIGHTS, with_features
from bayesnn_ppl.inference.approximations.trained_networks.trained import TrainedByGradients
from bayesnn_ppl.inference.fitting.approximation import Finding, Fitted
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.inference.training.trainer import cosine
from bayesnn_ppl.modeling.contract import inspect_model
from bayesnn_ppl.modeling.temperature import ColdModel, Model

__all__ = ["SNGP"]

_MOST_WEIGHTS = 4096  # whose Hessian is kept as a matrix
_AT_ONCE = 32  # columns of it
_DRAWS = 0x5344  # stream of randomness


@readable
@dataclass(frozen=True)
class SNGP(TrainedByGradients):
    r"""Spectral-normalised neural Gaussian process: a network that knows how far inputs are.

        f(x) = φ(h(x)) β,    φ(h) = sqrt(2/D) cos(hΩ + b),    β ~ N(0, s²)

    in the place of the last dense layer: φ are D random Fourier features, Ω_ij ~ N(0, 1/ℓ²) and
    b_i ~ U(0, 2π), so that f given h is a Gaussian process with covariance
    s² exp(-|h - h'|²/(2ℓ²)) as D grows. The kernel W of each hidden layer acts as
    W min(1, c/|W|₂), so that h does not pull inputs apart by more than c a layer; in a residual
    network with c < 1 it does not push different inputs together either, which a plain sequence
    of layers may do. All weights are trained as by `MAP`; then β alone gets a posterior,

        β ~ N(β*, H⁻¹),    H = -∂²/∂β² log p(y, β | the rest),

    with one Newton step from the trained β to β*. For normal noise that is exact given the other
    weights; temperatures of the model count once, in H as in the loss. Far from the data f goes
    back to its prior N(0, s²). Noise scales and hidden weights stay at their mode.

    Predictions are those of a model other than `model`, with the last layer's parameters
    replaced by `features.kernel`; it is `posterior.model`, and `fitted_model(x, y, seed=...)`
    makes it again, to open a run. Costs the training and D · outputs passes through the last layer.

    Args:
        model: a NumPyro model with a Flax Linen network whose last layer is dense.
        features: D; D · outputs at most 4 096.
        length_scale: ℓ; None for the root of the number of the last layer's inputs.
        scale: s, in the units that `y` (or a logit) has in the model.
        bound: c, the largest spectral norm, of a convolution that of its kernel as a matrix.
        draws: of β.
        objective, learning_rate, weight_decay, optimiser, schedule, batch_size, epochs,
        validation_fraction, patience, start, retries: of the training, see `MAP`.

    Raises:
        TypeError, ValueError: an argument is not what it must be; raised before anything is
            compiled.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> data = bnn.data.load("diabetes")
        >>> sngp = bnn.approximations.SNGP(
        ...     bnn.models.mlp(hidden=(20,)), features=64, epochs=20, draws=50)
        >>> bnn.fit(sngp, *data.train, progress=False).draws["features.kernel"].shape
        (1, 50, 64, 1)

    References:
        Liu et al. (2020), arXiv:2006.10108; Rahimi and Recht (2007), Random features for
        large-scale kernel machines.
    """

    _learning_rate: ClassVar[float] = 3e-3
    _: KW_ONLY
    features: int = 256
    length_scale: float | None = None
    scale: float = 1.0
    bound: float = 0.95
    draws: int = 100
    schedule: Callable[[Any], Any] | None = cosine
    batch_size: int | None = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        integer(self.features, "`features`", at_least=1)
        integer(self.draws, "`draws`", at_least=1)
        for name in ("scale", "bound"):
            positive(getattr(self, name), f"`{name}`")
        if self.length_scale is not None:
            positive(self.length_scale, "`length_scale`")

    def fitted_model(self, x: Any, y: Any, *, seed: int = 0) -> Model:
        """The model that is trained and predicted with, of a fit with the same seed.

        Raises:
            ValueError: there is no model, or it has no dense last layer whose kernel is a site of
                its own.
        """
        if self.model is None:
            raise ValueError("The approximation has no model: `SNGP(model)`.")
        x, y = np.asarray(x), np.asarray(y)
        return self._built(
            self.model, inspect_model(self.model, x, y, all_rows=False).latents, x, y, seed
        )

    def _built(self, model: Model, shapes: Any, x: Any, y: Any, seed: int) -> Model:
        # A temperature of the whole posterior is that of the new weights, too.
        inner = model.model if isinstance(model, ColdModel) else model
        featured = with_features(
            inner,
            shapes,
            x,
            y,
            features=self.features,
            length_scale=self.length_scale,
            scale=self.scale,
            bound=self.bound,
            seed=seed,
        )
        size = self.features * featured.outputs
        if size > _MOST_WEIGHTS:
            raise ValueError(
                f"The last layer would have {self.features} x {featured.outputs} = {size} weights, "
                f"and their Hessian is kept as a matrix of at most {_MOST_WEIGHTS}² numbers. "
                "Lower `features`."
            )
        return replace(model, model=featured) if isinstance(model, ColdModel) else featured

    def solve(self, problem: Problem) -> Fitted:
        """Train, and draw the last layer; see `fit`."""
        shapes = problem.summary.latents
        model = self._built(problem.model, shapes, problem.x, problem.y, problem.seed)
        trained = self.train_members(problem.with_model(model), 1)
        mode = {name: np.asarray(a[0]) for name, a in trained.positions.items()}
        gradient, hessian = _curvature(
            StaticValue(model),
            {n: jnp.asarray(a) for n, a in mode.items()},
            problem.x,
            problem.y,
        )
        gradient, hessian = np.asarray(gradient, float), np.asarray(hessian, float)
        finite = bool(np.isfinite(hessian).all() and np.isfinite(gradient).all())
        prior = 1 / self.scale**2
        if not finite:
            gradient, hessian = np.zeros(len(gradient)), prior * np.eye(len(gradient))
        values, vectors = np.linalg.eigh(hessian)
        indefinite = int((values <= 0).sum())
        values = np.where(values > 0, values, prior)
        weights = mode[WEIGHTS].astype(float).ravel()
        centre = weights - vectors @ (vectors.T @ gradient / values)
        normals = np.asarray(
            jax.random.normal(problem.key(_DRAWS), (self.draws, len(values))), float
        )
        drawn = centre + (normals / np.sqrt(values)) @ vectors.T
        positions = {
            name: np.broadcast_to(a, (1, self.draws, *a.shape)) for name, a in mode.items()
        }
        shape = mode[WEIGHTS].shape
        positions[WEIGHTS] = drawn.reshape(1, self.draws, *shape).astype(mode[WEIGHTS].dtype)
        return Fitted(
            positions=positions,
            record=self.record_with_losses(
                trained,
                features=self.features,
                newton_step=round(float(np.linalg.norm(centre - weights)), 6),
            ),
            findings=(*self.findings(trained), *_curvature_findings(indefinite, finite)),
            interrupted=trained.interrupted,
            model=model,
        )


def _curvature_findings(indefinite: int, finite: bool) -> tuple[Finding, ...]:
    if not finite:
        return (
            Finding(
                "failure",
                "The curvature of the last layer is not finite, and its draws have the prior's "
                "width: training has failed. Lower the learning rate, or standardise inputs and "
                "targets.",
            ),
        )
    if not indefinite:
        return ()
    return (
        Finding(
            "doubt",
            f"The curvature of the last layer is indefinite in {indefinite} directions, where the "
            "prior's width is taken: the network is at no mode of it. Train for more epochs, or "
            "with a smaller learning rate at the end.",
        ),
    )


@partial(jax.jit, static_argnums=0)
def _curvature(model: StaticValue, mode: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Gradient (P,) and Hessian (P, P) of -log p(y, θ) in the last layer's weights."""
    start = mode[WEIGHTS]

    def potential(weights: Any) -> Any:
        position = mode | {WEIGHTS: weights.reshape(start.shape)}
        density = Density(model.value, (x, y), {}, lambda _: position, 0)
        return density.potential(None)

    flat = start.ravel()
    gradient = jax.grad(potential)

    def column(direction: Any) -> Any:
        return jax.jvp(gradient, (flat,), (direction,))[1]

    identity = jnp.eye(flat.shape[0], dtype=flat.dtype)
    hessian = jax.lax.map(column, identity, batch_size=min(_AT_ONCE, flat.shape[0]))
    return gradient(flat), (hessian + hessian.T) / 2
