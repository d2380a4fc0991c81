"""Weights moved, within the symmetries of their network, to where a reference has them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.diagnostics.posterior_protocol import PosteriorDraws
from bayesnn_ppl.diagnostics.symmetry.canonical import layers_and_weights
from bayesnn_ppl.diagnostics.symmetry.hidden_layers import HiddenLayer
from bayesnn_ppl.diagnostics.symmetry.unit_moves import (
    Weights,
    by_source,
    normalised,
    over_draws,
    rearranged,
)

__all__ = ["align", "aligned_weights"]

# Of the reference, each time by the mean of the draws aligned so far.
_REFINEMENTS = 2
# A draw stops when no layer moves; it does after a few.
_SWEEPS = 50
# A rearrangement must bring more than rounding does, or two equal ones could alternate.
_GAIN = 1e-9


def align(
    posterior: PosteriorDraws | Mapping[str, NDArray],
    *,
    reference: Mapping[str, NDArray] | None = None,
    network: Any = None,
    input_shape: Sequence[int] | None = None,
    name: str = "net",
) -> dict[str, NDArray]:
    r"""Draws of the same functions, each moved to the representative nearest to a reference.

    Units that may be scaled (relu) first get incoming weights and bias of unit norm. What is left
    are permutations and signs g, which change no norm, so the nearest is

        argmin_g |gθ - θ_ref|² = argmax_g ⟨gθ, θ_ref⟩

    For one hidden layer this is one assignment problem, solved exactly, with signs: a pair of units
    counts by |⟨·,·⟩|. For several, layers take turns, from the inputs, until none moves (weight
    matching); that is a local optimum, never farther from the reference than the draw was, and the
    general problem is NP-hard.

    Unlike `canonical_form` this is continuous while a chain stays near the reference. It does
    choose, among equivalent draws, those that lie together: the spread of aligned weights is at
    most that of the draws, and agreement of aligned chains is not a proof of convergence. Function
    space decides.

    Args:
        posterior: with its weights, and its model unless `network` is given; or variable name
            -> draws (chain, draw, ...), with `network` and `input_shape`.
        reference: variable name -> one draw, shape (...). By default the last draw of the first
            chain, then twice the mean of the draws aligned to the one before.
        network, input_shape, name: as in `canonical_form`.

    Returns:
        Variable name -> (chain, draw, ...), as `canonical_form`.

    Raises:
        TypeError, ValueError: as `canonical_form`; a reference that is not one draw of the network.

    References:
        Ainsworth, Hayase, Srinivasa (2023), Git Re-Basin: merging models modulo permutation
        symmetries, arXiv:2209.04836, algorithm 1.
        Stephens (2000), Dealing with label switching in mixture models, JRSS B 62(4).
    """
    layers, weights, prefix = layers_and_weights(
        posterior, network=network, input_shape=input_shape, name=name
    )
    target = None if reference is None else _checked(reference, weights, prefix)
    moved = aligned_weights(weights, layers, target)
    return {prefix + parameter: array for parameter, array in moved.items()}


def aligned_weights(
    draws: Mapping[str, NDArray],
    layers: tuple[HiddenLayer, ...],
    reference: Mapping[str, NDArray] | None = None,
) -> dict[str, NDArray]:
    """`align` on arrays: parameter name -> (chain, draw, ...)."""
    found = over_draws(lambda block: normalised(block, layers), draws)
    one = reference or {name: array[0, -1] for name, array in found.items()}
    target = normalised({n: np.asarray(a, dtype=float)[None] for n, a in one.items()}, layers)
    found = _moved(found, layers, target, anew=True)
    for _ in range(0 if reference or not layers else _REFINEMENTS):
        before = found
        mean = {n: a.mean(axis=(0, 1), dtype=float)[None] for n, a in before.items()}
        found = _moved(before, layers, mean, anew=False)
        if all(np.array_equal(found[n], before[n]) for n in found):
            break
    return found


def _checked(
    reference: Mapping[str, NDArray], weights: Mapping[str, NDArray], prefix: str
) -> dict[str, NDArray]:
    checked = {}
    for parameter, array in weights.items():
        value = reference.get(prefix + parameter)
        if value is None or np.shape(value) != array.shape[2:]:
            found = "is missing" if value is None else f"has shape {np.shape(value)}"
            raise ValueError(
                f"The reference must be one draw of the network, but `{prefix + parameter}` "
                f"{found} where the parameter has shape {array.shape[2:]}. Take it from the "
                "posterior: {name: a[0, -1] for name, a in posterior.draws.items()}."
            )
        checked[parameter] = np.asarray(value)
    return checked


def _moved(
    draws: Mapping[str, NDArray],
    layers: tuple[HiddenLayer, ...],
    reference: Weights,
    *,
    anew: bool,
) -> dict[str, NDArray]:
    held = max((2 * layer.units**2 for layer in layers), default=0)
    return over_draws(
        lambda block: _matched(block, layers, reference, anew=anew), draws, values=held
    )


def _matched(
    weights: Weights, layers: tuple[HiddenLayer, ...], reference: Weights, *, anew: bool
) -> Weights:
    """Move the units of each draw to those of the reference, which is one draw (1, ...).

    Draws that have not been aligned before are also moved layer by layer first, by what enters the
    units alone: what leaves them tells nothing before the next layer is aligned with that of the
    reference does. The nearer of the two results is taken.
    """
    found = _searched(weights, layers, reference)
    if not anew or len(layers) < 2:
        return found
    for layer in layers:
        weights, _ = _one_layer(weights, layer, reference, outgoing=False)
    other = _searched(weights, layers, reference)
    nearer = _squares(other, reference) < _squares(found, reference)
    return {
        name: np.where(nearer.reshape(-1, *(1,) * (array.ndim - 1)), other[name], array)
        for name, array in found.items()
    }


def _searched(
    weights: Weights, layers: tuple[HiddenLayer, ...], reference: Weights
) -> dict[str, NDArray[np.float64]]:
    """Layers take turns until none moves."""
    found = {name: array.copy() for name, array in weights.items()}
    active = np.arange(len(next(iter(found.values()))))
    for _ in range(_SWEEPS if len(layers) > 1 else 1):
        part: Weights = {name: array[active] for name, array in found.items()}
        moved = np.zeros(len(active), bool)
        for layer in layers:
            part, changed = _one_layer(part, layer, reference, outgoing=True)
            moved |= changed
        for name, array in part.items():
            found[name][active] = array
        active = active[moved]
        if not active.size:
            break
    return found


def _squares(weights: Weights, reference: Weights) -> Any:
    """|θ - θ_ref|² of each draw, (draw,)."""
    return sum(
        np.sum((array - reference[name]) ** 2, axis=tuple(range(1, array.ndim)))
        for name, array in weights.items()
    )


def _one_layer(
    weights: Weights, layer: HiddenLayer, reference: Weights, *, outgoing: bool
) -> tuple[Weights, NDArray[np.bool_]]:
    """The best order and signs of one layer's units, the others left; which draws moved."""
    from scipy.optimize import linear_sum_assignment

    similar = _similarity(weights, layer, reference, outgoing=outgoing)
    worth = np.abs(similar) if layer.signs else similar
    draws = np.arange(len(similar))[:, None]
    still = np.arange(layer.units)
    # Rows of the problem are units of the reference: each is given one of the draw.
    order = np.stack([linear_sum_assignment(each.T, maximize=True)[1] for each in worth])
    chosen = similar[draws, order, still]
    best, total = worth[draws, order, still].sum(axis=1), np.abs(chosen).sum(axis=1)
    moved = best - similar[:, still, still].sum(axis=1) > _GAIN * total
    factor = np.where(layer.signs & (chosen < 0), -1.0, 1.0)
    order, factor = (
        np.where(moved[:, None], order, still),
        np.where(moved[:, None], factor, 1.0),
    )
    return rearranged(weights, layer, order=order, factor=factor), moved


def _similarity(
    weights: Weights, layer: HiddenLayer, reference: Weights, *, outgoing: bool
) -> NDArray[np.float64]:
    """⟨unit i of the draw, unit j of the reference⟩, (draw, i, j)."""
    total: Any = 0.0
    for name in layer.incoming:
        mine = weights[name].reshape(len(weights[name]), -1, layer.units)
        total = total + mine.transpose(0, 2, 1) @ reference[name].reshape(-1, layer.units)
    if outgoing:
        mine, theirs = (
            by_source(side[layer.outgoing], layer).transpose(0, 2, 1, 3)
            for side in (weights, reference)
        )
        flat = theirs.reshape(layer.units, -1)
        total = total + mine.reshape(len(mine), layer.units, -1) @ flat.T
    return np.asarray(total)
