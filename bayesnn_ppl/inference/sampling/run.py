"""One run of a compiled program: block by block, watched, and safe to interrupt."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpyro.infer import NUTS
from numpyro.infer.mcmc import MCMCKernel

from bayesnn_ppl.core.arguments import natural
from bayesnn_ppl.core.mesh import replicate
from bayesnn_ppl.distributed import EndedTogether
from bayesnn_ppl.inference.runtime.block_loop import BlockLoop
from bayesnn_ppl.inference.runtime.draw_writers import Sink
from bayesnn_ppl.inference.runtime.interrupts import uninterrupted
from bayesnn_ppl.inference.runtime.metrics_log import Watch
from bayesnn_ppl.inference.runtime.progress import ProgressBar
from bayesnn_ppl.inference.runtime.state_arrays import arrays_to_state, state_to_arrays
from bayesnn_ppl.inference.sampling.chain_starts import explain_faults
from bayesnn_ppl.inference.sampling.compiled_program import Program
from bayesnn_ppl.inference.sampling.plan import Plan
from bayesnn_ppl.inference.sampling.run_end import RunEnd
from bayesnn_ppl.inference.sampling.streamed_plan import RowBlocks
from bayesnn_ppl.inference.sampling.training_rows import HeldRows
from bayesnn_ppl.storage import variable_names

__all__ = ["Progress", "Run"]

_PREDICTIVE = 2**31  # keys from here on make predictive samples, and never a chain's moves


@dataclass(frozen=True)
class Progress:
    """What a callback sees after each block.

    Attributes:
        phase: "warmup" or "sample".
        done, total: draws of this phase made so far, and asked for.
        seconds: since this process began to sample, compilation left out.
        draws: variable name -> array (chain, block, ...) of this block's draws, constrained.
        statistics: name -> array (chain, block).
        functions: name -> array (chain, block, ...) of what each draw's network says at the
            probe inputs, in the model's units: `mean` and `sd`, or `probability`; `y`, a predictive
            sample; `log_likelihood` if there are targets. Empty without probe inputs.
        metrics: name -> number, as in `metrics.csv` of a run on disk.
    """

    phase: str
    done: int
    total: int
    seconds: float
    draws: Mapping[str, np.ndarray]
    statistics: Mapping[str, np.ndarray]
    functions: Mapping[str, np.ndarray]
    metrics: Mapping[str, Any]


class Run:
    """One run: its state on the devices, and a sink for what it draws.

    Args:
        plan: what is run.
        program: compiled for it.
        feed: what makes draws of its rows.
        called: when the caller called, for `until`.
        bar, callback, sink: what hears of the draws.
    """

    def __init__(
        self,
        plan: Plan,
        program: Program,
        feed: HeldRows | RowBlocks,
        *,
        called: float,
        bar: ProgressBar,
        callback: Callable[[Progress], Any] | None,
        sink: Sink,
    ) -> None:
        self._plan, self._share, self._team = plan, plan.share, plan.share.team
        self._settings, self._program, self._feed = plan.settings, program, feed
        probe, mesh = plan.probe, plan.settings.mesh
        self._probe = replicate((None if probe is None else (probe.x, probe.y)), mesh)
        self._watch = Watch(probe, plan.rows.standardisation, plan.superchains)
        self._predictive_keys = replicate(plan.keys(_PREDICTIVE), mesh)
        self._data = (program.place(plan.rows.x), program.place(plan.rows.y))
        self._bar, self._loop, self._sink = bar, BlockLoop(bar, callback), sink
        self.end = RunEnd(plan, self._watch, bar, called)
        self._state: Any = None
        self.seconds: dict[str, float] = {}
        self.interrupted = False
        self._began = time.perf_counter()
        self._variables: dict[str, str] | None = None

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - began

    def state(self) -> dict[str, np.ndarray]:
        """The sampler's state, as named arrays; of several processes, this one's chains."""
        return state_to_arrays(self._state, self._share.chains_of_program)

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from the state of all chains; ValueError when it is of another program."""
        self._state = arrays_to_state(arrays, self._program.state)

    def watched_before(self, functions: Mapping[str, np.ndarray]) -> None:
        """Take function values of all chains that an earlier process kept."""
        self._watch.add(functions)

    def start(self) -> None:
        """Put every chain at its start; RuntimeError when one has no finite density."""
        plan = self._plan
        with self._timed("start"):
            given = ((plan.keys(), plan.start_keys()), dict(plan.values))
            keys, values = replicate(given, self._settings.mesh)
            state, z, faults, started = self._program.start(
                keys, values, (*self._data, self._probe)
            )
            if self._share.spans_hosts:
                z, faults, started = jax.tree.map(np.asarray, (z, faults, started))
            problem = explain_faults(
                self._settings.kernel.model,
                plan.rows.x,
                plan.rows.y,
                z,
                faults,
                plan.start,
                self._settings.discrete,
            )
            if problem is not None:
                raise RuntimeError(problem)
            self._state = state
        if plan.first_starts is not None:  # they count, also for how far apart the chains began
            started = {"starts": dict(plan.first_starts)}
        names = variable_names(started["starts"])
        started["starts"] = {names[site]: a for site, a in started["starts"].items()}
        self._sink.take_starts(
            {
                f"{g}/{name}": np.asarray(a)
                for g, block in started.items()
                for name, a in block.items()
            }
        )

    def warm_up(self, warmup: int, *, done: int = 0) -> None:
        """Make the draws that adapt the kernel; they are not kept.

        Raises:
            RuntimeError: the callback ended the run, and there is nothing to return.
        """
        with self._timed("warmup"):
            try:
                made = self._advance("warmup", warmup, thinning=1, done=done)
            except BaseException:
                if self._team.count == 1:  # several cannot commit when one has failed
                    self._keep_warmup()
                raise
            self._keep_warmup()
        if self.end.early:
            by = self.end.record["by"]
            who = "The callback" if by == "callback" else "`until`, by its max_time,"
            raise EndedTogether(
                f"{who} ended the run in its warm-up, after {made} of {warmup} draws: "
                "there is nothing to return yet. A run on disk can be resumed.",
                by=by,
            )

    def _keep_warmup(self) -> None:
        """On disk, even a warm-up that is interrupted is not lost."""
        with uninterrupted():
            self._sink.checkpoint(self.state, "warmup", self._done, now=True)

    def draw(self, draws: int, thinning: int) -> None:
        """Make the draws that are kept; an interrupt keeps what there is."""
        with self._timed("sample"):
            try:
                self._advance("sample", draws, thinning, done=self._sink.done)
            except KeyboardInterrupt:
                if not self._sink.done:
                    raise
                self.interrupted, self.end.record = True, {"by": "interrupt"}
                self._bar.say(
                    f"Interrupted: {self._sink.done} of {draws} draws per chain are kept."
                )

    def _advance(self, phase: str, total: int, thinning: int, *, done: int) -> int:
        """Go from `done` to `total` draws, block by block; returns how many are made."""
        self._bar.phase(phase, total, done)
        self._done, divergences = done, 0

        def make(done: int, count: int) -> tuple[Any, dict[str, dict[str, np.ndarray]]]:
            state, groups = self._feed.make(
                self._call,
                self._state,
                self._data,
                phase=phase,
                done=done,
                count=count,
                thinning=thinning,
                fetched=self._share.fetched,
            )
            # Of function values, those of all chains; the sink takes this process's.
            return state, self._named(groups, count)

        def keep(block: Any, done: int) -> None:
            self._state, groups = block
            self._done = done
            if phase == "sample":
                self._sink.append(self._share.written(groups))
            due = self._team.agree(self._sink.due())[0]
            self._sink.checkpoint(self.state, phase, done, now=due)

        def show(block: Any, done: int) -> bool:
            nonlocal divergences
            seconds, groups = time.perf_counter() - self._began, block[1]
            statistics = groups["sample_stats"]
            functions = groups.get("predictions", {})
            divergences += int(np.sum(statistics.get("diverging", 0)))
            self.end.notice_stopped(phase, done, statistics)
            self._bar.advance(done, statistics, divergences)
            if phase == "sample":
                self._watch.add(functions)
            metrics = self._watch.row(phase, done, seconds, statistics, divergences)
            self._sink.watch(metrics)
            draws = groups.get("posterior", {})
            ends = self._loop.asked_to_end(
                lambda: Progress(phase, done, total, seconds, draws, statistics, functions, metrics)
            )
            if any(self._team.agree(ends or self._share.interrupted)):
                self.end.early, self.end.record = True, {"by": "callback"}
                return True
            return done < total and (self.end.is_still(statistics) or self.end.is_done(phase, done))

        return self._loop.run(
            total,
            done=done,
            most=self._program.block,
            make=make,
            keep=keep,
            show=show,
            cost=thinning,
            agree=lambda count: self._team.agree(count)[0],
        )

    def _call(self, state: Any, rows: tuple[Any, Any], *counts: int) -> tuple[Any, Any]:
        """The compiled program, on these rows."""
        numbers = replicate([np.int32(count) for count in counts], self._settings.mesh)
        data = (*rows, self._probe)
        return self._program.advance(state, data, self._predictive_keys, numbers)

    def _named(self, groups: Any, count: int) -> dict[str, dict[str, np.ndarray]]:
        """The first `count` draws of the buffers, under the names they are stored by."""
        found = {
            group: {name: self._share.fetched(a)[:, :count] for name, a in block.items()}
            for group, block in groups.items()
        }
        found["sample_stats"] = _named_statistics(found["sample_stats"], self._settings.kernel)
        if "posterior" in found:
            names = self._names(found["posterior"])
            found["posterior"] = {name: found["posterior"][site] for site, name in names.items()}
        return found

    def _names(self, draws: Mapping[str, np.ndarray]) -> dict[str, str]:
        if self._variables is None:
            # JAX sorts the sites of a draw letter by letter, layer 10 before layer 2.
            self._variables = variable_names(natural(draws))
            self._sink.site_names = {name: site for site, name in self._variables.items()}
        return self._variables


def _named_statistics(
    statistics: Mapping[str, np.ndarray], kernel: MCMCKernel
) -> dict[str, np.ndarray]:
    """Statistics under ArviZ's names: the log density as `lp`, a NUTS tree's depth."""
    named = dict(statistics)
    if "potential_energy" in named:
        named["lp"] = -named.pop("potential_energy")
    if isinstance(kernel, NUTS) and "n_steps" in named:
        # A full tree of depth d has 2^d - 1 leapfrogs.
        named["tree_depth"] = np.floor(np.log2(np.maximum(named["n_steps"], 1))).astype(int) + 1
    return named
