"""The functions that a program is compiled from: start a chain, and advance it draw by draw.

Inside a traced function the kernel's `init`, or `bind` of ours, is called again before `sample`.
NumPyro's kernels bind the data, the warm-up length and the step-size search in closures made by
`init`; made in the same trace they are sound, and what `init` computes is unused and removed by
the compiler.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from numpyro import handlers
from numpyro.infer import HMC
from numpyro.infer.mcmc import MCMCKernel
from numpyro.infer.util import initialize_model

from bayesnn_ppl.core.identity import fresh_kernel
from bayesnn_ppl.core.mesh import manual_axes
from bayesnn_ppl.inference.kernels.common.model_kernel import EnsembleKernel, ModelKernel
from bayesnn_ppl.inference.sampling.chain_starts import ShapesFirst
from bayesnn_ppl.inference.sampling.draw_records import (
    draw_groups,
    draw_statistics,
    start_groups,
)
from bayesnn_ppl.modeling.discrete_latents import drawn
from bayesnn_ppl.modeling.network_initialisers import drawn_by_networks
from bayesnn_ppl.modeling.training_noise import clean
from bayesnn_ppl.nn.rows_last import with_rows_last

__all__ = [
    "Data",
    "Settings",
    "chain_functions",
    "chain_recorder",
    "empty_buffers",
    "ensemble_functions",
    "over_chains",
    "rows_at_once",
]


# x, y and the probe, which is None or (x, y) with y perhaps None.
type Data = tuple[Any, Any, Any]


@dataclass(frozen=True)
class Settings:
    """What, besides model and data shapes, a program is compiled for."""

    kernel: MCMCKernel
    strategy: Callable[..., Any]
    warmup: int
    chains: int
    mesh: Mesh
    arrangement: str | int  # how the chains of one device run: "vmap", "map", or so many at once
    float64: bool
    weights: bool = True  # whether draws of the weights leave the device
    discrete: tuple[str, ...] = ()  # latent sites that the kernel moves without a gradient
    networks: tuple[str, ...] = ()  # latent sites that start where Flax's initialisers say


def chain_functions(settings: Settings) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`start` and `advance` for kernels that run one chain: manual over the mesh's chain axis."""
    started = partial(start_groups, settings.kernel.model, settings.discrete)

    def start_one(keys: Any, values: Any, data: Data) -> Any:
        key, z, faults = _position(settings, keys, values, *data[:2])
        state = fresh_kernel(settings.kernel).init(key, settings.warmup, z, data[:2], {})
        return state, z, faults, started(*data, z)

    def advance(state: Any, data: Data, keys: Any, counts: Any, *, block: int) -> Any:
        def one(state: Any, key: Any, data: Data, counts: Any) -> Any:
            kernel, record = chain_recorder(settings, state, key, data)
            return _loop(kernel, record, state, data, counts, block)

        return over_chains(settings, one)(state, keys, data, counts)

    return over_chains(settings, start_one), advance


def over_chains(settings: Settings, function: Callable[..., Any]) -> Callable[..., Any]:
    """Batch `function` over its first two arguments, and shard it over the mesh."""

    def batched(first: Any, second: Any, *shared: Any) -> Any:
        if settings.chains == settings.mesh.shape["chain"]:  # a loop of one is slower to compile
            one = jax.tree.map(lambda leaf: leaf[0], (first, second))
            return jax.tree.map(lambda leaf: leaf[None], function(*one, *shared))
        if settings.arrangement == "vmap":
            return jax.vmap(lambda a, b: function(a, b, *shared))(first, second)
        size = settings.arrangement if isinstance(settings.arrangement, int) else None
        return jax.lax.map(lambda pair: function(*pair, *shared), (first, second), batch_size=size)

    def sharded(first: Any, second: Any, *shared: Any) -> Any:
        return jax.shard_map(
            batched,
            mesh=settings.mesh,
            in_specs=(P("chain"), P("chain"), *(P() for _ in shared)),
            out_specs=P("chain"),
            axis_names=manual_axes(settings.mesh),
            check_vma=False,
        )(first, second, *shared)

    return sharded


def chain_recorder(
    settings: Settings, state: Any, key: Any, data: Data
) -> tuple[Any, Callable[..., Any]]:
    """A kernel bound in this trace, and `(state, number) -> groups`, what is kept of a draw."""
    kernel, constrain = _bind(settings, state, data, jax.random.key(0))
    probe = data[2]

    def record(state: Any, index: Any) -> Any:
        z = getattr(state, kernel.sample_field)
        draw = jax.random.fold_in(key, index)
        sites = draw_groups(kernel.model, constrain, probe, z, draw, weights=settings.weights)
        return sites | {"sample_stats": draw_statistics(kernel, state)}

    return kernel, record


def ensemble_functions(settings: Settings) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`start` and `advance` for kernels whose state holds all chains.

    The compiler partitions, except where the kernel calls `over_chains`.
    """
    chains = settings.chains
    started = partial(start_groups, settings.kernel.model, settings.discrete)

    def start(keys: Any, values: Any, data: Data) -> Any:
        position = partial(_position, settings)
        keys, z, faults = jax.vmap(position, (0, 0, None, None))(keys, values, *data[:2])
        state = fresh_kernel(settings.kernel).init(keys, settings.warmup, z, data[:2], {})
        return state, z, faults, jax.vmap(partial(started, *data))(z)

    def advance(state: Any, data: Data, keys: Any, counts: Any, *, block: int) -> Any:
        kernel, constrain = _bind(settings, state, data, keys)
        if isinstance(kernel, EnsembleKernel):  # NumPyro's AIES and ESS are ensembles, too
            kernel.over_chains = partial(over_chains, settings)
        probe = data[2]

        def record(state: Any, index: Any) -> Any:
            z = getattr(state, kernel.sample_field)
            per_draw = jax.vmap(jax.random.fold_in, (0, None))(keys, index)
            groups = partial(draw_groups, kernel.model, constrain, probe, weights=settings.weights)
            sites = jax.vmap(groups)(z, per_draw)
            return sites | {"sample_stats": draw_statistics(kernel, state, chains=chains)}

        state, groups = _loop(kernel, record, state, data, counts, block)
        return state, jax.tree.map(lambda a: jnp.swapaxes(a, 0, 1), groups)

    return start, advance


def rows_at_once(kernel: Any) -> int | None:
    """What a kernel looks at together: a minibatch, or a block of the data; None for all rows."""
    return getattr(kernel, "batch_size", None) or getattr(kernel, "rows_at_once", None)


def _position(settings: Settings, keys: Any, values: Any, x: Any, y: Any) -> Any:
    """The chain's key, a starting point in unconstrained space, and what is not finite there.

    Of the two keys the first is the chain's own. The point depends on the second alone, which
    chains of one superchain share.
    """
    key, draw_key = jax.random.split(keys[0])[0], jax.random.split(keys[1])[1]
    rows = rows_at_once(settings.kernel)
    args = (x, y) if rows is None else (x[:rows], y[:rows])
    model = clean(settings.kernel.model)
    if settings.networks:
        draw_key, network_key = jax.random.split(draw_key)
        values = drawn_by_networks(model, settings.networks, network_key, *args)
    strategy = partial(settings.strategy, values=values)
    whole: dict[str, Any] = {}
    if settings.discrete:  # NumPyro would sum over them; held, they count as the kernel counts them
        draw_key, whole_key = jax.random.split(draw_key)
        whole = drawn(model, settings.discrete, strategy, whole_key, args)
        model = handlers.condition(model, data=whole)
    info = initialize_model(draw_key, model, init_strategy=ShapesFirst(strategy), model_args=args)
    z, potential_energy, gradient = info.param_info
    z = whole | z
    faults = {
        "potential_energy": ~jnp.isfinite(potential_energy),
        "gradient": jax.tree.map(lambda g: ~jnp.isfinite(g).all(), gradient),
    }
    return key, z, faults


def _bind(settings: Settings, state: Any, data: Data, key: Any) -> tuple[Any, Any]:
    """A kernel initialised in this trace, and its map to constrained space."""
    kernel = fresh_kernel(settings.kernel)
    # Ours can do without a state of their own, which would be traced to be dropped.
    bind = kernel.bind if isinstance(kernel, ModelKernel) else kernel.init
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `start` has already shown them
        bind(key, settings.warmup, getattr(state, kernel.sample_field), data[:2], {})
    return kernel, kernel.postprocess_fn(data[:2], {})


def _loop(
    kernel: MCMCKernel,
    record: Callable[..., Any],
    state: Any,
    data: Data,
    counts: Any,
    block: int,
) -> Any:
    """Make `draws` ≤ block draws of `thinning` transitions each; only kept ones are written."""
    first, draws, thinning = counts

    def step(_: Any, state: Any) -> Any:
        return kernel.sample(state, data[:2], {})

    # Kernels of ours turn their gradients themselves; those of NumPyro's HMC and NUTS lie inside.
    turned = with_rows_last(step, data[0].shape[0]) if isinstance(kernel, HMC) else step

    def draw(index: Any, carry: Any) -> Any:
        state, buffers = carry
        state = jax.lax.fori_loop(0, thinning, turned, state)
        buffers = jax.tree.map(
            lambda buffer, value: buffer.at[index].set(value),
            buffers,
            record(state, first + index),
        )
        return state, buffers

    empty = empty_buffers(record, state, first, block)
    return jax.lax.fori_loop(0, draws, draw, (state, empty))


def empty_buffers(record: Callable[..., Any], state: Any, first: Any, block: int) -> Any:
    """Room for what is kept of `block` draws."""
    return jax.tree.map(
        lambda leaf: jnp.zeros((block, *leaf.shape), leaf.dtype),
        jax.eval_shape(record, state, first),
    )
