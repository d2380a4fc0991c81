"""Where chains run: which devices, and how those of one device take turns."""

from collections.abc import Iterator
from math import inf, prod
from typing import Any

import jax
import numpy as np
from jax.interpreters import partial_eval
from jax.sharding import Mesh
from numpyro import handlers
from numpyro.infer.util import initialize_model

from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.core.mesh import check_mesh, default_mesh, device_mesh
from bayesnn_ppl.modeling.temperature import Model
from bayesnn_ppl.modeling.training_noise import clean

__all__ = [
    "chains_at_once",
    "free_bytes",
    "gradient_bytes",
    "gradient_bytes_at_most",
    "matrix_products",
    "members_together",
    "place_chains",
]

_CHAIN_METHODS = ("parallel", "vectorized", "sequential")
_PRODUCTS = ("dot_general", "conv_general_dilated")
_CALLED = ("jaxpr", "call_jaxpr", "fun_jaxpr")  # where an equation has the program that it calls
# Results that are not arrays of their own, since XLA computes them where they are used.
_FUSED = ("broadcast_in_dim", "reshape", "squeeze", "convert_element_type", "iota", "copy")
_USABLE = 0.8  # of free memory: the estimate is rough, and draws need room
_MOST_TOGETHER = 2**17  # multiplications of the largest product of one member


def place_chains(
    chain_method: str,
    mesh: Mesh | None,
    chains: int,
    model: Model,
    x: np.ndarray,
    y: np.ndarray,
    *,
    rows_at_once: int | None = None,
    discrete: bool = False,
) -> tuple[Mesh, str | int]:
    """The mesh of a run, and for the chains of one device "vmap", "map", or how many at once.

    Several chains of one CPU device run one after another: batching them is slower there (small
    matrices), and in lockstep every chain waits for the longest tree. A model with one matrix
    product at most, a linear model, is the exception: see docs/laboratory/speed.md for both.

    On an accelerator they run in one batch, or, where the gradients of all would not fit into its
    free memory, in the largest batches that do, one after another.

    Args:
        chain_method, mesh, chains: as for `sample`; chains of this process.
        model, x, y: the model and its data.
        rows_at_once: rows that a gradient takes at a time; all by default.
        discrete: whether the model has discrete latent sites, without a gradient to be compiled.

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
    first = mesh.devices.flat[0]
    if first.platform != "cpu":
        here = -(-chains // mesh.devices.shape[0])
        share = -(-x.shape[0] // mesh.devices.shape[1])
        rows = share if rows_at_once is None else min(rows_at_once, share)
        free = free_bytes(first)
        found = chains_at_once(here, gradient_bytes_at_most(model, x, y, rows), free)
        if found != "vmap" and not discrete:  # worth the seconds of a compilation
            found = chains_at_once(here, gradient_bytes(model, x[:rows], y[:rows]), free)
        return mesh, found
    alone = mesh.devices.shape[0] == chains
    return mesh, "map" if alone or matrix_products(model, x, y) > 1 else "vmap"


def members_together(
    mesh: Mesh, members: int, model: Model, x: np.ndarray, y: np.ndarray, *, may_stop: bool
) -> str:
    """How members of one device are trained on minibatches like x, y: by "vmap" or by "map".

    On a CPU a batch of members is faster where starting a product costs more than making it:
    small networks on small minibatches, see docs/laboratory/approximations.md. Members that may
    stop early run one after another there: in a batch those that have stopped cost what the
    others do.
    """
    if mesh.devices.flat[0].platform != "cpu":
        return "vmap"
    if may_stop or members == mesh.devices.shape[0]:
        return "map"
    sizes = list(_sizes(_likelihood(model, x, y)))
    return "vmap" if sizes and max(sizes) <= _MOST_TOGETHER else "map"


def chains_at_once(chains: int, each: float, free: float | None) -> str | int:
    """How many chains of a device run at once: "vmap" for all of them, or what its memory holds.

    Args:
        chains: on the device.
        each: bytes that one takes.
        free: bytes that the device has left; None where it does not say.
    """
    if free is None or chains * each <= _USABLE * free:
        return "vmap"
    most = max(int(_USABLE * free / each), 1)
    return -(-chains // -(-chains // most))  # 10 chains of which 8 fit: 5 and 5, not 8 and 2


def free_bytes(device: Any) -> int | None:
    """Memory that a device has left, in bytes; None where it does not say, as CPUs do not."""
    statistics = device.memory_stats() or {} if hasattr(device, "memory_stats") else {}
    limit, used = statistics.get("bytes_limit"), statistics.get("bytes_in_use")
    return None if limit is None or used is None else limit - used


def gradient_bytes_at_most(model: Model, x: np.ndarray, y: np.ndarray, rows: int) -> float:
    """More than one gradient on so many rows needs, in bytes, from the traced program alone.

    All results of the forward pass, and as much again for the backward one; XLA needs 4 to 12
    times less for the networks of the zoo, since it fuses operations and uses room again.
    """
    return 2.0 * _result_bytes(_likelihood(model, x, y)) * rows / x.shape[0]


def gradient_bytes(model: Model, x: np.ndarray, y: np.ndarray) -> float:
    """What one gradient on these rows needs besides weights and data, in bytes, as compiled."""
    found = initialize_model(
        jax.random.key(0), clean(model), model_args=(x, y), dynamic_args=True, validate_grad=False
    )
    gradient = jax.jit(jax.grad(lambda z, *data: found.potential_fn(*data)(z)))
    memory: Any = gradient.lower(found.param_info.z, x, y).compile().memory_analysis()
    return float(memory.temp_size_in_bytes)


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


def _result_bytes(jaxpr: Any) -> float:
    """Bytes of the results of all operations that XLA does not fuse away, calls followed."""
    total = 0.0
    for equation in jaxpr.eqns:
        inner = next((equation.params[p] for p in _CALLED if p in equation.params), None)
        if inner is not None:
            times = equation.params.get("length", 1)  # of a scan, which keeps every step's
            total += times * _result_bytes(getattr(inner, "jaxpr", inner))
        elif equation.primitive.name not in _FUSED:
            total += sum(v.aval.size * v.aval.dtype.itemsize for v in equation.outvars)
    return total


def _operations(jaxpr: Any) -> Iterator[Any]:
    """The equations of products and loops, calls followed."""
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in (*_PRODUCTS, "scan", "while"):
            yield equation
            continue
        for parameter in _CALLED:
            inner = equation.params.get(parameter)
            if inner is not None:
                yield from _operations(getattr(inner, "jaxpr", inner))
                break
