"""`sample`: run any MCMC kernel on any model, all chains at once, block by block."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from jax.sharding import Mesh
from numpyro.infer.mcmc import MCMCKernel

from bayesnn_ppl.core.arguments import integer, strict_switches, told_names
from bayesnn_ppl.distributed.clusters import connected
from bayesnn_ppl.inference.runtime.draw_writers import FolderSink, MemorySink
from bayesnn_ppl.inference.runtime.keep import Keep, check_every, check_memory
from bayesnn_ppl.inference.runtime.reachable_targets import warn_beyond_prior
from bayesnn_ppl.inference.sampling.clusters.gathering import execute_on_cluster
from bayesnn_ppl.inference.sampling.execution import execute
from bayesnn_ppl.inference.sampling.plan import SampleInputs, make_plan
from bayesnn_ppl.inference.sampling.process_share import check_cluster, open_folder
from bayesnn_ppl.inference.sampling.run import Progress
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.storage import RunFolder, absolute, working_copy

__all__ = ["sample"]


# The names of NumPyro's `MCMC`.
@told_names(
    {
        "num_warmup": "warmup",
        "num_samples": "draws",
        "num_chains": "chains",
        "progress_bar": "progress",
        "init_params": "init",
        "rng_key": "seed",
    }
)
@strict_switches
def sample(
    kernel: MCMCKernel,
    x: Any,
    y: Any,
    *,
    warmup: int,
    draws: int,
    chains: int = 4,
    superchains: int | None = None,
    seed: int = 0,
    chain_method: str = "parallel",
    mesh: Mesh | None = None,
    init: Any = None,
    thinning: int = 1,
    float64: bool = False,
    progress: bool = True,
    callback: Callable[[Progress], Any] | None = None,
    out: str | Path | None = None,
    keep: Keep | None = None,
    until: Mapping[str, Any] | None = None,
    cluster: Any = None,
) -> Posterior:
    """Draw from the posterior of `kernel.model` given `x` and `y`.

    One function, "advance all chains by a block of draws", is compiled and called in a loop;
    an equal run later in the same process compiles nothing. Ctrl-C ends the run and returns
    the draws made so far. A run whose chains have all stopped, at a draw that was not finite, ends
    there.

    Args:
        kernel: any `numpyro.infer.mcmc.MCMCKernel` built from a model: `NUTS(model)`,
            `HMC(model)`, an ensemble kernel such as `AIES(model)`, or one of ours. It is not
            modified.
        x: inputs, shape (N, ...), numbers without NaN. Data larger than the memory are streamed,
            `sample(kernel, *bnn.data.stream(...), ...)`, by stochastic-gradient kernels.
        y: targets, shape (N, ...), likewise. Targets from `data.load` carry their units, and
            predictions and metrics come out in them.
        warmup: draws per chain that adapt the kernel and are thrown away.
        draws: draws per chain that are kept.
        chains: number of chains.
        seed: of all randomness; the same seed on the same machine, with as many processor cores,
            gives bit-for-bit identical draws.
        superchains: None: every chain has a start of its own. K: chains are in K groups of equal
            size, side by side, and those of a group have one start. Then `until` and `diagnose`
            take the nested R-hat, by which chains may be many and short (`nested_rhat`).
        chain_method: "parallel" spreads chains over the devices of the mesh; "vectorized" runs
            them in lockstep, and "sequential" one after another, on one device.
        mesh: for "parallel", from `device_mesh(chain, data)`; by default as many local devices
            as divide the chains evenly.
        init: where chains start. None: the kernel's `init_strategy` if it was given one, else a
            draw from the prior. "network": the model's Flax networks where their own
            initialisers put them, each chain by a draw of its own, and other sites at draws from
            the prior; `Ensemble(...)`: at networks trained apart, one for each chain. A posterior
            of the same network: at the last draw of each of its chains, or of its only one for all;
            the verdict on exploration is by where that run began.
            Or a strategy of `numpyro.infer`, or a mapping from site names to constrained values.
        thinning: transitions per kept draw. `warmup` and `draws` count draws; a warm-up draw is
            one transition.
        float64: run in double precision.
        progress: show a bar for all chains together (lines where there is no terminal).
        callback: called with a `Progress` after each block; returning True ends the run early,
            with the draws made so far.
            An error in it is reported once and does not stop the run.
        out: a new or empty folder that the draws are streamed to as they come, with the
            sampler's state: memory does not grow with their number, ArviZ and xarray open them
            during the run, and `resume` continues after a crash, bit-for-bit identical.
        keep: what is kept of each draw, by default all weights; see `Keep`. With probe inputs,
            `diagnose()` and `evaluate(posterior)` need no inputs, and no model.
        until: end the run before it has all its draws, as soon as the functions have converged:
            any of `function_rhat` (largest R-hat of the function values at the probe inputs), `ess`
            (their smallest bulk or tail effective sample size, with the precision that a diagnosis
            of that `ess_threshold` asks for) and `max_time` (seconds, or "10m"), such
            as dict(function_rhat=1.01, ess=400, max_time="10m"). Convergence needs all that is
            asked of it; time alone ends a run too. Without probe inputs in `keep`, function values
            at up to 100 training inputs are kept. The provenance's "ended" says what ended the run.
        cluster: workers of Dask that share the chains: a `distributed.Client` or cluster, the
            address of a scheduler, "local" for a process of this machine for each core, or
            "slurm". Needs `out`, a folder or an address that all of them can write to. A worker
            that is lost costs nothing: its chains continue from their last commit on another.

    Returns:
        A `Posterior`; with `out` one that reads from the folder.

    Raises:
        FileExistsError: the folder `out` is not empty.
        TypeError, ValueError: an argument, the data or the model is not what it must be; said
            before anything is compiled.
        RuntimeError: a chain found no start where density and gradient are finite, or the
            callback ended the run in its warm-up, when there is nothing yet to return.
        KeyboardInterrupt: Ctrl-C before the first draw, when there is nothing yet to return; it
            says what is kept and how to resume.

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
    draws = integer(draws, "`draws`", at_least=1)
    plan = make_plan(
        SampleInputs(
            method=kernel,
            x=x,
            y=y,
            warmup=warmup,
            chains=chains,
            superchains=superchains,
            seed=seed,
            chain_method=chain_method,
            mesh=mesh,
            init=init,
            thinning=thinning,
            float64=float64,
            keep=keep,
            until=until,
            on_disk=out is not None,
        )
    )
    check_every(plan.keep, draws)
    warn_beyond_prior(kernel.model, plan.rows.x, plan.rows.y, plan.summary, float64=float64)
    if cluster is not None:
        check_cluster(kernel, plan.trainer, out, superchains)
    if out is None:
        if plan.keep.weights == "all":
            check_memory(
                plan.summary,
                chains=plan.inputs.chains,
                draws=draws // plan.keep.every,
                float64=float64,
                instead="Keep the run on disk, `out=`; or fewer weights, `keep=bnn.Keep(every=10)`;"
                ' or none, `keep=bnn.Keep(weights="none", probe=x)`, with function values at `x`.',
            )
        memory = MemorySink(draws, plan.keep)
        return execute(plan, memory, draws, progress=progress, callback=callback)

    place = working_copy(out)

    def create() -> RunFolder:
        return RunFolder.create(
            place,
            plan.describe(draws_requested=draws),
            every={"posterior": plan.keep.every},
            probe=None if plan.probe is None else plan.probe.arrays(),
        )

    shown: dict[str, Any] = {"progress": progress, "callback": callback}
    with nullcontext() if cluster is None else connected(cluster, plan.inputs.chains) as client:
        folder = open_folder(place, plan.share, create)
        try:
            if client is not None:
                where = absolute(out)
                return execute_on_cluster(plan, folder, draws, client, out=where, **shown)
            return execute(plan, FolderSink(folder, plan.keep), draws, **shown)
        finally:
            folder.release()
