"""New noise of weights for each row of a layer: local reparameterisation and Flipout."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

from bayesnn_ppl.nn import Conv

__all__ = ["row_noise"]


@contextmanager
def row_noise(
    estimator: str, moments: Mapping[int, tuple[Any, Any, Any]], key: Any
) -> Iterator[set[int]]:
    r"""Let dense and convolutional layers of Flax Linen networks draw their weights row by row.

    Weights w = μ + σε that one draw shares among the rows of a minibatch make the rows' gradients
    vary together; drawn for each row they have the same expectation, because the bound is a sum
    over rows, and less variance.

        "local"    (x W)_j ~ N(Σ_i x_i μ_ij, Σ_i x_i² σ_ij²), independent for each row and unit
        "flipout"  x M + ((x ∘ s) Δ) ∘ r,  Δ = σ ∘ ε shared, signs s, r of each row

    The distribution of "local" is exact where a row enters a layer once, as a vector. Where it
    enters at many places (convolutions, sequences) the outputs share one draw of the weights and
    are not independent: such layers use Flipout, which is exact there too.

    Args:
        estimator: "local" or "flipout".
        moments: id of a parameter's sampled value -> (value, mean, standard deviation).
        key: of the noise.

    Yields:
        The ids of parameters that were drawn by row, once the network has run.

    Raises:
        ValueError: (when the model runs) a layer is called twice, so that its rows would meet
            two draws of its weights.

    References:
        Kingma et al. (2015), arXiv:1506.02557; Wen et al. (2018), arXiv:1803.04386.
    """
    from flax import linen

    linear = (linen.Dense, linen.Conv, Conv)
    used: set[int] = set()
    inside = False

    def intercept(call: Any, args: Any, options: Any, context: Any) -> Any:
        module = context.module
        if (
            inside
            or context.method_name != "__call__"
            or type(module) not in linear
            or len(args) != 1
        ):
            return call(*args, **options)
        if module.is_initializing():
            return call(*args, **options)
        own = module.variables["params"]
        kernel, bias = own["kernel"], own.get("bias")
        if id(kernel) not in moments:
            return call(*args, **options)
        if id(kernel) in used:
            raise ValueError(
                f"The layer `{'.'.join(module.path)}` is called more than once, with shared "
                f'weights. estimator="{estimator}" would draw them again at each call, which is '
                'another q. Use estimator="reparameterised".'
            )
        draw = jax.random.fold_in(key, len(used))
        used.update(id(part) for part in (kernel, bias) if id(part) in moments)
        unbound = module.clone(parent=None)

        def apply(kernel: Any, bias: Any, x: Any) -> Any:
            nonlocal inside
            parts = {"kernel": kernel} | ({} if bias is None else {"bias": bias})
            inside = True
            try:
                return unbound.apply({"params": parts}, x)
            finally:
                inside = False

        def part(value: Any, which: int) -> Any:
            """0: sampled minus mean, 1: mean, 2: sd; of a parameter without noise, its value."""
            if value is None:
                return None
            if id(value) not in moments:
                return value if which == 1 else jnp.zeros_like(value)
            sampled, mean, sd = moments[id(value)]
            return (sampled - mean, mean, sd)[which]

        (x,) = args
        centre = apply(part(kernel, 1), part(bias, 1), x)
        if estimator == "local" and x.ndim == 2:
            sd_bias = part(bias, 2)
            squares = None if bias is None else jnp.square(sd_bias)
            variance = apply(jnp.square(part(kernel, 2)), squares, jnp.square(x))
            # A row of zeros has no variance, and √ no derivative there.
            spread = jnp.sqrt(jnp.maximum(variance, jnp.finfo(variance.dtype).tiny))
            return centre + spread * jax.random.normal(draw, centre.shape, centre.dtype)
        into, out = (
            jax.random.rademacher(
                k, (a.shape[0], *[1] * (a.ndim - 2), a.shape[-1]), dtype=centre.dtype
            )
            for k, a in zip(jax.random.split(draw), (x, centre), strict=True)
        )
        return centre + apply(part(kernel, 0), part(bias, 0), x * into) * out

    with linen.intercept_methods(intercept):
        yield used
