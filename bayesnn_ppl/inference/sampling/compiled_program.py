"""The compiled heart of the runner: start all chains, and advance all chains by up to k draws.

One program is compiled for a model, kernel, warm-up length, block, data shape and mesh, and kept
for the next run that has the same. The number of draws and the thinning are arguments of the
compiled function, so neither compiles anything again.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from bayesnn_ppl.core.identity import identity_key
from bayesnn_ppl.core.mesh import replicate, shard
from bayesnn_ppl.inference.runtime.program_cache import ProgramCache, compiling
from bayesnn_ppl.inference.sampling.draw_records import everything_kept
from bayesnn_ppl.inference.sampling.streamed_blocks import BlockShape, streamed_advance
from bayesnn_ppl.inference.sampling.traced_functions import (
    Data,
    Settings,
    chain_functions,
    ensemble_functions,
)

__all__ = ["Program", "compile_program"]

_BLOCK_BYTES = 2**26


@dataclass(frozen=True)
class Program:
    """Compiled functions on arrays whose leading axis is the chain.

    Attributes:
        start: `((keys, start keys), values, data) -> (state, z, faults, started)`; the last is
            the latent sites' constrained values, and function values at the probe inputs, by group.
        advance: `(state, data, keys, (first, draws, thinning)) -> (state, groups)`; groups are
            those of the posterior's tree, variable -> buffer with leading axes (chain, block), of
            which only the first `draws` entries are written. `keys`, one a chain, and `first`, the
            number of the block's first draw, make the predictive samples at the probe inputs. Of
            streamed data, x and y are a block of rows, and the counts are those of
            `streamed_advance`.
        block: the most draws that one call of `advance` can make.
        place: puts x and y where the compiled functions expect them.
        state: shapes and shardings of the state, to bring one back from the disk.
        compile_seconds: what it took, 0 when the program was in the cache.
    """

    start: Callable[..., Any]
    advance: Callable[..., Any]
    block: int
    place: Callable[[np.ndarray], jax.Array]
    state: Any
    compile_seconds: float


programs: ProgramCache[Program] = ProgramCache(kept=8)


def compile_program(
    settings: Settings,
    keys: jax.Array,
    values: Mapping[str, Any],
    data: Data,
    blocks: BlockShape | None = None,
) -> Program:
    """The program for these settings and shapes, compiled now or taken from the cache.

    With `blocks` the data are streamed, and x and y are the rows of one minibatch.
    """
    shapes = jax.tree.map(lambda a: (a.shape, str(a.dtype)), (dict(values), *data))
    parts = (
        identity_key(settings.kernel),
        identity_key(settings.strategy),
        settings.warmup,
        settings.chains,
        settings.arrangement,
        settings.float64,
        settings.weights,
        settings.networks,
        settings.mesh,
        str(shapes),
        blocks,
        str(keys.dtype),
    )
    return programs.get(parts, lambda: _compile(settings, keys, values, data, blocks))


def _compile(
    settings: Settings,
    keys: jax.Array,
    values: Mapping[str, Any],
    data: Data,
    blocks: BlockShape | None,
) -> Program:
    began = time.perf_counter()
    mesh = settings.mesh
    by_row = NamedSharding(mesh, P("data"))
    on_cpu = mesh.devices.flat[0].platform == "cpu"

    def place(array: np.ndarray) -> jax.Array:
        return shard(array, by_row)

    x, y, probe = data
    keys, values, probe = replicate((keys, dict(values), probe), mesh)
    data = rows = (place(x), place(y), probe)
    if settings.kernel.is_ensemble_kernel:
        start, advance = ensemble_functions(settings)
    else:
        start, advance = chain_functions(settings)
    count = 3
    if blocks is not None:
        advance, count = streamed_advance(settings, blocks), 5
        rows = (*blocks.rows(settings, x, y), probe)
    counts = replicate([np.int32(1)] * count, mesh)
    try:
        state_shape, position, *_ = jax.eval_shape(start, (keys, keys), values, data)
    except (AssertionError, ValueError) as error:  # NumPyro's kernels refuse before compilation
        raise ValueError(
            f"The kernel {type(settings.kernel).__name__} refuses this run of {settings.chains} "
            f"chains: {error}"
        ) from error
    recorded = jax.eval_shape(
        partial(everything_kept, settings.kernel.model, discrete=settings.discrete),
        position,
        *data,
    )
    per_draw = max(1, sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(recorded)))
    block = int(np.clip(_BLOCK_BYTES // per_draw, 1, 250))

    if settings.kernel.is_ensemble_kernel:
        replicated, by_chain = NamedSharding(mesh, P()), NamedSharding(mesh, P("chain"))
        sharding: Any = jax.tree.map(lambda _: replicated, state_shape)._replace(
            **{
                settings.kernel.sample_field: jax.tree.map(
                    lambda _: by_chain, getattr(state_shape, settings.kernel.sample_field)
                )
            }
        )
    else:
        sharding = NamedSharding(mesh, P("chain"))
    known = NamedSharding(mesh, P()) if jax.process_count() > 1 else None
    start_compiled = compiling(
        jax.jit(start, out_shardings=(sharding, known, known, known)).lower(
            (keys, keys), values, data
        ),
        float64=settings.float64,
        # It runs once: on a CPU, optimising it takes longer than it can ever save.
        options={"xla_backend_optimization_level": 0} if on_cpu else None,
    )
    state = jax.tree.map(
        lambda leaf, s: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=s),
        state_shape,
        sharding
        if settings.kernel.is_ensemble_kernel
        else jax.tree.map(lambda _: sharding, state_shape),
    )
    kept: Any = None
    if known is not None:
        # Every process writes its own chains' weights, and knows all function values.
        kept = {"sample_stats": known}
        if settings.weights:
            kept["posterior"] = NamedSharding(mesh, P("chain"))
        if probe is not None:
            kept["predictions"] = known
    advance_compiled = compiling(
        jax.jit(partial(advance, block=block), out_shardings=(sharding, kept)).lower(
            state, rows, keys, counts
        ),
        float64=settings.float64,
    )
    made = start_compiled.result(), advance_compiled.result()
    return Program(*made, block, place, state, time.perf_counter() - began)
