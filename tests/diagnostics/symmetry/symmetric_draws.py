"""Draws of networks, and other draws that are the same functions."""

import jax
import numpy as np
from flax.traverse_util import unflatten_dict

from bayesnn_ppl.diagnostics import rhat
from bayesnn_ppl.diagnostics.symmetry.hidden_layers import parameter_shapes
from bayesnn_ppl.diagnostics.symmetry.unit_moves import rearranged


def parameters(network, shape, leading, seed=0):
    """Normal weights (*leading, ...) of standard deviation fan-in^-1/2, by dotted name."""
    generator = np.random.default_rng(seed)
    return {
        name: generator.normal(size=(*leading, *s)) / np.sqrt(np.prod(s[:-1]))
        for name, s in parameter_shapes(network, shape).items()
    }


def outputs(network, shape, draws):
    """Function values (chain · draw, rows, ...) of weights (chain, draw, ...)."""
    x = np.random.default_rng(9).normal(size=(5, *shape)).astype(np.float32)
    draws = {name.removeprefix("net."): a.astype(np.float32) for name, a in draws.items()}
    flat = {name: a.reshape(-1, *a.shape[2:]) for name, a in draws.items()}
    apply = jax.jit(jax.vmap(lambda p: network.apply({"params": p}, x)))
    return np.asarray(apply(unflatten_dict(flat, sep=".")))


def moved_at_random(draws, layers, *, each_draw, seed=1):
    """Draws (chain, draw, ...) with units in random orders, scales and signs: other equal weights.

    One move for each chain, or for each draw.
    """
    generator = np.random.default_rng(seed)
    chains, count = next(iter(draws.values())).shape[:2]
    flat = {name: a.reshape(-1, *a.shape[2:]) for name, a in draws.items()}
    for layer in layers:
        size = (chains, count if each_draw else 1, layer.units)
        order = generator.permuted(np.broadcast_to(np.arange(layer.units), size), axis=2)
        factor = np.exp(generator.normal(size=size)) if layer.scales else np.ones(size)
        factor = factor * (generator.choice([-1.0, 1.0], size=size) if layer.signs else 1.0)
        order, factor = (
            np.broadcast_to(a, (chains, count, layer.units)).reshape(-1, layer.units)
            for a in (order, factor)
        )
        flat = rearranged(flat, layer, order=order, factor=factor)
    return {name: a.reshape(chains, count, *a.shape[1:]) for name, a in flat.items()}


def named(draws):
    return {f"net.{name}": array for name, array in draws.items()}


def around_one_network(network, shape, spread=0.05, chains=4, count=1000, seed=3):
    """Independent Gaussian draws: a converged chain in one mode."""
    centre = parameters(network, shape, (), seed=seed)
    generator = np.random.default_rng(seed)
    return {
        name: (a + spread * generator.normal(size=(chains, count, *a.shape))).astype(np.float32)
        for name, a in centre.items()
    }


def squares(draws, reference):
    """|θ - θ_ref|² of each draw (chain, draw)."""
    return sum(
        ((array.astype(float) - reference[name]) ** 2).reshape(*array.shape[:2], -1).sum(axis=2)
        for name, array in draws.items()
    )


def worst(draws):
    return max(float(np.max(rhat(array))) for array in draws.values())
