"""Models whose network is replaced by its first-order expansion in the weights."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers

from bayesnn_ppl.core.identity import describe


@dataclass(frozen=True)
class Linearised:
    r"""A model whose network f(x, θ) is f(x, θ*) + J(x)(θ - θ*); made by `linearised_at`.

    Attributes:
        model: the NumPyro model.
        parameters: θ*, dotted name of the network's parameter -> value.
        forward: whether the network has forward-mode derivatives in those that move; otherwise
            J v is the transpose of v ↦ Jᵀv, at a half more, and through a recurrent layer at a
            hundred times as much.
        moving: names of the parameters that differ from θ*; the others are left at it.
    """

    model: Any
    parameters: Mapping[str, Any]
    forward: bool
    moving: tuple[str, ...]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from flax import linen
        from flax.traverse_util import flatten_dict, unflatten_dict

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
            drawn = flatten_dict(variables["params"], sep=".")
            centre = {k: jnp.asarray(v, drawn[k].dtype) for k, v in self.parameters.items()}

            def output(moved: Any) -> Any:
                params = unflatten_dict(centre | moved, sep=".")
                return network.apply({**variables, "params": params}, *inputs, **options)

            inside = True
            try:
                chosen = {k: drawn[k] for k in self.moving}
                return _expanded(output, {k: centre[k] for k in chosen}, chosen, self.forward)
            finally:
                inside = False

        with linen.intercept_methods(expand):
            return self.model(*args, **kwargs)


def _expanded(output: Any, centre: Any, params: Any, forward: bool) -> Any:
    """output(centre) plus its derivative in the direction of params."""
    step = jax.tree.map(jnp.subtract, params, centre)
    if forward:
        value, slope = jax.jvp(output, (centre,), (step,))
    else:
        value, back = jax.vjp(output, centre)
        slope = jax.vjp(lambda c: back(c)[0], jnp.zeros_like(value))[1](step)[0]
    return value + slope


def linearised_at(
    model: Any, values: Mapping[str, Any], x: Any, moving: Collection[str] | None = None
) -> Linearised:
    """The model with its network expanded to first order around values of all latent sites.

    Args:
        model: the NumPyro model, which calls one Linen network.
        values: latent site -> value θ*, in the model's space.
        x: inputs, to find the network by.
        moving: latent sites that will have other values; None for all.
    """
    parameters = _network_parameters(model, values, x)
    moved = tuple(parameters)
    if moving is not None:
        # What is not a number there is not a number in the parameters that depend on it.
        marked = {k: np.full_like(v, np.nan) if k in moving else v for k, v in values.items()}
        found = _network_parameters(model, marked, x)
        moved = tuple(name for name, value in found.items() if np.isnan(value).any())
    forward = _has_forward_mode(Linearised(model, parameters, True, moved), values, x)
    return Linearised(model, parameters, forward, moved)


def _network_parameters(model: Any, values: Mapping[str, Any], x: Any) -> dict[str, np.ndarray]:
    """Dotted name -> value of the parameters of the network that the model calls."""
    from flax import linen
    from flax.core.tracers import current_trace
    from flax.traverse_util import flatten_dict

    found: list[Any] = []

    def run(values: Any, x: Any) -> Any:
        found.clear()
        outside = current_trace()
        depth = 0

        def note(call: Any, inputs: Any, options: Any, context: Any) -> Any:
            nonlocal depth
            module = context.module
            top = not module.path and context.method_name == "__call__"
            if depth or not top or module.is_initializing():
                return call(*inputs, **options)
            readable = current_trace() == outside
            found.append(module.unbind()[1]["params"] if readable else None)
            return call(*inputs, **options)

        with linen.intercept_methods(note):
            substituted = handlers.substitute(model, data=dict(values))
            handlers.seed(substituted, jax.random.key(0))(x)
        return found[0] if len(found) == 1 and found[0] is not None else {}

    with jax.debug_nans(False):  # the marks of `linearised_at` are not a fault
        parameters = jax.device_get(jax.jit(run)(dict(values), x[:1]))
    if len(found) != 1 or found[0] is None:
        what = "inside another transformation of JAX" if found == [None] else f"{len(found)} times"
        raise ValueError(
            "A model is linearised in the weights of its one Flax Linen network, but "
            f'{describe(model)} calls a network {what}. Use `predictive="sampled"`.'
        )
    return {k: np.asarray(v) for k, v in flatten_dict(parameters, sep=".").items()}


def _has_forward_mode(linearised: Linearised, values: Mapping[str, Any], x: Any) -> bool:
    """False where a `custom_vjp` is on the way, as in `nn.Conv`: JAX finds out when it compiles."""

    def run(values: Any, x: Any) -> Any:
        substituted = handlers.substitute(linearised, data=dict(values))
        trace = handlers.trace(handlers.seed(substituted, jax.random.key(0))).get_trace(x)
        return [site["value"] for site in trace.values() if site["type"] == "sample"]

    return "custom_lin" not in str(jax.make_jaxpr(run)(dict(values), x[:1]))
