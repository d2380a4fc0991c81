"""Programs whose network is replaced by its first-order expansion in the weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers

from bayesnn_ppl.identity import describe

__all__ = ["Linearised", "linearised_at"]


@dataclass(frozen=True)
class Linearised:
    r"""A program whose network f(x, θ) is f(x, θ*) + J(x)(θ - θ*); made by `linearised_at`.

    Attributes:
        model: the program.
        parameters: θ*, dotted name of the network's parameter -> value.
        forward: whether the network has forward-mode derivatives; otherwise J v is the
            transpose of v ↦ Jᵀv, at a half more.
    """

    model: Any
    parameters: Mapping[str, Any]
    forward: bool = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from flax import linen
        from flax.traverse_util import unflatten_dict

        centre = unflatten_dict({k: jnp.asarray(v) for k, v in self.parameters.items()}, sep=".")
        inside = False

        def expand(call: Any, inputs: Any, options: Any, context: Any) -> Any:
            nonlocal inside
            module = context.module
            if (
                inside
                or context.method_name != "__call__"
                or module.path
                or module.is_initializing()
            ):
                return call(*inputs, **options)
            network, variables = module.unbind()

            def output(params: Any) -> Any:
                return network.apply({**variables, "params": params}, *inputs, **options)

            inside = True
            try:
                return _expanded(output, centre, variables["params"], forward=self.forward)
            finally:
                inside = False

        with linen.intercept_methods(expand):
            return self.model(*args, **kwargs)


def _expanded(output: Any, centre: Any, params: Any, *, forward: bool) -> Any:
    """output(centre) plus its derivative in the direction of params."""
    step = jax.tree.map(lambda new, old: new - old.astype(new.dtype), params, centre)
    centre = jax.tree.map(lambda old, new: old.astype(new.dtype), centre, params)
    if forward:
        value, slope = jax.jvp(output, (centre,), (step,))
    else:
        value, back = jax.vjp(output, centre)
        slope = jax.vjp(lambda c: back(c)[0], jnp.zeros_like(value))[1](step)[0]
    return value + slope


def linearised_at(model: Any, values: Mapping[str, Any], x: Any) -> Linearised:
    """The program with its network expanded to first order around values of all latent sites.

    Args:
        model: the program, which calls one Linen network.
        values: latent site -> value θ*, in the program's space.
        x: inputs, to find the network by.

    Raises:
        ValueError: it does not call one Flax Linen network, or calls it where its values cannot
            be read.
    """
    from flax import linen
    from flax.core.tracers import current_trace
    from flax.traverse_util import flatten_dict

    found: list[Any] = []
    forward = True

    def run(values: Any, x: Any) -> Any:
        nonlocal forward
        found.clear()
        outside = current_trace()
        depth = 0

        def note(call: Any, inputs: Any, options: Any, context: Any) -> Any:
            nonlocal forward, depth
            module = context.module
            top = not module.path and context.method_name == "__call__"
            if depth or not top or module.is_initializing():
                return call(*inputs, **options)
            readable = current_trace() == outside
            network, variables = module.unbind()
            found.append(variables["params"] if readable else None)
            depth += 1
            forward = _has_forward_mode(
                lambda p: network.apply({**variables, "params": p}, *inputs, **options),
                variables["params"],
            )
            depth -= 1
            return call(*inputs, **options)

        with linen.intercept_methods(note):
            substituted = handlers.substitute(model, data=dict(values))
            handlers.seed(substituted, jax.random.key(0))(x)
        return found[0] if len(found) == 1 and found[0] is not None else {}

    parameters = jax.device_get(jax.jit(run)(dict(values), x[:1]))
    if len(found) != 1 or found[0] is None:
        what = "inside another transformation of JAX" if found == [None] else f"{len(found)} times"
        raise ValueError(
            "A program is linearised in the weights of its one Flax Linen network, but "
            f'{describe(model)} calls a network {what}. Use `predictive="sampled"`.'
        )
    flat = flatten_dict(parameters, sep=".")
    return Linearised(model, {k: np.asarray(v) for k, v in flat.items()}, forward)


def _has_forward_mode(output: Any, params: Any) -> bool:
    """False where a `custom_vjp` is on the way, as in `nn.Conv`: JAX finds out when it compiles."""
    jaxpr = jax.make_jaxpr(lambda p, v: jax.jvp(output, (p,), (v,))[1])(params, params)
    return "custom_lin" not in str(jaxpr)
