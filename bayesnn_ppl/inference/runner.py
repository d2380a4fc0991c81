"""`sample`: run any MCMC kernel on any model, all chains at once, block by block."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from numpyro.infer.mcmc import MCMCKernel

from bayesnn_ppl.arguments import near_misses, whole_number
from bayesnn_ppl.arrays import check_array
from bayesnn_ppl.inference.contract import ModelSummary, inspect_model
from bayesnn_ppl.inference.program import Settings, compile_program
from bayesnn_ppl.inference.progress import ProgressBar
from bayesnn_ppl.inference.provenance import describe_run
from bayesnn_ppl.inference.run import Progress, Run, uninterrupted
from bayesnn_ppl.inference.starts import resolve_start
from bayesnn_ppl.mesh import check_mesh, default_mesh, device_mesh, more_cpu_devices
from bayesnn_ppl.posterior import Posterior

__all__ = ["sample"]

_CHAIN_METHODS = ("parallel", "vectorized", "sequential")


def sample(
    kernel: MCMCKernel,
    x: Any,
    y: Any,
    *,
    warmup: int,
    draws: int,
    chains: int = 4,
    seed: int = 0,
    chain_method: str = "parallel",
    mesh: Mesh | None = None,
    init: Any = None,
    thinning: int = 1,
    float64: bool = False,
    progress: bool = True,
    callback: Callable[[Progress], Any] | None = None,
) -> Posterior:
    """Draw from the posterior of `kernel.model` given `x` and `y`.

    One function, "advance all chains by a block of draws", is compiled and called in a loop;
    an equal run later in the same process compiles nothing. Ctrl-C ends the run and returns
    the draws made so far.

    Args:
        kernel: any `numpyro.infer.mcmc.MCMCKernel` built from a model: `NUTS(model)`,
            `HMC(model)`, an ensemble kernel such as `AIES(model)`, or one of ours. It is not
            modified.
        x: inputs, shape (N, ...), numbers without NaN.
        y: targets, shape (N, ...), likewise. Targets from `data.load` carry their units, and
            predictions and metrics come out in them.
        warmup: draws per chain that adapt the kernel and are thrown away.
        draws: draws per chain that are kept.
        chains: number of chains.
        seed: of all randomness; the same seed on the same machine gives the same bits.
        chain_method: "parallel" spreads chains over the devices of the mesh; "vectorized" runs
            them in lockstep, and "sequential" one after another, on one device.
        mesh: for "parallel", from `device_mesh(chain, data)`; by default as many local devices
            as divide the chains evenly.
        init: where chains start. None: the kernel's `init_strategy` if it was given one, else a
            draw from the prior. Or a strategy of `numpyro.infer`, or a mapping from site names
            to constrained values.
        thinning: transitions per kept draw. `warmup` and `draws` count draws; a warm-up draw is
            one transition.
        float64: run in double precision.
        progress: show a bar for all chains together (lines where there is no terminal).
        callback: called with a `Progress` after each block; returning True ends the run early,
            with the draws made so far.
            An error in it is reported once and does not stop the run.

    Returns:
        A `Posterior`.

    Raises:
        TypeError, ValueError: an argument, the data or the model is not what it must be; said
            before anything is compiled.
        RuntimeError: a chain found no start where density and gradient are finite, or the
            callback ended the run in its warm-up, when there is nothing yet to return.
        KeyboardInterrupt: Ctrl-C during warm-up, when there is nothing yet to return.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> from numpyro.infer import NUTS
        >>> data = bnn.data.load("diabetes")
        >>> posterior = bnn.sample(
        ...     NUTS(bnn.models.linear()), *data.train, warmup=200, draws=100, chains=2, seed=0,
        ...     progress=False)
        >>> posterior.draws["noise_scale"].shape
        (2, 100)
    """
    began = time.perf_counter()
    _check_kernel(kernel)
    warmup = whole_number(warmup, "`warmup`", at_least=0)
    draws = whole_number(draws, "`draws`", at_least=1)
    chains = whole_number(chains, "`chains`", at_least=1)
    thinning = whole_number(thinning, "`thinning`", at_least=1)
    seed = whole_number(seed, "`seed`", at_least=0, below=2**32)
    units = getattr(y, "standardisation", None)
    inputs = check_array(x, "x", float64=float64)
    targets = check_array(y, "y", float64=float64)
    model = kernel.model

    # Set either way: the caller's own setting is no part of what is compiled.
    with jax.enable_x64(float64):
        summary = inspect_model(model, inputs, targets)
        if summary.discrete:
            targets = targets.astype(np.int32)
        _warn_of_cold_latents(summary)
        strategy, values = resolve_start(init, kernel, summary, chains)
        mesh, arrangement = _place_chains(chain_method, mesh, chains, inputs.shape[0])
        settings = Settings(kernel, strategy, warmup, chains, mesh, arrangement, float64)
        with ProgressBar(shown=progress, chains=chains) as bar:
            if chains > 1 and chain_method == "parallel" and len(jax.devices()) == 1:
                if jax.devices()[0].platform == "cpu":
                    bar.say("All chains share one CPU device. " + more_cpu_devices(chains))
            keys = _chain_keys(seed, chains)
            program = compile_program(settings, keys, values, inputs, targets)
            run = Run(settings, program, inputs, targets, bar, callback)
            run.start(keys, values, given=bool(values))
            run.warm_up(warmup)
            run.draw(draws, thinning)
    seconds = {"compile": program.compile_seconds, **run.seconds}
    with uninterrupted():  # Ctrl-C from here on would lose the draws
        attributes = describe_run(
            settings,
            summary,
            inputs,
            targets,
            run={
                "warmup": warmup,
                "draws": run.done,
                "draws_requested": draws,
                "chains": chains,
                "thinning": thinning,
                "seed": seed,
                "chain_method": chain_method,
                "interrupted": run.interrupted,
            },
            seconds=seconds | {"total": time.perf_counter() - began},
        )
        return Posterior.from_arrays(
            run.kept, run.statistics, attributes, model=model, standardisation=units
        )


def _check_kernel(kernel: Any) -> None:
    if not isinstance(kernel, MCMCKernel):
        hint = " Build it from your model: `NUTS(model)`." if callable(kernel) else ""
        raise TypeError(
            "The kernel must be a numpyro.infer.mcmc.MCMCKernel such as `NUTS(model)`, "
            f"not {kernel!r}.{hint}"
        )
    if getattr(kernel, "model", None) is None:
        raise ValueError(
            f"The kernel {type(kernel).__name__} has no model. Build it from a model, "
            f"`{type(kernel).__name__}(model)`, not from a potential function: predictions need "
            "the program."
        )


def _warn_of_cold_latents(summary: ModelSummary) -> None:
    others = sorted(set(summary.latents) - summary.parameters)
    if summary.posterior_temperature != 1.0 and others:
        warnings.warn(
            f"The posterior at temperature {summary.posterior_temperature} depends on how the "
            "program is "
            f"parametrised, because it has latent sites besides network parameters: {others}. "
            "Fix them, or temper the likelihood alone with `tempered(T)`.",
            stacklevel=3,
        )


def _place_chains(chain_method: str, mesh: Mesh | None, chains: int, rows: int) -> tuple[Mesh, str]:
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
        return device_mesh(1), "vmap" if chain_method == "vectorized" else "map"
    mesh = default_mesh(chains) if mesh is None else mesh
    check_mesh(mesh, chains=chains, rows=rows)
    mesh = device_mesh(*mesh.devices.shape, devices=list(mesh.devices.flat))  # our kinds of axes
    # Several chains of one CPU device run one after another: batching them is slower there (small
    # matrices), and in lockstep every chain waits for the longest tree. See docs/architecture.md.
    on_cpu = mesh.devices.flat[0].platform == "cpu"
    return mesh, "map" if on_cpu else "vmap"


@jax.jit
def _fold_in(key: jax.Array, index: jax.Array) -> jax.Array:
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index)


def _chain_keys(seed: int, chains: int) -> jax.Array:
    """One key a chain; chain i has the same key whatever the number of chains."""
    return _fold_in(jax.random.key(seed), np.arange(chains, dtype=np.uint32))
