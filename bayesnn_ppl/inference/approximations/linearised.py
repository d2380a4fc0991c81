"""Programs whose network is replaced by its first-order expansion in the weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers

from bayesnn_ppl.arguments import whole_number
from bayesnn_ppl.components import Components
from bayesnn_ppl.diagnostics.layer_activity import equations
from bayesnn_ppl.identity import describe
from bayesnn_ppl.likelihoods.observed import BERNOULLI, CATEGORICAL, base_distribution
from bayesnn_ppl.posterior import Posterior
from bayesnn_ppl.precision import arithmetic
from bayesnn_ppl.temperature import Model

__all__ = ["Linearised", "linearised", "linearised_at", "probit_probabilities"]


@dataclass(frozen=True)
class Linearised:
    r"""A program whose network f(x, θ) is f(x, θ*) + J(x)(θ - θ*); made by `linearised`.

    Attributes:
        model: the program.
        parameters: θ*, dotted name of the network's parameter -> value.
        forward: whether the network has forward-mode derivatives; otherwise J v is the
            transpose of v ↦ Jᵀv, at a half more.
    """

    model: Model
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


def linearised_at(model: Model, values: Mapping[str, Any], x: Any) -> Linearised:
    """`linearised` at constrained values of all latent sites.

    Args:
        model: the program, which calls one Linen network.
        values: latent site -> value.
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
    return all(step.primitive.name != "custom_lin" for step in equations(jaxpr.jaxpr))


def linearised(model: Model, mode: Posterior) -> Linearised:
    """The program with its network expanded to first order around a mode.

    `Laplace` and `LastLayer` predict by it. A run of theirs that was written to disk is opened
    with it: `load(folder, linearised(model, mode))`, where `mode` is the fit of `MAP` that they
    were given.

    Args:
        model: the program, which calls one Flax Linen network.
        mode: a posterior of the same program; its first draw is θ*.

    Raises:
        ValueError: the program does not call one Linen network, or the posterior has no weights.
    """
    if not mode.has_weights:
        raise ValueError("The posterior given as `mode` kept no weights: there is no θ* in it.")
    run = mode.provenance
    sites = {run["site_names"][name]: array[0, 0] for name, array in mode.draws.items()}
    rows = np.zeros((1, *run["input_shape"]), np.float32)
    with arithmetic(float64=run["precision"] == "float64"):
        return linearised_at(model, {n: sites[n] for n in run["latents"]}, rows)


def probit_probabilities(posterior: Posterior, x: Any, *, memory: int = 2**29) -> np.ndarray:
    r"""Class probabilities by MacKay's formula, in place of the mean over draws.

        p(y|x) ≈ softmax( μ / √(1 + π v / 8) ),     of two classes  σ( μ / √(1 + π v / 8) )

    with the mean μ and variance v of each logit over the draws. It takes logits as independent and
    normal, as those of a linearised network are for each class, and is smoother than the mean of
    few draws.

    Args:
        posterior: of a program with labels; best one that `Laplace` has linearised.
        x: inputs (N, ...).
        memory: bytes for one block of rows, about.

    Returns:
        Probabilities (N, ..., K).

    Raises:
        ValueError: the program has no labels.

    References:
        MacKay (1992), The evidence framework applied to classification networks, eq. 10;
        Gibbs (1997), section 5.4.1, for several classes.
    """
    whole_number(memory, "`memory`", at_least=1)
    components = posterior.predict(x, memory=memory).components
    if not isinstance(base_distribution(components.distribution), (*CATEGORICAL, *BERNOULLI)):
        raise ValueError(
            "MacKay's formula is about class labels, and this model predicts numbers. Use "
            "`posterior.predict(x)`."
        )
    if not isinstance(components, Components):  # pragma: no cover - `predict(x)` runs the program
        raise ValueError("The posterior has function values only, and no logits.")
    return components.apply(_probit)


def _probit(components: Any) -> Any:
    def logits(fn: Any) -> Any:
        base = base_distribution(fn)
        return base.logits

    values = jax.vmap(logits)(components)
    scaled = values.mean(0) / jnp.sqrt(1 + jnp.pi / 8 * values.var(0))
    first = jax.tree.map(lambda a: a[0], components)
    if isinstance(base_distribution(first), BERNOULLI):
        p = jax.nn.sigmoid(scaled)
        return jnp.stack([1 - p, p], axis=-1)
    return jax.nn.softmax(scaled, axis=-1)
