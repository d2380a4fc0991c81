"""Jeffreys's rule for a network of one hidden layer."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike
from numpyro.distributions import constraints

from bayesnn_ppl.core.arrays import check_array
from bayesnn_ppl.priors.common.base import NetworkPrior, Shapes

_ACTIVATIONS = {"tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid}


class Flat(dist.ImproperUniform):
    """Density 1 on the real line. Its draws are N(0, 1): starting points, and nothing else."""

    def __init__(self, shape: tuple[int, ...], *, validate_args: bool | None = None) -> None:
        super().__init__(constraints.real, (), shape, validate_args=validate_args)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Points to start from, of shape `sample_shape + shape`."""
        return jax.random.normal(key, (*sample_shape, *self.event_shape))


@dataclass(frozen=True, eq=False)
class _Jeffreys:
    x: np.ndarray
    activation: str

    def __call__(self, shapes: Shapes, x: Any) -> dict[str, Any]:
        hidden, out = _two_layers(shapes, self.x.shape[1])
        weights = sum(int(np.prod(shape)) for shape in shapes.values())
        if len(self.x) < weights:
            raise ValueError(
                f"Jeffreys's prior needs at least as many inputs as weights, {weights}, but `x` "
                f"has {len(self.x)} rows: the information matrix is singular, and the density 0 "
                "everywhere. Take fewer hidden units."
            )
        values = {name: numpyro.sample(name, Flat(tuple(s))) for name, s in shapes.items()}
        slopes = self._jacobian(
            values[f"{hidden}.kernel"], values[f"{hidden}.bias"], values[f"{out}.kernel"]
        )
        # |F'F|^(1/2) = |Π R_ii| of F = QR, without squaring the condition number.
        diagonal = jnp.abs(jnp.diag(jnp.linalg.qr(slopes)[1]))
        numpyro.factor("jeffreys", jnp.sum(jnp.log(diagonal)))
        return values

    def _jacobian(self, kernel: Any, bias: Any, coefficients: Any) -> Any:
        """F (N, weights): derivatives of f(x_i) by each weight; f is linear in its last bias."""
        inputs = jnp.asarray(self.x)
        activate = _ACTIVATIONS[self.activation]
        argument = inputs @ kernel + bias
        basis, tangent = jax.jvp(activate, (argument,), (jnp.ones_like(argument),))
        slope = tangent * coefficients[:, 0]
        by_kernel = (inputs[:, :, None] * slope[:, None, :]).reshape(len(inputs), -1)
        return jnp.concatenate([jnp.ones((len(inputs), 1)), basis, slope, by_kernel], axis=1)


def _two_layers(shapes: Shapes, features: int) -> tuple[str, str]:
    """The names of the hidden and the output layer, or an error for any other network."""
    modules = list(dict.fromkeys(name.rpartition(".")[0] for name in shapes))
    if len(modules) == 2 and len(shapes) == 4:
        hidden, out = modules
        units = tuple(shapes.get(f"{hidden}.bias", ()))
        expected = {
            f"{hidden}.kernel": (features, *units),
            f"{hidden}.bias": units,
            f"{out}.kernel": (*units, 1),
            f"{out}.bias": (1,),
        }
        if len(units) == 1 and {n: tuple(s) for n, s in shapes.items()} == expected:
            return hidden, out
    found = ", ".join(f"{name} {tuple(shape)}" for name, shape in list(shapes.items())[:6])
    raise ValueError(
        "Jeffreys's prior is known for a regression network of one hidden layer and one output, "
        f"kernels ({features}, H) and (H, 1) with their biases, and not for this one: {found}. "
        "`MLP((H,), outputs=1)` is such a network."
    )


def jeffreys(x: ArrayLike, *, activation: str = "tanh") -> NetworkPrior:
    r"""Jeffreys's prior of a regression network with one hidden layer: π(w) ∝ |FᵀF|^{1/2}.

    F_ij = ∂f(x_i; w)/∂w_j over the training inputs; FᵀF/σ² is the information matrix of Gaussian
    noise of scale σ, whose own prior the likelihood has. The density is the same
    in any parametrisation of the network. It is improper (it has no finite integral, and no
    draws), depends on the inputs, is zero where units coincide or vanish, and the posterior may be
    improper as well: units far out in saturation are hardly ruled out. Starting points are
    N(0, 1); prior predictive checks mean nothing.

    Args:
        x: the training inputs (N, d), prepared as the model is given them; N at least the number
            of weights.
        activation: of the hidden layer, "tanh" or "sigmoid". With ReLU the information is not
            smooth.

    Raises:
        TypeError, ValueError: inputs that are not finite numbers, another activation; or (when the
            model runs) a network that is not of one hidden layer and one output, or has
            more weights than there are inputs.

    References:
        Lee (2004), Priors for neural networks; Jeffreys (1961), Theory of Probability, section
        3.10, for the rule, which is applied here to the regression function.
    """
    if activation not in _ACTIVATIONS:
        raise ValueError(
            f"Jeffreys's prior is for the activations {list(_ACTIVATIONS)}, not {activation!r}."
        )
    inputs = check_array(x, "x", float64=True).astype(float)
    return NetworkPrior(_Jeffreys(inputs.reshape(len(inputs), -1), activation))
