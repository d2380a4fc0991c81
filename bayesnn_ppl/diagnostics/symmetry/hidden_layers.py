"""The hidden layers of a network, and which of their symmetries it has: found, not declared.

The layers are those that the network calls when it is traced. That they form a sequence, and which
moves of their units leave the function as it is, is tried on random weights in double precision:
a residual connection, a pool after tanh or an activation of another shape shows itself there.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.core.arguments import natural
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.diagnostics.symmetry.unit_moves import HiddenLayer, Weights, rearranged
from bayesnn_ppl.nn import Conv

__all__ = ["HiddenLayer", "find_hidden_layers", "parameter_shapes"]

_ROWS = 8
# Rounding stays below 1e-10; a move that is not a symmetry changes the outputs by a tenth or so.
_SAME = 1e-5

_ADVICE = (
    "Symmetries are known for plain sequences of dense and convolutional layers. Compare function "
    "values instead, which have none: `posterior.diagnose(x)`."
)


def parameter_shapes(network: Any, input_shape: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Dotted parameter name -> shape, of a Linen module on rows of `input_shape`.

    Raises:
        TypeError: `network` is not a Linen module.
        ValueError: it does not run on such rows.
    """
    return _traced(network, input_shape)[0]


def find_hidden_layers(network: Any, input_shape: Sequence[int]) -> tuple[HiddenLayer, ...]:
    """The hidden layers of a plain sequence of layers; () for a linear model.

    Between layers there may be operations that treat all units alike and have no parameters:
    activations, pools, flattening. A permutation is required to leave the function unchanged;
    scales and signs are tried, and noted where they do. The flip of a sigmoid, which moves the next
    layer's bias too, is not among them.

    Args:
        network: a Flax Linen module, such as `nn.MLP`.
        input_shape: of one row of its inputs.

    Raises:
        TypeError: `network` is not a Linen module.
        ValueError: it has other layers with parameters, shared weights, residual connections, or
            no nonlinearity between two layers; the sentence names the layer.

    References:
        Hecht-Nielsen (1990), On the algebraic structure of feedforward network weight spaces.
    """
    shapes, calls = _traced(network, input_shape)
    sequence = _sequence(network, shapes, calls)
    if len(sequence) < 2:
        return ()
    trial = _Trial(network, shapes, input_shape)
    return tuple(trial.layer(name, following) for name, following in pairwise(sequence))


def _traced(
    network: Any, input_shape: Sequence[int]
) -> tuple[dict[str, tuple[int, ...]], list[tuple[str, type]]]:
    """Shapes of the parameters, and the modules in the order of their calls."""
    from flax import linen
    from flax.traverse_util import flatten_dict

    if not isinstance(network, linen.Module):
        raise TypeError(
            f"The network must be a Flax Linen module, not {type(network).__name__}: only in those "
            "are layers found. Compare function values instead: `posterior.diagnose(x)`."
        )
    calls: list[tuple[str, type]] = []

    def record(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        if context.method_name == "__call__":
            calls.append((".".join(context.module.path), type(context.module)))
        return call(*args, **kwargs)

    row = jax.ShapeDtypeStruct((1, *input_shape), np.float32)
    try:
        with linen.intercept_methods(record):
            variables = jax.eval_shape(lambda x: network.init(jax.random.key(0), x), row)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The network {type(network).__name__} does not take rows of decimal numbers of shape "
            f"{tuple(input_shape)}: {error} {_ADVICE}"
        ) from error
    params = flatten_dict(variables.get("params", {}), sep=".")
    return {name: tuple(leaf.shape) for name, leaf in params.items()}, calls


def _sequence(
    network: Any, shapes: Mapping[str, tuple[int, ...]], calls: Sequence[tuple[str, type]]
) -> list[str]:
    """The layers with parameters in the order of their calls, all of a kind that is understood."""
    from flax import linen

    owners = {name.rpartition(".")[0] for name in shapes}
    times = Counter(path for path, _ in calls)
    kinds = dict(calls)
    for owner in natural(owners):
        kind = kinds.get(owner)
        if kind not in (linen.Dense, linen.Conv, Conv):
            what = (
                f"its layer `{owner}` is a {getattr(kind, '__name__', 'layer of an unknown kind')}"
                if owner
                else "it has parameters of its own, outside its layers"
            )
            raise ValueError(
                f"The symmetries of the network {type(network).__name__} are not understood: "
                f"{what}. {_ADVICE}"
            )
        if times[owner] > 1:
            raise ValueError(
                f"The symmetries of the network {type(network).__name__} are not understood: its "
                f"layer `{owner}` is used {times[owner]} times, with shared weights. {_ADVICE}"
            )
    return [path for path in times if path in owners]


class _Trial:
    """A network with random weights, on which moves of units are tried."""

    def __init__(
        self, network: Any, shapes: Mapping[str, tuple[int, ...]], input_shape: Sequence[int]
    ) -> None:
        self._network = network
        generator = np.random.default_rng(0)
        self._weights = {
            name: generator.normal(size=(1, *shape)) / np.sqrt(prod(shape[:-1]))
            for name, shape in shapes.items()
        }
        self._x = generator.normal(size=(_ROWS, *input_shape))
        self._generator = generator
        self._apply = jax.jit(network.apply)
        self._outputs = self._function(self._weights)
        self._spread = float(np.std(self._outputs))
        if not self._spread > 0:
            raise ValueError(
                f"The network {type(network).__name__} has the same outputs for all inputs, "
                f"whatever its weights: there is nothing to tell its symmetries by. {_ADVICE}"
            )

    def _function(self, weights: Weights) -> NDArray[np.float64]:
        from flax.traverse_util import unflatten_dict

        tree = unflatten_dict({name: array[0] for name, array in weights.items()}, sep=".")
        with arithmetic(float64=True):
            return np.asarray(self._apply({"params": tree}, self._x), dtype=float)

    def _unchanged(self, layer: HiddenLayer, order: Any, factor: Any) -> bool:
        moved = rearranged(self._weights, layer, order=order[None], factor=factor[None])
        return bool(np.abs(self._function(moved) - self._outputs).max() <= _SAME * self._spread)

    def layer(self, name: str, following: str) -> HiddenLayer:
        """The hidden layer `name`, which the layer `following` reads."""
        units = self._weights[f"{name}.kernel"].shape[-1]
        kernel = self._weights[f"{following}.kernel"][0]
        incoming = tuple(p for p in self._weights if p.rpartition(".")[0] == name)
        plain = HiddenLayer(name, units, incoming, f"{following}.kernel", False, False)
        still, ones = np.arange(units), np.ones(units)
        order = self._generator.permutation(units)
        order = np.roll(order, 1) if np.array_equal(order, still) else order
        readable = (
            kernel.shape[-2] == units if kernel.ndim > 2 else prod(kernel.shape[:-1]) % units == 0
        )
        if not readable or not self._unchanged(plain, order, ones):
            raise ValueError(
                f"The symmetries of the network {type(self._network).__name__} are not understood: "
                f"its function changes when units of `{name}` are permuted together with the "
                f"inputs of `{following}`, so more connects them than one following the "
                f"other, such as a residual connection. {_ADVICE}"
            )
        factor = np.exp(self._generator.uniform(0.2, 0.7, units))
        flips = np.where(self._generator.random(units) < 0.5, -1.0, 1.0)
        flips[0] = -1.0
        scales = self._unchanged(plain, still, factor)
        signs = self._unchanged(plain, still, flips)
        if scales and signs:
            raise ValueError(
                f"There is no nonlinearity between `{name}` and `{following}` of the network "
                f"{type(self._network).__name__}: any invertible matrix could be moved from one to "
                "the other, and permutations, scales and signs give no canonical form. Make them "
                "one layer, or compare function values: `posterior.diagnose(x)`."
            )
        return HiddenLayer(name, units, incoming, plain.outgoing, scales, signs)
