"""A planned run, carried out."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax

from bayesnn_ppl.core.mesh import more_cpu_devices
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.inference.runtime.draw_writers import FolderSink, MemorySink
from bayesnn_ppl.inference.runtime.interrupts import heard, uninterrupted, what_is_kept
from bayesnn_ppl.inference.runtime.keep import with_kept_groups
from bayesnn_ppl.inference.runtime.progress import ProgressBar
from bayesnn_ppl.inference.sampling.chain_starts import resolve_start
from bayesnn_ppl.inference.sampling.compiled_program import compile_program
from bayesnn_ppl.inference.sampling.plan import Plan
from bayesnn_ppl.inference.sampling.run import Progress, Run
from bayesnn_ppl.posterior.posterior import Posterior

__all__ = ["execute"]


def execute(
    plan: Plan,
    sink: MemorySink | FolderSink,
    draws: int,
    *,
    progress: bool,
    callback: Callable[[Progress], Any] | None,
) -> Posterior:
    """Carry out the plan from the sink's current state, until it holds `draws` draws.

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
    settings, rows, inputs = plan.settings, plan.rows, plan.inputs
    transitions = settings.warmup + draws * inputs.thinning
    with (
        arithmetic(float64=settings.float64),
        ProgressBar(shown=progress and plan.share.team.leads, chains=inputs.chains) as bar,
        rows.opened(settings, transitions) as feed,
    ):
        if settings.chains > 1 and inputs.chain_method == "parallel" and len(jax.devices()) == 1:
            if jax.devices()[0].platform == "cpu":
                bar.say("All chains share one CPU device. " + more_cpu_devices(settings.chains))
        probe = None if plan.probe is None else (plan.probe.x, plan.probe.y)
        with bar.compiling():
            program = compile_program(
                rows.compiled_settings(settings),
                plan.keys(),
                plan.values,
                (rows.x, rows.y, probe),
                rows.blocks,
            )
        run = Run(plan, program, feed, called=began, bar=bar, callback=callback, sink=sink)
        if before is None:
            run.start()
            sink.checkpoint(run.state, "warmup", 0, now=True)
        else:
            run.restore(before)
        if isinstance(sink, FolderSink):
            for functions in sink.kept_functions():
                run.watched_before(functions)
        if sink.phase == "warmup":
            run.warm_up(settings.warmup, done=sink.warmup_done)
        run.draw(draws, inputs.thinning)
    seconds = {"compile": program.compile_seconds, **run.seconds}
    if isinstance(sink, FolderSink):  # of processes before this one, too
        before = sink.folder.config.get("seconds", {})
        seconds = {n: seconds.get(n, 0.0) + before.get(n, 0.0) for n in before | seconds}
        seconds["total"] = sink.folder.seconds
    else:
        seconds["total"] = time.perf_counter() - began
    with uninterrupted():  # Ctrl-C from here on would lose the draws
        happened: dict[str, Any] = {
            "draws": sink.done,
            "interrupted": run.interrupted,
            "ended": run.end.record,
            "stopped_chains": sorted(run.end.stopped),
            "seconds": {name: round(value, 3) for name, value in seconds.items()},
        }
        if isinstance(sink, FolderSink):
            if run.end.record["by"] in ("convergence", "stopped"):  # no more are wanted
                happened["draws_requested"] = draws = sink.done
            sink.finish(run.state(), complete=sink.done >= draws, **happened)
            plan.share.team.agree("the run is finished")
            sink.folder.settle()
            posterior = Posterior.load(sink.folder.path, settings.kernel.model)
            posterior.data = rows.data
            if sink.done < draws:
                return posterior
            return with_kept_groups(posterior, plan.keep, sink.folder)
        posterior = Posterior.from_groups(
            sink.filled(),
            plan.describe(draws_requested=draws, site_names=sink.site_names, **happened),
            moments=None if sink.moments is None else sink.moments.arrays(),
            probe=None if plan.probe is None else plan.probe.arrays(),
            starts=sink.starts,
            model=settings.kernel.model,
        )
        posterior.data = rows.data
        return posterior if run.interrupted else with_kept_groups(posterior, plan.keep)


def _trained(plan: Plan, *, progress: bool) -> Plan:
    """The plan with starts that its trainer found, one member for each chain."""
    settings = plan.settings
    model = settings.kernel.model
    found = plan.trainer.starts(
        model,
        plan.rows.x,
        plan.rows.y,
        chains=settings.chains,
        seed=plan.inputs.seed,
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
