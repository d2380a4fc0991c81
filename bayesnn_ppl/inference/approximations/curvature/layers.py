"""The Flax layers that a model calls: which there are, their inputs, and gradients at them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bayesnn_ppl.nn import Conv

__all__ = ["Call", "NetworkCalls", "layer_input", "layers_watched", "network_calls"]


@dataclass(frozen=True)
class Call:
    """One call of a module that has parameters of its own.

    Attributes:
        path: of the module, such as `Dense_0`.
        kind: "dense", "conv" or, for all others, the name of the class.
        window: of a convolution: its size, strides and padding.
    """

    path: str
    kind: str
    window: tuple[Any, ...] = ()


@dataclass(frozen=True)
class NetworkCalls:
    """What a model's run showed of its networks.

    Attributes:
        networks: how many calls of a Flax Linen network there were.
        hidden: whether one was inside another transformation of JAX, which values must not leave.
        calls: of layers with parameters, in their order.
    """

    networks: int
    hidden: bool
    calls: tuple[Call, ...]

    @property
    def readable(self) -> bool:
        """Whether there is one network, whose inputs and outputs can be read."""
        return self.networks == 1 and not self.hidden


def network_calls(run: Callable[[], Any]) -> NetworkCalls:
    """Run a model on shapes, and note the networks and layers that it calls."""
    from flax import linen
    from flax.core.tracers import current_trace

    networks = 0
    hidden = False
    calls: list[Call] = []

    def traced() -> None:
        outside = current_trace()

        def note(call: Any, args: Any, options: Any, context: Any) -> Any:
            nonlocal networks, hidden
            module = context.module
            if context.method_name == "__call__" and not module.is_initializing():
                networks += not module.path
                hidden |= current_trace() != outside
                own = module.variables.get("params", {}).values()
                if any(not isinstance(value, Mapping) for value in own):
                    calls.append(_described(module, ".".join(module.path)))
            return call(*args, **options)

        with linen.intercept_methods(note):
            run()

    jax.eval_shape(traced)
    return NetworkCalls(networks, hidden, tuple(calls))


def _described(module: Any, path: str) -> Call:
    from flax import linen

    if type(module) is linen.Dense:
        return Call(path, "dense")
    if type(module) is Conv or (type(module) is linen.Conv and _plain(module)):
        size: Any = module.kernel_size
        size = (size,) if isinstance(size, int) else tuple(size)
        strides: Any = 1 if module.strides is None else module.strides
        strides = (strides,) * len(size) if isinstance(strides, int) else tuple(strides)
        padding: Any = module.padding
        if not isinstance(padding, str):
            padding = tuple(tuple(pair) for pair in padding)
        return Call(path, "conv", (size, strides, padding))
    return Call(path, type(module).__name__)


def _plain(module: Any) -> bool:
    """Whether one of Flax's convolutions has no groups, dilation, mask or unusual padding."""
    plain_padding = module.padding in ("SAME", "VALID") or (
        not isinstance(module.padding, str | int)
        and all(not isinstance(pair, int) for pair in module.padding)
    )
    dilations = (module.input_dilation, module.kernel_dilation)
    return (
        plain_padding
        and module.feature_group_count == 1
        and module.mask is None
        and all(np.all(np.asarray(1 if d is None else d) == 1) for d in dilations)
    )


def layer_input(call: Call, x: Any) -> Any:
    """What a layer's kernel, as a matrix (in, out), multiplies: shape (B, T, in).

    T counts the places where the same kernel is used: pixels of a convolution's output, or axes
    between rows and features of a dense layer's input.
    """
    if call.kind == "dense":
        return x.reshape(x.shape[0], -1, x.shape[-1])
    size, strides, padding = call.window
    letters = "NHWC"[: len(size) + 1] + "C" if len(size) == 1 else "NHWC"
    kernel = "HIO" if len(size) == 1 else "HWIO"
    patches = jax.lax.conv_general_dilated_patches(
        x, size, strides, padding, dimension_numbers=(letters, kernel, letters)
    )
    # The channel comes first in a patch, and last but one in a kernel.
    patches = patches.reshape(x.shape[0], -1, x.shape[-1], patches.shape[-1] // x.shape[-1])
    return patches.swapaxes(-1, -2).reshape(x.shape[0], patches.shape[1], -1)


@contextmanager
def layers_watched(
    paths: tuple[str, ...], shifts: Mapping[str, Any] | None = None
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Collect inputs and outputs of layers; add `shifts`, by path, to their outputs."""
    from flax import linen

    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}

    def watch(call: Any, args: Any, options: Any, context: Any) -> Any:
        module = context.module
        path = ".".join(module.path)
        result = call(*args, **options)
        if context.method_name != "__call__" or path not in paths or module.is_initializing():
            return result
        inputs[path] = args[0]
        outputs[path] = result
        return result if shifts is None else result + shifts[path]

    with linen.intercept_methods(watch):
        yield inputs, outputs
