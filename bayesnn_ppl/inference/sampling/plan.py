"""What a run needs, checked before anything is compiled, and how it is carried out."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from numpyro.infer.mcmc import MCMCKernel

from bayesnn_ppl.core.arguments import natural, whole_number
from bayesnn_ppl.core.arrays import check_array, check_targets
from bayesnn_ppl.core.mesh import more_cpu_devices
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.distributed import ALONE, current
from bayesnn_ppl.inference.contract import ModelSummary, check_task, inspect_model
from bayesnn_ppl.inference.runtime.device_placement import place_chains
from bayesnn_ppl.inference.runtime.draw_writers import FolderSink, MemorySink
from bayesnn_ppl.inference.runtime.interrupts import heard, uninterrupted, what_is_kept
from bayesnn_ppl.inference.runtime.keep import Keep, Probe, check_keep
from bayesnn_ppl.inference.runtime.kept_groups import with_kept_groups
from bayesnn_ppl.inference.runtime.metrics_log import Watch
from bayesnn_ppl.inference.runtime.progress import ProgressBar
from bayesnn_ppl.inference.runtime.provenance import kept
from bayesnn_ppl.inference.runtime.stopping_rule import Until
from bayesnn_ppl.inference.sampling.chain_starts import network_sites, resolve_start
from bayesnn_ppl.inference.sampling.compiled_program import compile_program
from bayesnn_ppl.inference.sampling.noisy_models import check_kernel_of_noise
from bayesnn_ppl.inference.sampling.process_share import Share, check_sharing, share_of
from bayesnn_ppl.inference.sampling.provenance import describe_run
from bayesnn_ppl.inference.sampling.run import Progress, Run
from bayesnn_ppl.inference.sampling.streamed_plan import (
    StreamPlan,
    first_rows,
    plan_stream,
    spread_rows,
    stream_of,
)
from bayesnn_ppl.inference.sampling.streamed_run import RowBlocks, StreamedRun
from bayesnn_ppl.inference.sampling.traced_functions import Settings, rows_at_once
from bayesnn_ppl.posterior.posterior import Posterior

__all__ = ["Plan", "execute", "make_plan"]

_PREDICTIVE = 2**31  # keys from here on make predictive samples, and never a chain's moves
_WATCHED_ROWS = 100


@dataclass(frozen=True)
class Plan:
    """A run that has passed every check and not begun.

    Where the data are streamed, `x` and `y` are the rows of one minibatch.
    """

    settings: Settings
    summary: ModelSummary
    x: np.ndarray
    y: np.ndarray
    values: Mapping[str, np.ndarray]
    seed: int
    thinning: int
    chain_method: str
    standardisation: Any
    dataset: Any  # facts of the data set that the targets are of, or None
    keep: Keep
    probe: Probe | None
    until: Until | None
    trainer: Any = None  # of the starts, such as an `Ensemble`
    started: Any = None  # what it says of them
    stream: StreamPlan | None = None
    share: Share = field(default_factory=lambda: Share(ALONE, (0, 0), False, False))
    chains: int = 0  # of the whole run, of which `settings` has those of this program

    @property
    def start(self) -> str:
        """Where chains start, in a word."""
        if self.trainer is not None:
            return "trained"
        if self.settings.networks:
            return "network"
        return "given" if self.values else "drawn"

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray] | None:
        """All rows, `(x, y)`; None where they are streamed."""
        return None if self.stream is not None else (self.x, self.y)

    def describe(self, **more: Any) -> dict[str, Any]:
        """The provenance of the run, as JSON-ready values, with `more` of what happened."""
        units = self.standardisation
        streamed = {} if self.stream is None else self.stream.describe()
        with arithmetic(float64=self.settings.float64):
            described = describe_run(
                self.settings,
                self.summary,
                self.x,
                self.y,
                run={
                    "warmup": self.settings.warmup,
                    "draws": 0,
                    "chains": self.chains,
                    "processes": self.share.team.count,
                    "thinning": self.thinning,
                    "seed": self.seed,
                    "chain_method": self.chain_method,
                    "start": self.started or self.start,
                    "interrupted": False,
                    "standardisation": None if units is None else units.to_dict(),
                    "dataset": self.dataset,
                    **kept(self.keep, self.probe),
                    **more,
                },
            )
            return described | streamed


def make_plan(
    kernel: MCMCKernel,
    x: Any,
    y: Any,
    *,
    warmup: int,
    chains: int,
    seed: int,
    chain_method: str,
    mesh: Mesh | None,
    init: Any,
    thinning: int,
    float64: bool,
    keep: Keep | None,
    until: Mapping[str, Any] | None,
    on_disk: bool,
    simulated: bool = False,
) -> Plan:
    """Check every argument of `sample`; see there. Labels that are simulated may lack a class."""
    _check_kernel(kernel)
    warmup = whole_number(warmup, "`warmup`", at_least=0)
    chains = whole_number(chains, "`chains`", at_least=1)
    thinning = whole_number(thinning, "`thinning`", at_least=1)
    seed = whole_number(seed, "`seed`", at_least=0, below=2**32)
    stream = stream_of(x, y)
    if stream is None:
        inputs = check_array(x, "x", float64=float64)
        targets = check_targets(y, "y", float64=float64)
    else:
        inputs, targets = first_rows(stream, kernel, init, float64=float64)
    done_when = Until.parse(until)
    # Set either way: the caller's own setting is no part of what is compiled.
    with arithmetic(float64=float64):
        summary = inspect_model(
            kernel.model,
            inputs,
            targets,
            kernel=kernel,
            all_rows=stream is None and not simulated,
        )
        check_task(y, summary)
        summary = _tempered(summary, kernel)
        check_kernel_of_noise(kernel, summary)
        if summary.discrete:
            targets = targets.astype(np.int32)
        _warn_of_cold_latents(summary)
        trainer = init if callable(getattr(init, "starts", None)) else None
        check_sharing(kernel, trainer, done_when, chains, on_disk=on_disk)
        networks: tuple[str, ...] = ()
        if isinstance(init, str) and init == "network":
            networks, init = network_sites(kernel.model, summary, inputs, targets, chains), {}
        strategy, values = resolve_start(None if trainer else init, kernel, summary, chains)
        own = chains if current().collective else chains // current().count
        mesh, arrangement = place_chains(
            chain_method,
            mesh,
            own,
            kernel.model,
            inputs,
            targets,
            rows_at_once=rows_at_once(kernel),
            discrete=bool(summary.discrete),
        )
        if done_when and done_when.watches_functions:
            seen = inputs if stream is None else spread_rows(stream, float64=float64)
            keep = _watched(keep, seen)
        keep, probe = check_keep(
            keep, kernel.model, summary, inputs, on_disk=on_disk, float64=float64
        )
    settings = Settings(
        kernel,
        strategy,
        warmup,
        own,
        mesh,
        arrangement,
        float64,
        weights=keep.weights != "none",
        discrete=tuple(summary.discrete_latents),
        networks=networks,
    )
    if keep.groups and stream is not None:
        raise ValueError(
            "`Keep(groups=...)` needs all training data as arrays, and these are streamed. Leave "
            "it out, or give arrays."
        )
    share = share_of(settings, chains, on_disk=on_disk)
    if own < chains:
        values = {name: value[slice(*share.chains)] for name, value in values.items()}
    streamed = None
    if stream is not None:
        with arithmetic(float64=float64):
            streamed = plan_stream(stream, settings, summary, inputs, targets, seed=seed)
    return Plan(
        settings,
        summary,
        inputs,
        targets,
        values,
        seed,
        thinning,
        chain_method,
        getattr(y if stream is None else stream, "standardisation", None),
        getattr(y, "dataset", None),
        keep,
        probe,
        done_when,
        trainer,
        stream=streamed,
        share=share,
        chains=chains,
    )


def execute(
    plan: Plan,
    sink: MemorySink | FolderSink,
    draws: int,
    *,
    progress: bool,
    callback: Callable[[Progress], Any] | None,
) -> Posterior:
    """Carry the plan out, from where the sink stands, until it holds `draws` draws.

    Raises:
        KeyboardInterrupt: Ctrl-C, before there was a draw to return; it says what is kept.
    """
    place = sink.folder.path if isinstance(sink, FolderSink) else None
    with plan.share.team.guarded(place), plan.share.patient(), heard():
        try:
            return _execute(plan, sink, draws, progress=progress, callback=callback)
        except KeyboardInterrupt:
            said = what_is_kept(
                sink.folder if isinstance(sink, FolderSink) else None,
                warmup=plan.settings.warmup,
                draws=draws,
                repeatable=plan.start in ("drawn", "network"),
            )
            raise KeyboardInterrupt(said) from None


def _execute(
    plan: Plan,
    sink: MemorySink | FolderSink,
    draws: int,
    *,
    progress: bool,
    callback: Callable[[Progress], Any] | None,
) -> Posterior:
    began = time.perf_counter()
    before = sink.restored_state()
    if before is None and plan.trainer is not None:
        plan = _trained(plan, progress=progress)
        if isinstance(sink, FolderSink):
            sink.folder.update_config(start=plan.started)
    settings, model = plan.settings, plan.settings.kernel.model
    transitions = settings.warmup + draws * plan.thinning
    with (
        arithmetic(float64=settings.float64),
        ProgressBar(shown=progress and plan.share.team.leads, chains=plan.chains) as bar,
        RowBlocks.opened(plan.stream, settings, transitions) as blocks,
    ):
        if settings.chains > 1 and plan.chain_method == "parallel" and len(jax.devices()) == 1:
            if jax.devices()[0].platform == "cpu":
                bar.say("All chains share one CPU device. " + more_cpu_devices(settings.chains))
        first = 0 if settings.chains == plan.chains else plan.share.chains[0]
        keys = _chain_keys(plan.seed, settings.chains, first=first)
        probe = None if plan.probe is None else (plan.probe.x, plan.probe.y)
        compiled = settings if plan.stream is None else plan.stream.settings(settings)
        shape = None if plan.stream is None else plan.stream.blocks
        with bar.compiling():
            program = compile_program(compiled, keys, plan.values, plan.x, plan.y, probe, shape)
        watch = Watch(plan.probe, plan.standardisation)
        run_of = Run if blocks is None else partial(StreamedRun, blocks=blocks)
        run = run_of(
            settings,
            program,
            plan.x,
            plan.y,
            predictive_keys=_chain_keys(plan.seed, settings.chains, first=_PREDICTIVE + first),
            probe=plan.probe,
            watch=watch,
            called=began,
            bar=bar,
            callback=callback,
            until=plan.until,
            sink=sink,
            share=plan.share,
        )
        if before is None:
            run.start(keys, plan.values, start=plan.start)
            sink.checkpoint(run.state, "warmup", 0, now=True)
        else:
            run.restore(before)
        if isinstance(sink, FolderSink):
            for functions in sink.kept_functions():
                watch.add(plan.share.of_program(functions))
        if sink.phase == "warmup":
            run.warm_up(settings.warmup, done=sink.warmup_done)
        run.draw(draws, plan.thinning)
    seconds = {"compile": program.compile_seconds, **run.seconds}
    seconds["total"] = time.perf_counter() - began
    with uninterrupted():  # Ctrl-C from here on would lose the draws
        happened: dict[str, Any] = {
            "draws": sink.done,
            "interrupted": run.interrupted,
            "ended": run.ended,
            "stopped_chains": sorted(run.stopped),
            "seconds": {name: round(value, 3) for name, value in seconds.items()},
        }
        if isinstance(sink, FolderSink):
            if run.ended["by"] in ("convergence", "stopped"):  # more draws are not wanted of it
                happened["draws_requested"] = draws = sink.done
            sink.finish(run.state(), complete=sink.done >= draws, **happened)
            plan.share.team.agree("the run is finished")
            sink.folder.settle()
            posterior = Posterior.load(sink.folder.path, model)
            posterior.data = plan.data
            if sink.done < draws:
                return posterior
            return with_kept_groups(posterior, plan.keep, sink.folder)
        posterior = Posterior.from_groups(
            sink.filled(),
            plan.describe(draws_requested=draws, site_names=sink.site_names, **happened),
            moments=None if sink.moments is None else sink.moments.arrays(),
            probe=None if plan.probe is None else plan.probe.arrays(),
            starts=sink.starts,
            model=model,
        )
        posterior.data = plan.data
        return posterior if run.interrupted else with_kept_groups(posterior, plan.keep)


def _trained(plan: Plan, *, progress: bool) -> Plan:
    """The plan with starts that its trainer found, one member for each chain."""
    settings = plan.settings
    model = settings.kernel.model
    found = plan.trainer.starts(
        model,
        plan.x,
        plan.y,
        chains=settings.chains,
        seed=plan.seed,
        float64=settings.float64,
        mesh=settings.mesh,
        progress=progress,
    )
    strategy, values = resolve_start(found.values, settings.kernel, plan.summary, settings.chains)
    return replace(
        plan,
        settings=replace(settings, strategy=strategy),
        values=values,
        started=found.record,
    )


def _watched(keep: Keep | None, inputs: np.ndarray) -> Keep:
    """Function values must be known to `until`: without a probe, those at training inputs are."""
    keep = Keep() if keep is None else keep
    if not isinstance(keep, Keep) or keep.probe is not None:
        return keep
    rows = np.unique(np.linspace(0, len(inputs) - 1, _WATCHED_ROWS).astype(int))
    return replace(keep, probe=inputs[rows])


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


def _tempered(summary: ModelSummary, kernel: MCMCKernel) -> ModelSummary:
    """The summary at the kernel's own temperature, which is that of the whole posterior."""
    temperature = getattr(kernel, "posterior_temperature", 1.0)
    if summary.local and hasattr(kernel, "batch_size"):
        raise ValueError(
            f"The latent sites {list(summary.local)} have a value for each row of the data, and a "
            f"minibatch of {type(kernel).__name__} has no rows to move the others by. Integrate "
            "them out, or take a kernel of the whole data such as NUTS."
        )
    if temperature == 1.0:
        return summary
    if summary.posterior_temperature != 1.0:
        raise ValueError(
            f"The model is `cold`, T = {summary.posterior_temperature}, and the kernel has the "
            f"temperature {temperature}: two whole-posterior temperatures multiply without a "
            "trace. Give the kernel the temperature, and the model as it was before `cold`."
        )
    return replace(summary, posterior_temperature=temperature)


def _warn_of_cold_latents(summary: ModelSummary) -> None:
    # Whole numbers are what they are in any parametrisation.
    others = natural(set(summary.latents) - summary.parameters - set(summary.discrete_latents))
    if summary.posterior_temperature != 1.0 and others:
        warnings.warn(
            f"The posterior at temperature {summary.posterior_temperature} depends on how the "
            "program is "
            f"parametrised, because it has latent sites besides network parameters: {others}. "
            "Fix them, or temper the likelihood alone with `tempered(T)`.",
            stacklevel=3,
        )


@jax.jit
def _fold_in(key: jax.Array, index: jax.Array) -> jax.Array:
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index)


def _chain_keys(seed: int, chains: int, first: int = 0) -> jax.Array:
    """One key a chain; chain i has the same key whatever the number of chains."""
    return _fold_in(jax.random.key(seed), np.arange(first, first + chains, dtype=np.uint32))
