"""A model whose last layer is a Gaussian process, and whose hidden kernels are bounded."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers

from bayesnn_ppl.inference.approximations.trained_networks.dropout_model import find_layers
from bayesnn_ppl.modeling.dropout_layers import layer_called
from bayesnn_ppl.modeling.temperature import Model

__all__ = ["WEIGHTS", "SNGPProgram", "spectral_norm", "with_features"]

WEIGHTS = "features/kernel"  # the site of β
_ROUNDS = 40  # of the power iteration: within a hundredth for random kernels


@dataclass(frozen=True)
class SNGPProgram:
    """`model` with bounded hidden layers and random features before its last one; see `SNGP`.

    Attributes:
        model: the NumPyro model.
        hidden: names of the layers whose kernels are bounded.
        last: name of the layer that is replaced.
        unused: the sites of its parameters, which are not part of the model any more.
        projection, phase: Ω (inputs, D) and b (D,) of the features sqrt(2/D) cos(hΩ + b).
        outputs: of the last layer.
        scale: s, prior standard deviation of the function's values.
        bound: c, the largest spectral norm of a hidden kernel.
    """

    model: Model
    hidden: tuple[str, ...]
    last: str
    unused: tuple[tuple[str, tuple[int, ...]], ...]
    projection: np.ndarray
    phase: np.ndarray
    outputs: int
    scale: float
    bound: float

    def __call__(self, x: Any, y: Any = None, **options: Any) -> Any:
        from flax import linen

        shape = (len(self.phase), self.outputs)
        weights = numpyro.sample(WEIGHTS, dist.Normal(0.0, self.scale).expand(shape).to_event())

        def replace(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
            name = layer_called(args, context)
            if name == self.last:
                return self._features(args[0]) @ weights
            outputs = call(*args, **kwargs)
            if name not in self.hidden:
                return outputs
            parameters = context.module.variables["params"]
            factor = self.bound / jnp.maximum(self.bound, spectral_norm(parameters["kernel"]))
            # Of the kernel times the factor: the bias is left as it is.
            return factor * outputs + (1 - factor) * parameters.get("bias", 0.0)

        known = dict(self.unused)
        zeros = {name: jnp.zeros(shape) for name, shape in known.items()}
        with (
            handlers.block(hide_fn=lambda site: site.get("name") in known),
            handlers.substitute(data=zeros),
            linen.intercept_methods(replace),
        ):
            return self.model(x, y, **options)

    def _features(self, hidden: Any) -> Any:
        wave = jnp.cos(hidden @ self.projection.astype(hidden.dtype) + self.phase)
        return jnp.sqrt(2 / len(self.phase)).astype(hidden.dtype) * wave.astype(hidden.dtype)


def spectral_norm(kernel: Any) -> Any:
    """The largest singular value of a kernel (..., in, out) as a matrix (everything else, out)."""
    matrix = kernel.reshape(-1, kernel.shape[-1])
    fixed = jax.lax.stop_gradient(matrix)
    tiny = jnp.finfo(matrix.dtype).tiny

    def unit(vector: Any) -> Any:
        return vector / jnp.maximum(jnp.linalg.norm(vector), tiny)

    # A start that no symmetry of a kernel makes orthogonal to the first singular vector.
    right = unit(jnp.cos(jnp.arange(1.0, matrix.shape[1] + 1)).astype(matrix.dtype))
    right = jax.lax.fori_loop(0, _ROUNDS, lambda _, v: unit(unit(fixed @ v) @ fixed), right)
    return jnp.maximum(unit(fixed @ right) @ matrix @ right, tiny)


def with_features(
    model: Model,
    shapes: Any,
    x: Any,
    y: Any,
    *,
    features: int,
    length_scale: float | None,
    scale: float,
    bound: float,
    seed: int,
) -> SNGPProgram:
    """The model, with features drawn by `seed`.

    Args:
        model: the NumPyro model.
        shapes: of its latent sites.
        x, y: the data.
        features: D.
        length_scale: ℓ of the squared exponential kernel; None for the root of the inputs' number.
        scale, bound, seed: see `SNGPProgram`.

    Raises:
        ValueError: as of `find_layers`; or the last layer called is not a dense one.
    """
    layers = find_layers(model, shapes, x, y)
    last = layers[-1]
    kernel = shapes[last.site]
    if len(kernel) != 2:
        raise ValueError(
            f"The last layer called, `{last.name}`, is a convolution, and SNGP puts a Gaussian "
            "process in the place of a dense one."
        )
    bias = last.site.removesuffix("kernel") + "bias"
    unused = {name: tuple(shapes[name]) for name in (last.site, bias) if name in shapes}
    generator = np.random.default_rng([seed, 0x534E_4750])
    length_scale = float(np.sqrt(last.inputs)) if length_scale is None else length_scale
    return SNGPProgram(
        model,
        tuple(layer.name for layer in layers[:-1]),
        last.name,
        tuple(unused.items()),
        generator.normal(size=(last.inputs, features)) / length_scale,
        generator.uniform(0, 2 * np.pi, size=features),
        kernel[1],
        scale,
        bound,
    )
