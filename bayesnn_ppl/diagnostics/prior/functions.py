"""Functions drawn from the prior of a model, at given inputs, under a memory bound."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.core.arrays import check_array
from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.diagnostics.prior.layer_activity import (
    LayerActivity,
    Layers,
    activations_in,
    combined,
    summarise_layers,
)
from bayesnn_ppl.diagnostics.prior.traced_model import (
    Kind,
    forward,
    functions_at,
    inspect_prior,
    key_of_draw,
    latent_values,
)
from bayesnn_ppl.modeling.jaxpr_equations import result_bytes

__all__ = ["PriorDraws", "draw_functions", "function_draws"]

_MEMORY = 2**29
_AT_ONCE = 25  # draws in one call, so that Ctrl-C is heard
_LINES = 4  # of each draw
_STEP = 0.01  # share of a line over which a slope is taken


@dataclass(frozen=True, eq=False)
class PriorDraws:
    """What functions drawn from a prior say at inputs x (N, ...).

    Attributes:
        kind: what y is: "bernoulli" or "categorical" (labels), or "quantity".
        functions: of labels the logits, (S, N, ...) of Bernoulli and (S, N, ..., K) of categorical
            ones; of a quantity the mean of y, (S, N, ...).
        noise: standard deviation of y around the function, (S, N, ...); None for labels.
        ends: values at both ends of short pieces of lines between inputs, (S, 2, L, ...); None
            where the inputs are tokens, or a single row.
        distances: between the two inputs of each line, (S, L); None with `ends`.
        step: length of a piece, as a share of its line.
        layers: what the layers of its Flax Linen networks do.
        no_layers: why there are none; empty where there are.
    """

    kind: Kind
    functions: np.ndarray
    noise: np.ndarray | None
    ends: np.ndarray | None
    distances: np.ndarray | None
    step: float
    layers: tuple[LayerActivity, ...]
    no_layers: str


def function_draws(model: Any, x: ArrayLike, *, draws: int = 200, seed: int = 0) -> np.ndarray:
    """Functions drawn from the prior of a model, at inputs x.

    Draw i is the same whatever the number of draws, and at whatever inputs, as long as the
    prior does not depend on them.

    Args:
        model: a NumPyro model of the model contract. A temperature does not enter.
        x: inputs (N, ...).
        draws: S.
        seed: of all randomness.

    Returns:
        (S, N, ...): of labels the logits, (S, N, ..., K), or (S, N, ...) of two classes; of other
        targets the mean of y, in the model's units.

    Raises:
        TypeError, ValueError: as `prior_predictive`.
    """
    return draw_functions(model, x, draws=draws, seed=seed).functions


def draw_functions(
    model: Any, x: ArrayLike, *, draws: int = 200, seed: int = 0, memory: int = _MEMORY
) -> PriorDraws:
    """Functions drawn from the prior with what is needed to judge them; see `function_draws`.

    Args:
        model, x, draws, seed: see `function_draws`.
        memory: bytes that one block of rows may take, about.
    """
    draws = integer(draws, "The number of draws", at_least=2)
    seed = integer(seed, "The seed", at_least=0, below=2**32)
    inputs = check_array(x, "x", float64=False)
    lines = _LINES if inputs.dtype.kind == "f" and len(inputs) > 1 else 0
    with arithmetic(float64=False):
        static, layers = StaticValue(model), Layers()
        rows = len(inputs) + 2 * lines
        traced, kind, no_layers = inspect_prior(static, layers, inputs)
        working = max(1, result_bytes(traced) // len(inputs))
        blocks = math.ceil(rows / max(1, memory // working))
        plan = _Plan(len(inputs), math.ceil(rows / blocks), lines, not no_layers)
        calls = math.ceil(draws / _AT_ONCE)
        at_once = math.ceil(draws / calls)
        parts = []
        for begin in range(0, at_once * calls, at_once):
            indices = np.arange(begin, begin + at_once, dtype=np.uint32)
            part = _some_draws(static, plan, jax.random.key(seed), indices, inputs)
            parts.append(jax.tree.map(np.asarray, part))
    found = jax.tree.map(lambda *a: np.concatenate(a)[:draws], *parts)
    n, values = plan.rows, found["values"]
    ends = values[:, n : n + 2 * lines].reshape(draws, 2, lines, *values.shape[2:])
    return PriorDraws(
        kind=kind,
        functions=np.ascontiguousarray(values[:, :n]),
        noise=found["noise"][:, :n] if kind == "quantity" else None,
        ends=ends if lines else None,
        distances=found["distances"] if lines else None,
        step=_STEP,
        layers=summarise_layers(found["layers"], layers, activations_in(traced)),
        no_layers=no_layers,
    )


@dataclass(frozen=True)
class _Plan:
    rows: int
    block: int
    lines: int
    layers: bool


@partial(jax.jit, static_argnames=("model", "plan"))
def _some_draws(model: StaticValue, plan: _Plan, key: Any, indices: Any, x: Any) -> Any:
    # One after another: on a CPU convolutions with as many kernels as draws are slow.
    return jax.lax.map(lambda index: _one_draw(model, plan, key_of_draw(key, index), x), indices)


def _one_draw(model: StaticValue, plan: _Plan, key: Any, x: Any) -> dict[str, Any]:
    weights = latent_values(forward(model.value, key, x))
    distances = jnp.zeros(0)
    if plan.lines:
        pieces, distances = _pieces(x, jax.random.fold_in(key, 1), plan.lines)
        x = jnp.concatenate([x, pieces])
    blocks = math.ceil(len(x) / plan.block)
    filled = jnp.minimum(jnp.arange(blocks * plan.block), len(x) - 1)
    x = x[filled].reshape(blocks, plan.block, *x.shape[1:])
    keys = jax.random.split(jax.random.fold_in(key, 2), blocks)

    def block(pair: Any) -> dict[str, Any]:
        key, rows = pair
        layers = Layers() if plan.layers else None
        return functions_at(model.value, weights, key, rows, layers, min(plan.block, plan.rows))

    # A loop of one step would still be a loop to the compiler.
    found = (
        jax.tree.map(lambda a: a[None], block((keys[0], x[0])))
        if blocks == 1
        else jax.lax.map(block, (keys, x))
    )
    whole = max(1, plan.rows // plan.block)  # blocks without lines, and without what fills the last
    layers = combined(jax.tree.map(lambda a: a[:whole], found.pop("layers")))
    values = {name: a.reshape(-1, *a.shape[2:]) for name, a in found.items()}
    return {**values, "distances": distances, "layers": layers}


def _pieces(x: Any, key: Any, lines: int) -> tuple[Any, Any]:
    """Both ends of a short piece at random of each line, (2L, ...), and the lines' lengths."""
    first, other, place = jax.random.split(key, 3)
    i = jax.random.randint(first, (lines,), 0, len(x))
    j = (i + jax.random.randint(other, (lines,), 1, len(x))) % len(x)
    direction = x[j] - x[i]
    middle = jax.random.uniform(place, (lines, *(1,) * (x.ndim - 1)))
    ends = [x[i] + (middle + half) * direction for half in (-_STEP / 2, _STEP / 2)]
    axes = tuple(range(1, x.ndim))
    return jnp.concatenate(ends), jnp.sqrt(jnp.square(direction).sum(axes))
