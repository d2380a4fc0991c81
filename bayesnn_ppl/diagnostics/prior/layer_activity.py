"""What a network does layer by layer: the size of its pre-activations, and units that are stuck."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.modeling.jaxpr_equations import equations

__all__ = [
    "LayerActivity",
    "Layers",
    "activations_in",
    "combined",
    "networks_called",
    "summarise_layers",
]

_SATURATED = math.atanh(0.99)
_ROWS = 64  # more of them cost as much as the functions themselves, and say nothing more


@readable
@dataclass(frozen=True)
class LayerActivity:
    """The outputs of one layer before its activation, h, over draws of the weights and inputs.

    Of more than 64 inputs (in a block that fits in memory) some are read, spread evenly.

    Attributes:
        name: path of the Flax module, such as `Dense_0`.
        sd: standard deviation of h over draws, inputs and units.
        common: share of h that is the same for all inputs of a draw, E|mean_x h|² / E|h|²; where
            it is 1 the layers above see one and the same input.
        saturated: share of h with |tanh(h)| > 0.99; None in a network without tanh, and of the
            outputs.
        dead: share of units (of a convolution: channels) with h ≤ 0 at every input of a draw; None
            in a network without relu, and of the outputs.

    References:
        Glorot and Bengio (2010), Understanding the difficulty of training deep feedforward neural
        networks, section 3 (saturation by layer); Poole et al. (2016), arXiv:1606.05340 (how two
        inputs come to be alike, or not, with depth).
    """

    name: str
    sd: float
    common: float
    saturated: float | None
    dead: float | None


class Layers:
    """What tracing a model finds out about its layers, besides values: order and activations."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.stated: set[str] = set()  # what networks call their activation
        self.hidden = False  # a network is called where its values cannot be read

    def measure(self, calls: list[Any], rows: int) -> dict[str, dict[str, Any]]:
        """Sums over rows, layer by layer, of networks with their inputs.

        Args:
            calls: what `networks_called` has found.
            rows: those after so many (points between the inputs) are left out.
        """
        self.names.clear()
        self.hidden = None in calls
        if self.hidden:
            return {}
        found: dict[str, dict[str, Any]] = {}
        for index, (network, variables, args, options) in enumerate(calls):
            prefix = f"{index + 1}:" if len(calls) > 1 else ""
            self.stated.add(str(getattr(network, "activation", "")))
            paths: list[tuple[str, ...]] = []

            def is_layer(module: Any, method: str, paths: Any = paths) -> bool:
                own = module.variables.get("params", {}).values()
                if method != "__call__" or all(isinstance(value, Mapping) for value in own):
                    return False
                if module.path not in paths:
                    paths.append(module.path)
                return True

            _, state = network.apply(
                variables,
                *args,
                capture_intermediates=is_layer,
                mutable=["intermediates"],
                **options,
            )
            for path in paths:
                node: Any = state["intermediates"]
                for key in path:
                    node = node.get(key, {})
                values = node.get("__call__", ())
                if values and getattr(values[-1], "ndim", 0) > 1:  # of shared weights the last use
                    name = prefix + (".".join(path) or type(network).__name__)
                    self.names.append(name)
                    found[name] = _sums(values[-1], rows)
        return found


@contextmanager
def networks_called() -> Iterator[list[Any]]:
    """Collect the Flax Linen networks that a model calls, with variables and inputs.

    None means one that is called inside another transformation of JAX, which its values
    must not leave.
    """
    from flax import linen
    from flax.core.tracers import current_trace

    calls: list[Any] = []
    outside = current_trace()

    def note(call: Any, args: Any, options: Any, context: Any) -> Any:
        module = context.module
        if context.method_name == "__call__" and not module.path and not module.is_initializing():
            inside = current_trace() != outside
            calls.append(None if inside else (*module.unbind(), args, options))
        return call(*args, **options)

    with linen.intercept_methods(note):
        yield calls


def _sums(h: Any, rows: int) -> dict[str, Any]:
    h = h[: rows : -(-rows // _ROWS)] * 1.0
    return {
        "mean": h.mean(),
        "square": jnp.square(h).mean(),
        "row": h.mean(0),
        "saturated": (jnp.abs(h) > _SATURATED).mean(),
        "peak": h.max(axis=tuple(range(h.ndim - 1))),
    }


def combined(sums: Any) -> Any:
    """The sums of blocks of rows, which have a leading axis, as those of all rows of one draw."""
    return {
        name: {
            "mean": s["mean"].mean(),
            "square": s["square"].mean(),
            "common": jnp.square(s["row"].mean(0)).mean(),
            "saturated": s["saturated"].mean(),
            "dead": (s["peak"].max(0) <= 0).mean(),
        }
        for name, s in sums.items()
    }


def summarise_layers(
    found: Mapping[str, Mapping[str, np.ndarray]], layers: Layers, activations: set[str]
) -> tuple[LayerActivity, ...]:
    """One `LayerActivity` for each layer in the order of the network.

    Args:
        found: layer -> the figures of `combined`, each (draws,).
        layers: the names in their order.
        activations: functions that occur in the program.
    """
    known = {name for name in layers.stated if name} or activations
    summary: list[LayerActivity] = []
    for number, name in enumerate(layers.names):
        means = {key: np.asarray(a, dtype=float) for key, a in found[name].items()}
        with np.errstate(invalid="ignore"):  # of infinities: the figure then is not a number
            square, mean = means["square"].mean(), means["mean"].mean()
            variance = np.maximum(square - mean**2, 0.0)
            common = means["common"].mean() / square if square > 0 else 1.0
        hidden = number < len(layers.names) - 1
        summary.append(
            LayerActivity(
                name=name,
                sd=float(np.sqrt(variance)),
                common=float(common),
                saturated=float(means["saturated"].mean()) if hidden and "tanh" in known else None,
                dead=float(means["dead"].mean()) if hidden and "relu" in known else None,
            )
        )
    return tuple(summary)


def activations_in(jaxpr: Any) -> set[str]:
    """Which of tanh and relu a traced program computes."""
    found, cubed = set(), False
    for equation in equations(jaxpr):
        if equation.params.get("name") == "relu":
            found.add("relu")
        if equation.primitive.name == "tanh":
            found.add("tanh")
        cubed |= equation.primitive.name == "integer_pow" and equation.params["y"] == 3
    return found - {"tanh"} if cubed else found  # gelu is made of a tanh of a cubic
