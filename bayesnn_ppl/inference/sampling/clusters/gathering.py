"""A run on a cluster, seen by the process that started it: it gathers, shows and ends it."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bayesnn_ppl import storage
from bayesnn_ppl.core.arguments import series
from bayesnn_ppl.distributed import EndedTogether
from bayesnn_ppl.distributed.clusters import say_dashboard
from bayesnn_ppl.distributed.tasks import divided
from bayesnn_ppl.inference.runtime.block_loop import BlockLoop
from bayesnn_ppl.inference.runtime.draw_writers import FolderSink
from bayesnn_ppl.inference.runtime.interrupts import uninterrupted
from bayesnn_ppl.inference.runtime.keep import with_kept_groups
from bayesnn_ppl.inference.runtime.metrics_log import MetricsFile, Watch
from bayesnn_ppl.inference.runtime.progress import ProgressBar
from bayesnn_ppl.inference.sampling.clusters.parts import (
    Part,
    draws_of,
    joined,
    parts_of,
    remove_parts,
    split_run,
)
from bayesnn_ppl.inference.sampling.clusters.tasks import Tasks, tasks_of
from bayesnn_ppl.inference.sampling.plan import Plan
from bayesnn_ppl.inference.sampling.run import Progress
from bayesnn_ppl.inference.sampling.run_end import RunEnd
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.storage import RunFolder

__all__ = ["execute_on_cluster", "require_seen"]

_LOOK_SECONDS = 0.5  # between two looks at the parts, at least,
_LOOK_SHARE, _LONGEST_SECONDS = 5.0, 2.0  # and so many times what a look takes, at most that
_ALONE_SECONDS = 30.0  # without a worker, after which that is said


def execute_on_cluster(
    plan: Plan,
    folder: RunFolder,
    draws: int,
    client: Any,
    *,
    out: str,
    progress: bool,
    callback: Callable[[Progress], Any] | None,
) -> Posterior:
    """Carry the plan out on the workers of a cluster, until the folder holds `draws` draws.

    Args:
        plan: of the whole run.
        folder: of the run, open for writing.
        draws: per chain.
        client: of Dask.
        out: folder or address of the run, as the workers know it.
        progress, callback: as in `sample`.

    Raises:
        RuntimeError: the run was ended in its warm-up.
        KeyboardInterrupt: Ctrl-C before there was a draw to return.
    """
    began = time.perf_counter()
    parts = _parts(folder, out, plan.inputs.chains, len(client.nthreads()))
    with ProgressBar(shown=progress, chains=plan.inputs.chains) as bar:
        say_dashboard(client, bar.say)
        run = _Gathering(plan, folder, parts, bar, callback, began)
        with tasks_of(client, plan) as tasks:
            try:
                run.watch(tasks, draws)
            except KeyboardInterrupt:
                run.interrupted, run.end.record = True, {"by": "interrupt"}
            with uninterrupted():
                # Whoever interrupts wants an end at once: the parts stay as they are.
                together = run.end.record["by"] not in ("interrupt", "callback")
                made = tasks.ended(parts, together=together)
        require_seen(parts)
        run.gather(min(made), draws, ending=False)
    if not run.done:
        by = run.end.record["by"]
        said = f"after {run.warmup_done()} of {plan.settings.warmup} draws: there is nothing to "
        said += "return yet. A run on disk can be resumed."
        if run.interrupted:
            raise KeyboardInterrupt(f"Interrupted in the warm-up, {said}")
        raise EndedTogether(f"The run was ended in its warm-up, {said}", by=by)
    wanted = run.done if run.end.record["by"] in ("convergence", "stopped") else draws
    run.describe(draws_requested=wanted)
    if min(made) == max(made):
        run.keep_state(complete=run.done >= wanted)
        remove_parts(out, parts)
    posterior = Posterior.load(folder.path, plan.settings.kernel.model)
    posterior.data = plan.rows.data
    return posterior if run.done < wanted else with_kept_groups(posterior, plan.keep, folder)


def _parts(folder: RunFolder, out: str, chains: int, workers: int) -> list[Part]:
    """The parts of a run that has some, or new ones."""
    if folder.commit_record["checkpoint"] is None and folder.config.get("parts"):
        return parts_of(out, folder.config["parts"])
    parts = parts_of(out, divided(chains, workers))
    remove_parts(out, parts)
    if folder.commit_record["checkpoint"] is not None:
        split_run(folder, parts)
    folder.update_config(parts=[list(part.chains) for part in parts])
    return parts


def require_seen(parts: Sequence[Part]) -> None:
    """Raise RuntimeError where the workers have written to folders that are not seen from here."""
    if unseen := [part.place for part in parts if part.record() is None]:
        raise RuntimeError(
            f"The workers have written to {series(unseen)}, which this process does not see. Give "
            "`out` a folder of a file system that all share, or an address such as s3://bucket/run."
        )


class _Gathering:
    """Draws of all parts on their way into the folder of the run."""

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        parts: Sequence[Part],
        bar: ProgressBar,
        callback: Callable[[Progress], Any] | None,
        began: float,
    ) -> None:
        self._plan, self._folder, self._parts, self._bar = plan, folder, parts, bar
        self._loop, self._began = BlockLoop(bar, callback), began
        record = folder.commit_record
        self.done, self._divergences = int(record["draws"]), 0
        self._watch = Watch(plan.probe, plan.rows.standardisation)
        for functions in FolderSink(folder, plan.keep).kept_functions():
            self._watch.add(functions)
        self._metrics = MetricsFile(
            folder.path / "metrics.csv", phase=record["phase"], draws=record["done"]
        )
        self.end = RunEnd(plan, self._watch, bar, began)
        self.interrupted = False
        self._before, self._shown = self.done, ("", 0)

    def _records(self) -> list[Mapping[str, Any] | None]:
        return [part.record() for part in self._parts]

    def warmup_done(self, records: Sequence[Mapping[str, Any] | None] | None = None) -> int:
        """Draws of the warm-up that every part has made, by its `records`, or those of now."""
        warmup = self._plan.settings.warmup
        return min(
            0 if r is None else r["done"] if r["phase"] == "warmup" else warmup
            for r in (self._records() if records is None else records)
        )

    def watch(self, tasks: Tasks, draws: int) -> None:
        """Have the parts made, and gather and show what they commit, until the run ends."""
        tasks.start(self._parts, draws)
        known, alone = tasks.workers(), time.monotonic()
        while tasks.running():
            looked = time.monotonic()
            self._say_who_is_lost(known, now := tasks.workers())
            alone = looked if now else alone
            if looked - alone > _ALONE_SECONDS:
                self._bar.say("The cluster has no worker. The run continues when one comes.")
                alone = looked + 600.0
            known = now
            if self._look(draws):
                return
            took = time.monotonic() - looked
            time.sleep(min(max(_LOOK_SECONDS, _LOOK_SHARE * took), _LONGEST_SECONDS))

    def _say_who_is_lost(self, before: set[str], now: set[str]) -> None:
        for worker in sorted(before - now):
            self._bar.say(
                f"The worker {worker} is lost. Its chains continue from their last commit on "
                "another one."
            )

    def _look(self, draws: int) -> bool:
        """Gather what is new; returns whether the run ends here."""
        warmup, records = self._plan.settings.warmup, self._records()
        drawn = [0 if record is None else record["draws"] for record in records]
        if min(drawn) > self.done:
            return self.gather(min(drawn), draws)
        if self.done:
            return self.end.is_done("sample", self.done)
        done = self.warmup_done(records)
        if warmup:
            self._show("warmup", warmup, done, {})
        asked = self._asked("warmup", warmup, done, {})
        return self._ends(asked) or self.end.is_done("warmup", done)

    def gather(self, until: int, draws: int, *, ending: bool = True) -> bool:
        """Bring draws of all parts into the folder, and show them.

        Returns:
            Whether the run ends here; where it has ended already, `ending` is false.
        """
        ends = False
        if until <= self.done:
            return ends
        for last, groups in draws_of(self._parts, self.done, until):
            if "site_names" not in self._folder.config:
                config = storage.read_config(storage.fetched(self._parts[0].place))
                self._folder.config["site_names"] = config["site_names"]
            self._folder.append(groups, thinned=True)
            self.done = last
            statistics = groups["sample_stats"]
            self._divergences += int(np.sum(statistics.get("diverging", 0)))
            self.end.notice_stopped("sample", last, statistics)
            self._watch.add(groups.get("predictions", {}))
            self._show("sample", draws, last, statistics)
            asked = self._asked("sample", draws, last, groups)
            if ending:
                ends = (
                    self._ends(asked)
                    or self.end.is_still(statistics)
                    or self.end.is_done("sample", last)
                )
            if ends or last == until or self._folder.holds_a_chunk:
                self._folder.commit(None, phase="sample", done=last)
            if ends:
                break
        return ends

    def _show(self, phase: str, total: int, done: int, statistics: Any) -> None:
        if phase != self._shown[0]:
            self._bar.phase(phase, total, 0 if phase == "warmup" else self._before)
        if (phase, done) != self._shown and done:
            self._bar.advance(done, statistics, self._divergences)
        self._shown = phase, done

    def _asked(self, phase: str, total: int, done: int, groups: Mapping[str, Any]) -> bool:
        """Write the metrics down, and ask the caller's function whether the run is to end."""
        seconds, statistics = time.perf_counter() - self._began, groups.get("sample_stats", {})
        metrics = self._watch.row(phase, done, seconds, statistics, self._divergences)
        if groups:
            self._metrics.write(metrics)
        draws, functions = groups.get("posterior", {}), groups.get("predictions", {})
        return self._loop.asked_to_end(
            lambda: Progress(phase, done, total, seconds, draws, statistics, functions, metrics)
        )

    def _ends(self, asked: bool) -> bool:
        if asked:
            self.end.early, self.end.record = True, {"by": "callback"}
        return asked

    def describe(self, *, draws_requested: int) -> None:
        """Write down what is known of the run at its end."""
        first = storage.read_config(storage.fetched(self._parts[0].place))
        self._folder.update_config(
            draws=self.done,
            draws_requested=draws_requested,
            interrupted=self.interrupted,
            ended=self.end.record,
            stopped_chains=sorted(self.end.stopped),
            seconds={**first.get("seconds", {}), "total": round(self._folder.seconds, 3)},
            devices=first["devices"],
            processes=len(self._parts),
        )

    def keep_state(self, *, complete: bool) -> None:
        """Keep the state of all chains, with which one process could continue the run."""
        opened = [RunFolder.reopen(storage.fetched(part.place)) for part in self._parts]
        try:
            states = [one.load_state() for one in opened]
            moments = [m for one in opened if (m := one.load_moments()) is not None]
            starts = [s for one in opened if (s := one.load_starts()) is not None]
        finally:
            for one in opened:
                one.release()
        if starts:
            self._folder.keep_starts(joined(starts))
        self._folder.commit(
            joined(states),
            phase="sample",
            done=self.done,
            complete=complete,
            moments=joined(moments) if moments else None,
        )
        self._folder.update_config(parts=None)
