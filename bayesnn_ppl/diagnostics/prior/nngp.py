r"""The Gaussian processes that infinitely wide networks are: kernels in closed form, regression.

A fully connected network with independent weights N(0, σ_w²/fan-in) and biases N(0, σ_b²), which is
what `priors.fan_in_normal` says of `nn.MLP`, tends to a Gaussian process of mean 0 as its hidden
layers grow wide. With d inputs and an activation φ its covariance is, layer by layer,

    K_0(x, x') = σ_b² + σ_w² x·x'/d,    K_{l+1}(x, x') = σ_b² + σ_w² E[φ(u) φ(u')],

with (u, u') Gaussian of covariance K_l. With one hidden layer the covariance of a network of any
width H is K_1 exactly, and what vanishes as H grows are the higher cumulants: with φ = relu and
without biases the output at any x is a Gaussian of random variance Q, a mean of H squares of
relu, with Var(Q)/E[Q]² = 5/H, and so has the excess kurtosis 3 Var(Q)/E[Q]² = 15/H.

References:
    Neal (1996), Bayesian Learning for Neural Networks, chapter 2.
    Williams (1997), Computing with infinite networks, NeurIPS 9: erf.
    Cho and Saul (2009), Kernel methods for deep learning, NeurIPS 22: relu.
    Lee, Bahri, Novak, Schoenholz, Pennington, Sohl-Dickstein (2018), arXiv:1711.00165: any depth.
"""

import math
import numbers
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

from bayesnn_ppl.core.arguments import integer, near_misses, positive, readable
from bayesnn_ppl.core.precision import arithmetic

__all__ = ["NNGPPrediction", "nngp_kernel", "nngp_predict"]


@readable
class NNGPPrediction(NamedTuple):
    """The posterior of the function at test inputs.

    `mean` (M, ...) as the targets, `variance` (M,) of the function: a target's has noise² more.
    """

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]


def nngp_kernel(
    x1: ArrayLike,
    x2: ArrayLike | None = None,
    *,
    activation: str,
    depth: int,
    weight_scale: Any = 1.0,
    bias_scale: Any = 1.0,
) -> jax.Array:
    """The prior covariance of an infinitely wide network's output, shape (N1, N2).

    May be compiled and differentiated, in the inputs and in both scales.

    Args:
        x1: inputs (N1, ...), flattened as by `nn.MLP`.
        x2: inputs (N2, ...); None for `x1`.
        activation: "relu" or "erf".
        depth: number of hidden layers; 0 is a linear model.
        weight_scale: σ_w: weights are N(0, σ_w²/fan-in), in all layers.
        bias_scale: σ_b, of the biases in all layers, the last one's too; 0 for none.

    Raises:
        ValueError: an activation without a closed form here, a negative depth, a scale that is
            negative or not finite, or inputs of different numbers of features.

    Example:
        >>> from bayesnn_ppl.diagnostics import nngp_kernel
        >>> nngp_kernel([[3.0]], activation="relu", depth=1, bias_scale=0.0)
        Array([[4.5]], dtype=float32)
    """
    settings = (weight_scale, bias_scale, activation, depth)
    first, second = _checked(x1, x1 if x2 is None else x2, *settings)
    return _recursion(first, second, *settings)[0]


@partial(jax.jit, static_argnames=("activation", "depth"))
def _recursion(
    x1: Any, x2: Any, weight_scale: Any, bias_scale: Any, activation: str, depth: int
) -> tuple[jax.Array, jax.Array]:
    """The kernel (N1, N2) and the variances (N1,) of rows (N, d)."""

    def affine(moment: Any) -> Any:
        return bias_scale**2 + weight_scale**2 * moment

    features = x1.shape[1]
    kernel = affine(jnp.matmul(x1, x2.T, precision="highest") / features)
    first, second = (affine(jnp.sum(x**2, axis=1) / features) for x in (x1, x2))
    moment = _MOMENTS[activation]
    for _ in range(depth):
        kernel = affine(moment(kernel, first[:, None], second[None, :]))
        first, second = (affine(moment(v, v, v)) for v in (first, second))
    return kernel, first


def nngp_predict(
    x_train: ArrayLike,
    y_train: ArrayLike,
    x_test: ArrayLike,
    *,
    noise_scale: float,
    activation: str,
    depth: int,
    weight_scale: float = 1.0,
    bias_scale: float = 1.0,
) -> NNGPPrediction:
    """Exact regression with an infinitely wide network: y ~ N(f(x), noise²), f of `nngp_kernel`.

    mean = K_* (K + noise² I)⁻¹ y, variance = diag(K_** - K_* (K + noise² I)⁻¹ K_*ᵀ), in double
    precision. Time grows as N³ and memory as N²: a baseline for thousands of rows.

    Args:
        x_train: inputs (N, ...).
        y_train: targets (N, ...); several outputs are independent given the scales.
        x_test: inputs (M, ...).
        noise_scale: standard deviation of the targets about f.
        activation, depth, weight_scale, bias_scale: as in `nngp_kernel`.

    Raises:
        ValueError: as `nngp_kernel`; targets of another number of rows; inputs or targets that are
            not finite; noise that is not positive, or so small that the covariance of the
            targets is not positive definite in double precision.
    """
    from scipy.linalg import cho_factor, cho_solve

    noise = positive(noise_scale, "The noise_scale")
    train, test, targets = (np.asarray(a, dtype=float) for a in (x_train, x_test, y_train))
    for name, array in (("x_train", train), ("x_test", test), ("y_train", targets)):
        if not np.isfinite(array).all():
            raise ValueError(f"`{name}` has values that are not finite: drop these rows first.")
    if targets.ndim == 0 or train.ndim == 0 or len(targets) != len(train):
        raise ValueError(
            f"`x_train` has shape {train.shape} and `y_train` {targets.shape}: give one target for "
            "each row."
        )
    settings = (weight_scale, bias_scale, activation, depth)
    with arithmetic(float64=True):
        x1, x2 = _checked(train, test, *settings)
        covariance = np.array(_recursion(x1, x1, *settings)[0])
        across, own = (np.asarray(array) for array in _recursion(x2, x1, *settings))
    covariance[np.diag_indices_from(covariance)] += noise**2
    try:
        factor = cho_factor(covariance, lower=True)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"The covariance of the targets is not positive definite: a noise_scale of {noise:g} "
            "is too small for double precision. Give a larger one, or drop repeated rows."
        ) from None
    columns = cho_solve(factor, np.column_stack([targets.reshape(len(targets), -1), across.T]))
    outputs = columns.shape[1] - len(test)
    mean = (across @ columns[:, :outputs]).reshape(len(test), *targets.shape[1:])
    explained = np.einsum("mn,nm->m", across, columns[:, outputs:])
    return NNGPPrediction(mean, np.maximum(own - explained, 0.0))


@jax.custom_jvp
def _arc_cosine(cosine: Any) -> Any:
    """J(c) = sinθ + (π - θ) cosθ at c = cosθ: 2π times E[relu(u) relu(u')] at unit variances."""
    cosine = jnp.clip(cosine, -1.0, 1.0)
    return jnp.sqrt((1 - cosine) * (1 + cosine)) + (jnp.pi - jnp.arccos(cosine)) * cosine


@_arc_cosine.defjvp
def _arc_cosine_slope(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    # Term by term the derivative is ∞ - ∞ on the diagonal; their sum is finite.
    (cosine,), (change,) = primals, tangents
    return _arc_cosine(cosine), (jnp.pi - jnp.arccos(jnp.clip(cosine, -1.0, 1.0))) * change


def _relu_moment(covariance: Any, variance1: Any, variance2: Any) -> Any:
    product = variance1 * variance2
    known = product > 0
    # A row of zeros without biases has variance 0, and a root whose gradient would be NaN.
    scale = jnp.sqrt(jnp.where(known, product, 1.0))
    return jnp.where(known, scale * _arc_cosine(covariance / scale) / (2 * jnp.pi), 0.0)


def _erf_moment(covariance: Any, variance1: Any, variance2: Any) -> Any:
    scale = jnp.sqrt((1 + 2 * variance1) * (1 + 2 * variance2))
    return jnp.arcsin(2 * covariance / scale) * (2 / jnp.pi)


_MOMENTS: dict[str, Callable[[Any, Any, Any], Any]] = {"relu": _relu_moment, "erf": _erf_moment}


def _checked(
    x1: ArrayLike, x2: ArrayLike, weight_scale: Any, bias_scale: Any, activation: str, depth: int
) -> tuple[jax.Array, jax.Array]:
    """Both inputs as rows of features."""
    if activation not in _MOMENTS:
        raise ValueError(
            f"The kernel of infinitely wide networks is known here for relu and erf, not for "
            f"`{activation}`. {near_misses(str(activation), _MOMENTS)}"
        )
    integer(depth, "The depth", at_least=0)
    _check_scale(weight_scale, "The weight_scale")
    if not (isinstance(bias_scale, numbers.Real) and bias_scale == 0):
        _check_scale(bias_scale, "The bias_scale")
    first, second = _rows(x1), _rows(x2)
    if first.shape[1] != second.shape[1]:
        raise ValueError(
            f"The inputs have {first.shape[1]} and {second.shape[1]} features a row: a kernel "
            "compares rows of one kind."
        )
    return first, second


def _check_scale(value: Any, what: str) -> None:
    # Inside `jit` and `grad` a scale is traced, and has no value to look at yet.
    if not isinstance(value, jax.core.Tracer | jax.Array):
        positive(value, what)


def _rows(x: ArrayLike) -> jax.Array:
    array = jnp.asarray(x)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(float)
    if array.ndim < 2:
        raise ValueError(
            f"The inputs have shape {array.shape}, but must be rows of features, (N, ...). For "
            "one feature add the axis: x[:, None]."
        )
    return array.reshape(array.shape[0], math.prod(array.shape[1:]))
