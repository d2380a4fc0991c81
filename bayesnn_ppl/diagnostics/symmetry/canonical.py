"""One representative of all weights that are the same function up to a known symmetry."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.core.wording import listed
from bayesnn_ppl.diagnostics.posterior_protocol import PosteriorDraws
from bayesnn_ppl.diagnostics.symmetry.hidden_layers import (
    HiddenLayer,
    find_hidden_layers,
    parameter_shapes,
)
from bayesnn_ppl.diagnostics.symmetry.unit_moves import Weights, normalised, over_draws, rearranged

__all__ = ["canonical_form", "canonical_weights", "layers_and_weights"]


def canonical_form(
    posterior: PosteriorDraws | Mapping[str, NDArray],
    *,
    network: Any = None,
    input_shape: Sequence[int] | None = None,
    name: str = "net",
) -> dict[str, NDArray]:
    """Draws of the same functions, each as the one representative of its symmetries.

    Layer by layer from the inputs: units that may be scaled (relu) have incoming weights and bias
    of unit norm, and what leaves them takes the norm; units that may be flipped (tanh) have a
    bias ≥ 0; and units are in ascending order of their biases. Without biases the first
    incoming weight is used instead. Which layers the network has, and with which symmetries, is
    found from its module (`find_hidden_layers`).

    Orders and signs are symmetries of the posterior too, where its prior treats units alike. Scales
    are one of the likelihood alone: a normal prior prefers some, and which ones the draws had
    cannot be seen in this form.

    Equivalent draws become equal, but nearby draws need not stay near: two biases that cross swap
    two units, and one that changes its sign flips a unit. Where units are not told apart by their
    biases a chain that never leaves its mode has more spread in this form than as it is, and
    `align` is to be preferred.

    Args:
        posterior: with its weights, and its model unless `network` is given; or variable name
            -> draws (chain, draw, ...), with `network` and `input_shape`.
        network: the Linen module, for a hand-written model.
        input_shape: of one row of the inputs, where the posterior does not know it.
        name: prefix of the network's variables, where they are not those of `posterior.model`.

    Returns:
        Variable name, such as `net.Dense_0.kernel`, -> (chain, draw, ...); the network's
        parameters only. Scales of a hierarchical prior that belong to single units are not moved
        with them, and no other variable is.

    Raises:
        TypeError, ValueError: as `find_hidden_layers`; no network, weights or input shape; or
            draws that are not of this network, or not finite.

    References:
        Hecht-Nielsen (1990), On the algebraic structure of feedforward network weight spaces.
        Pourzanjani, Jiang, Petzold (2017), Improving the identifiability of neural networks for
        Bayesian inference, NeurIPS workshop on Bayesian Deep Learning.
    """
    layers, weights, prefix = layers_and_weights(
        posterior, network=network, input_shape=input_shape, name=name
    )
    moved = canonical_weights(weights, layers)
    return {prefix + parameter: array for parameter, array in moved.items()}


def canonical_weights(
    draws: Mapping[str, NDArray], layers: tuple[HiddenLayer, ...]
) -> dict[str, NDArray]:
    """`canonical_form` on arrays: parameter name -> (chain, draw, ...)."""
    return over_draws(lambda block: _canonical(block, layers), draws)


def layers_and_weights(
    posterior: PosteriorDraws | Mapping[str, NDArray],
    *,
    network: Any,
    input_shape: Sequence[int] | None,
    name: str,
) -> tuple[tuple[HiddenLayer, ...], dict[str, NDArray], str]:
    """Hidden layers; parameter name -> draws (chain, draw, ...); prefix of the variables."""
    if isinstance(posterior, Mapping):
        draws = posterior
    else:
        draws = posterior.draws
        if not draws:
            raise ValueError("The run kept no weights, and symmetries are those of weights.")
        # A model at a temperature of its own holds the one it tempers.
        model = getattr(posterior.model, "model", posterior.model)
        if network is None:
            network = getattr(model, "network", None)
            name = getattr(model, "name", name)
        if input_shape is None:
            input_shape = posterior.provenance.get("input_shape")
    if network is None:
        raise ValueError(
            "The network is not known: give `network`, the Linen module, and `name`, the prefix of "
            "its sites. A posterior whose model `bayesian_network` built needs neither."
        )
    if input_shape is None:
        raise ValueError(
            "The shape of the inputs is not known: give `input_shape`, that of one row, such as "
            "`x.shape[1:]`."
        )
    prefix = f"{name}."
    weights = {}
    for parameter, shape in parameter_shapes(network, input_shape).items():
        if prefix + parameter not in draws:
            raise ValueError(
                f"The draws have no variable `{prefix + parameter}`, a parameter of the network "
                f"{type(network).__name__}. {near_misses(prefix + parameter, draws)}"
            )
        array = np.asarray(draws[prefix + parameter])
        if array.ndim < 2 or array.shape[2:] != shape or 0 in array.shape[:2]:
            raise ValueError(
                f"The draws of `{prefix + parameter}` have shape {array.shape}, but the parameter "
                f"has shape {shape}: they must be (chain, draw{''.join(f', {n}' for n in shape)}), "
                "with at least one of each."
            )
        broken = ~np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
        if broken.any():
            raise ValueError(
                f"The draws of `{prefix + parameter}` have values that are not finite in "
                f"{listed(np.flatnonzero(broken).tolist())}: they are not a function to compare. "
                "Leave out what has failed."
            )
        weights[parameter] = array
    return find_hidden_layers(network, input_shape), weights, prefix


def _canonical(weights: Weights, layers: tuple[HiddenLayer, ...]) -> Weights:
    weights = normalised(weights, layers)
    for layer in layers:
        anchor = _anchor(weights, layer)
        factor = np.where(anchor < 0, -1.0, 1.0) if layer.signs else np.ones_like(anchor)
        order = np.argsort(anchor * factor, axis=1, kind="stable")
        factor = np.take_along_axis(factor, order, axis=1)
        weights = rearranged(weights, layer, order=order, factor=factor)
    return weights


def _anchor(weights: Weights, layer: HiddenLayer) -> NDArray[np.float64]:
    """The bias of each unit, or else its first incoming weight, (draw, units)."""
    name = min(layer.incoming, key=lambda parameter: weights[parameter].ndim)
    return weights[name].reshape(len(weights[name]), -1, layer.units)[:, 0]
