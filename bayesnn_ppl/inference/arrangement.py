"""Where chains run: which devices, and how those of one device take turns."""

from collections.abc import Iterator
from math import inf, prod
from typing import Any

import jax
import numpy as np
from jax.interpreters import partial_eval
from jax.sharding import Mesh
from numpyro import handlers

from bayesnn_ppl.arguments import near_misses
from bayesnn_ppl.mesh import check_mesh, default_mesh, device_mesh
from bayesnn_ppl.temperature import Model
from bayesnn_ppl.training_keys import clean

__all__ = ["matrix_products", "members_together", "place_chains"]

_CHAIN_METHODS = ("parallel", "vectorized", "sequential")
_PRODUCTS = ("dot_general", "conv_general_dilated")
_MOST_TOGETHER = 2**17  # multiplications of the largest product of one member


def place_chains(
    chain_method: str, mesh: Mesh | None, chains: int, model: Model, x: np.ndarray, y: np.ndarray
) -> tuple[Mesh, str]:
    """The mesh of a run, and "vmap" or "map" for the chains of one device.

    Several chains of one CPU device run one after another: batching them is slower there (small
    matrices), and in lockstep every chain waits for the longest tree. A program with one matrix
    product at most, a linear model, is the exception: see docs/performance.md for both.

    Raises:
        ValueError: an unknown method, or a mesh that does not fit.
    """
    if chain_method not in _CHAIN_METHODS:
        raise ValueError(
            f"The chain_method `{chain_method}` is unknown. "
            + near_misses(str(chain_method), _CHAIN_METHODS)
        )
    if chain_method != "parallel":
        if mesh is not None:
            raise ValueError(
                f'A mesh is for chain_method="parallel"; "{chain_method}" uses one device.'
            )
        if jax.process_count() > 1:
            raise ValueError(
                f'chain_method="{chain_method}" uses one device, and this run has those of '
                f'{jax.process_count()} processes. Use "parallel".'
            )
        return device_mesh(1), "vmap" if chain_method == "vectorized" else "map"
    mesh = default_mesh(chains) if mesh is None else mesh
    check_mesh(mesh, chains=chains, rows=x.shape[0])
    mesh = device_mesh(*mesh.devices.shape, devices=list(mesh.devices.flat))  # our kinds of axes
    if mesh.devices.flat[0].platform != "cpu":
        return mesh, "vmap"
    alone = mesh.devices.shape[0] == chains
    return mesh, "map" if alone or matrix_products(model, x, y) > 1 else "vmap"


def members_together(
    mesh: Mesh, members: int, model: Model, x: np.ndarray, y: np.ndarray, *, may_stop: bool
) -> str:
    """How members of one device are trained on minibatches like x, y: by "vmap" or by "map".

    On a CPU a batch of members is faster where starting a product costs more than making it:
    small networks on small minibatches, see docs/performance.md. Members that may stop early run
    one after another there: in a batch those that have stopped cost what the others do.
    """
    if mesh.devices.flat[0].platform != "cpu":
        return "vmap"
    if may_stop or members == mesh.devices.shape[0]:
        return "map"
    sizes = list(_sizes(_likelihood(model, x, y)))
    return "vmap" if sizes and max(sizes) <= _MOST_TOGETHER else "map"


def matrix_products(model: Model, x: np.ndarray, y: np.ndarray) -> int:
    """How many matrix products and convolutions one evaluation of the likelihood makes.

    Counted in the traced program, so nothing runs. A loop counts as two products at least.
    """
    return sum(
        2 if equation.primitive.name in ("scan", "while") else 1
        for equation in _operations(_likelihood(model, x, y))
    )


def _likelihood(model: Model, x: np.ndarray, y: np.ndarray) -> Any:
    """The traced program of the likelihood."""

    def likelihood(x: Any, y: Any) -> Any:
        trace = handlers.trace(handlers.seed(clean(model), jax.random.key(0))).get_trace(x, y)
        return trace["y"]["fn"].log_prob(trace["y"]["value"])

    closed = jax.make_jaxpr(likelihood)(x, y)
    # Without what nothing depends on: Flax makes parameters from an input, which are not used.
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    return jaxpr


def _sizes(jaxpr: Any) -> Iterator[float]:
    """Multiplications of each product; of convolutions and loops, more than any."""
    for equation in _operations(jaxpr):
        if equation.primitive.name != "dot_general":
            yield inf
            continue
        (contracted, _), _ = equation.params["dimension_numbers"]
        left = equation.invars[0].aval.shape
        yield prod(equation.outvars[0].aval.shape) * prod(left[axis] for axis in contracted)


def _operations(jaxpr: Any) -> Iterator[Any]:
    """The equations of products and loops, calls followed."""
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in (*_PRODUCTS, "scan", "while"):
            yield equation
            continue
        for parameter in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
            inner = equation.params.get(parameter)
            if inner is not None:
                yield from _operations(getattr(inner, "jaxpr", inner))
                break
