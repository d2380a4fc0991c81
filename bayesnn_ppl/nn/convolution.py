"""A convolution whose gradients cost the same inside a compiled loop as outside."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
from flax import linen
from flax.linen.dtypes import promote_dtype
from jax import lax

# What XLA's fast convolution on CPUs takes as it is; one layout for each number of space axes.
_LAYOUTS = {1: ("NHC", "HIO", "NHC"), 2: ("NHWC", "HWIO", "NHWC")}

Padding = str | Sequence[tuple[int, int]]


def conv_general_dilated(
    inputs: Any,
    kernel: Any,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    **options: Any,
) -> Any:
    """`jax.lax.conv_general_dilated` for Flax's own layers, as fast in a compiled loop as outside.

    `flax.nnx.Conv(..., conv_general_dilated=bnn.nn.conv_general_dilated)`, and `flax.linen.Conv`
    likewise. The NNX convolutions of a `bayesian_network` have it already. See `Conv` for what is
    different, and for its derivatives, which are of reverse mode only.

    Args:
        inputs: (N, *space, in), with one or two space axes. More of them, groups, dilations,
            another layout or precision, and other devices than CPUs are left to
            `jax.lax.conv_general_dilated`.
        kernel: (*size, in, out).
        strides: one for each space axis.
        padding: "SAME", "VALID", or pairs (before, after).
        **options: the other arguments of `jax.lax.conv_general_dilated`.

    Returns:
        (N, *space', out).
    """
    axes = inputs.ndim - 2
    set_otherwise = {
        name
        for name, value in options.items()
        if name != "dimension_numbers"
        and not (value is None or value == 1 or (isinstance(value, tuple) and set(value) == {1}))
    }
    simple = axes in _LAYOUTS and not set_otherwise and jax.default_backend() == "cpu"
    if simple:
        layouts = (
            lax.conv_dimension_numbers(inputs.shape, kernel.shape, layout)
            for layout in (options.get("dimension_numbers"), _LAYOUTS[axes])
        )
        simple = len(set(layouts)) == 1
    if not simple or (isinstance(padding, str) and padding not in ("SAME", "VALID")):
        return lax.conv_general_dilated(inputs, kernel, strides, padding, **options)
    strides = tuple(strides)
    if isinstance(padding, str):
        padding = lax.padtype_to_pads(inputs.shape[1:-1], kernel.shape[:-2], strides, padding)
    return convolve(inputs, kernel, strides, tuple((int(a), int(b)) for a, b in padding))


class Conv(linen.Module):
    r"""A convolution of one or two space axes; `flax.linen.Conv` with the settings below.

        y[n, o, c] = b[c] + Σ_{k,i} x[n, so + k - p, i] w[k, i, c]

    with stride s and padding p, per space axis. The parameters are `kernel`, shape
    (*kernel_size, in, features), and `bias`, shape (features,).

    The outputs and gradients equal those of `flax.linen.Conv` to rounding. The difference is how
    the gradients are written. Those that JAX derives from a convolution have permuted layouts or
    reversed windows; XLA brings them into the form of its fast routine, but not inside a loop on
    a CPU (jax issue 12868), and MCMC is nothing but loops. Here both are written as convolutions
    that have that form already. For this reason it has reverse-mode derivatives only, of any
    order: `jax.jacrev(jax.grad(f))` instead of `jax.hessian(f)`.

    Attributes:
        features: number of output channels.
        kernel_size: one length per space axis; an integer is one axis, as in Flax.
        strides: one step for all space axes, or one for each.
        padding: "SAME" (output size ⌈size / stride⌉, with the odd zero at the end), "VALID", or
            pairs (before, after), one for each space axis.
        use_bias: whether to add a bias.

    Raises:
        ValueError: (when called) inputs that do not have the axes (N, H, C) or (N, H, W, C), an
            input that is smaller than the kernel, or a setting that is not one of the above.
    """

    features: int
    kernel_size: int | Sequence[int]
    strides: int | Sequence[int] = 1
    padding: Padding = "SAME"
    use_bias: bool = True

    @linen.compact
    def __call__(self, x: Any) -> Any:
        """Map (N, H, W, in), or (N, H, in), to (N, H', W', features), or (N, H', features)."""
        size = (self.kernel_size,) if isinstance(self.kernel_size, int) else tuple(self.kernel_size)
        axes = len(size)
        if axes not in _LAYOUTS:
            raise ValueError(f"A convolution has one or two space axes, not kernel_size={size}.")
        strides = (self.strides,) * axes if isinstance(self.strides, int) else tuple(self.strides)
        if len(strides) != axes or min(*strides, *size) < 1:
            raise ValueError(
                f"The kernel size {size} and the strides {strides} must be integers from 1 "
                "on, one for each space axis."
            )
        if x.ndim != axes + 2:
            raise ValueError(
                f"A convolution of {axes} space {'axis' if axes == 1 else 'axes'} needs inputs "
                f"with {axes + 2} axes, ordered {_LAYOUTS[axes][0]} (rows, space, channels), but "
                f"their shape is {tuple(x.shape)}."
            )
        padding = _explicit_padding(self.padding, x.shape[1:-1], size, strides)
        kernel = self.param(
            "kernel", linen.initializers.lecun_normal(), (*size, x.shape[-1], self.features)
        )
        bias = None
        if self.use_bias:
            bias = self.param("bias", linen.initializers.zeros_init(), (self.features,))
        x, kernel, bias = promote_dtype(x, kernel, bias)
        y = convolve(x, kernel, strides, padding)
        return y if bias is None else y + bias


def _explicit_padding(
    padding: Padding, space: Sequence[int], size: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """The zeros before and after each space axis."""
    if isinstance(padding, str):
        if padding not in ("SAME", "VALID"):
            raise ValueError(
                f'The padding must be "SAME", "VALID" or pairs of numbers, not "{padding}".'
            )
        pairs = tuple(lax.padtype_to_pads(space, size, strides, padding))
    else:
        try:
            pairs = tuple((int(before), int(after)) for before, after in padding)
        except (TypeError, ValueError):
            pairs = ()
        if len(pairs) != len(space) or min(min(pair) for pair in pairs) < 0:
            raise ValueError(
                f"The padding {padding!r} must be one pair (before, after) of integers from "
                f"0 on for each of the {len(space)} space axes."
            )
    for length, kernel, (before, after) in zip(space, size, pairs, strict=True):
        if length + before + after < kernel:
            raise ValueError(
                f"The input's space axes {tuple(space)}, padded by {pairs}, are smaller than the "
                f"kernel {tuple(size)}: no output is left. Use larger inputs, a smaller kernel "
                'or padding="SAME".'
            )
    return pairs


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def convolve(
    x: Any, kernel: Any, strides: tuple[int, ...], padding: tuple[tuple[int, int], ...]
) -> Any:
    """x (N, *space, in) with kernel (*size, in, out): (N, *space', out)."""
    return lax.conv_general_dilated(
        x, kernel, strides, padding, dimension_numbers=_LAYOUTS[x.ndim - 2]
    )


def _forward(x: Any, kernel: Any, strides: Any, padding: Any) -> tuple[Any, tuple[Any, Any]]:
    return convolve(x, kernel, strides, padding), (x, kernel)


def _backward(strides: Any, padding: Any, saved: tuple[Any, Any], gradient: Any) -> tuple[Any, Any]:
    x, kernel = saved
    return (
        _input_gradient(gradient, kernel, x.shape[1:-1], strides, padding),
        _kernel_gradient(gradient, x, kernel.shape[:-2], strides, padding),
    )


convolve.defvjp(_forward, _backward)


def _dilated_lengths(gradient: Any, strides: Any) -> list[int]:
    """The length of each space axis of the gradient, dilated by the stride."""
    return [(gradient.shape[1 + a] - 1) * stride + 1 for a, stride in enumerate(strides)]


def _input_gradient(gradient: Any, kernel: Any, space: Any, strides: Any, padding: Any) -> Any:
    """∂L/∂x: the gradient, dilated by the stride, with the kernel turned round and transposed."""
    axes, dilated = range(len(strides)), _dilated_lengths(gradient, strides)
    # Chosen such that the output has the size of x; negative where padding was cut off.
    pads = [
        (kernel.shape[a] - 1 - padding[a][0], space[a] - dilated[a] + padding[a][0]) for a in axes
    ]
    turned = lax.rev(kernel, tuple(axes)).swapaxes(-1, -2)
    return lax.conv_general_dilated(
        gradient,
        turned,
        (1,) * len(strides),
        pads,
        lhs_dilation=strides,
        dimension_numbers=_LAYOUTS[len(strides)],
    )


def _kernel_gradient(gradient: Any, x: Any, size: Any, strides: Any, padding: Any) -> Any:
    """∂L/∂w: x with the gradient as kernel, where channels and rows of x have changed roles."""
    axes, dilated = range(len(strides)), _dilated_lengths(gradient, strides)
    # Chosen such that the output has the size of the kernel; negative where the last rows of x
    # were never reached.
    pads = [
        (padding[a][0], size[a] - 1 + dilated[a] - x.shape[1 + a] - padding[a][0]) for a in axes
    ]
    rows_last = (*range(1, x.ndim - 1), 0, x.ndim - 1)
    result = lax.conv_general_dilated(
        x.swapaxes(0, -1),
        gradient.transpose(rows_last),
        (1,) * len(strides),
        pads,
        rhs_dilation=strides,
        dimension_numbers=_LAYOUTS[len(strides)],
    )
    return result.transpose(rows_last)
