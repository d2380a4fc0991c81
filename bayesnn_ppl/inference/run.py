"""One run of a compiled program: block by block, watched, and safe to interrupt."""

import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpyro.infer import NUTS
from numpyro.infer.mcmc import MCMCKernel

from bayesnn_ppl.inference.program import Program, Settings
from bayesnn_ppl.inference.progress import ProgressBar
from bayesnn_ppl.inference.starts import explain_faults
from bayesnn_ppl.storage import variable_names

__all__ = ["Progress", "Run", "uninterrupted"]

_BLOCK_SECONDS = 0.5  # how long a Ctrl-C or a bar's next move may take, about


@dataclass(frozen=True)
class Progress:
    """What a callback sees after each block.

    Attributes:
        phase: "warmup" or "sample".
        done, total: draws of this phase made so far, and asked for.
        seconds: since sampling began, compilation left out.
        draws: variable name -> array (chain, block, ...) of this block's draws, constrained.
        statistics: name -> array (chain, block).
    """

    phase: str
    done: int
    total: int
    seconds: float
    draws: Mapping[str, np.ndarray]
    statistics: Mapping[str, np.ndarray]


class Run:
    """One run: its state on the devices, and what has been drawn so far on the host."""

    def __init__(
        self,
        settings: Settings,
        program: Program,
        x: np.ndarray,
        y: np.ndarray,
        bar: ProgressBar,
        callback: Callable[[Progress], Any] | None,
    ) -> None:
        self._settings, self._program, self._bar = settings, program, bar
        self._host_data = (x, y)
        self._data = (program.place(x), program.place(y))
        self._callback = callback
        self._seconds_per_transition: float | None = None
        self._state: Any = None
        self.seconds: dict[str, float] = {}
        self.kept: dict[str, np.ndarray] = {}
        self.statistics: dict[str, np.ndarray] = {}
        self.done = 0
        self.interrupted = self._ended_early = False
        self._began = time.perf_counter()

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - began

    def start(self, keys: jax.Array, values: Mapping[str, Any], *, given: bool) -> None:
        """Put every chain at its start; RuntimeError when one has no finite density."""
        with self._timed("start"):
            state, z, faults = self._program.start(keys, values, *self._data)
            model = self._settings.kernel.model
            problem = explain_faults(model, *self._host_data, z, faults, given)
            if problem is not None:
                raise RuntimeError(problem)
            self._state = state

    def warm_up(self, warmup: int) -> None:
        """Make the draws that adapt the kernel; they are not kept."""
        with self._timed("warmup"):
            made = sum(
                next(iter(statistics.values())).shape[1] if statistics else 0
                for _, statistics in self._blocks("warmup", warmup, thinning=1)
            )
        if self._ended_early:
            raise RuntimeError(
                f"The callback ended the run in its warm-up, after {made} of {warmup} draws: "
                "there is nothing to return yet."
            )

    def draw(self, draws: int, thinning: int) -> None:
        """Make the draws that are kept; an interrupt keeps what there is."""
        with self._timed("sample"):
            try:
                for kept, statistics in self._blocks("sample", draws, thinning):
                    self._keep(kept, statistics, draws)
            except KeyboardInterrupt:
                if not self.done:
                    raise
                self.interrupted = True
                self._bar.say(f"Interrupted: {self.done} of {draws} draws per chain are kept.")
        if self.done < draws:
            self.kept = {name: a[:, : self.done].copy() for name, a in self.kept.items()}
            self.statistics = {n: a[:, : self.done].copy() for n, a in self.statistics.items()}

    def _keep(
        self, kept: dict[str, np.ndarray], statistics: dict[str, np.ndarray], draws: int
    ) -> None:
        made = 0
        for target, block in ((self.kept, kept), (self.statistics, statistics)):
            for name, array in block.items():
                if name not in target:
                    shape = (array.shape[0], draws, *array.shape[2:])
                    target[name] = np.empty(shape, array.dtype)
                made = array.shape[1]
                target[name][:, self.done : self.done + made] = array
        # Last, so that an interrupt between two arrays never leaves a half-written draw counted.
        self.done += made

    def _blocks(self, phase: str, total: int, thinning: int) -> Iterator[Any]:
        """Advance by `total` draws, block by block; yields what each block drew."""
        self._bar.phase(phase, total)
        done = divergences = 0
        while done < total:
            count = min(total - done, self._next_block(thinning))
            block_began = time.perf_counter()
            state, kept, statistics = self._program.advance(
                self._state, *self._data, np.int32(count), np.int32(thinning)
            )
            kept = {name: np.asarray(a)[:, :count] for name, a in kept.items()}
            statistics = {name: np.asarray(a)[:, :count] for name, a in statistics.items()}
            statistics = _named_statistics(statistics, self._settings.kernel)
            now = time.perf_counter()
            self._seconds_per_transition = (now - block_began) / (count * thinning)
            self._state = state
            done += count
            divergences += int(np.sum(statistics.get("diverging", 0)))
            yield kept, statistics
            self._bar.advance(done, statistics, divergences)
            seconds = now - self._began
            if self._stop_early(
                Progress(phase, done, total, seconds, self._named(kept), statistics)
            ):
                self._ended_early = True
                return

    @staticmethod
    def _named(draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        names = variable_names(draws)
        return {names[site]: array for site, array in draws.items()}

    def _next_block(self, thinning: int) -> int:
        """As many draws as take about half a second, so that the bar moves and Ctrl-C is heard."""
        if self._seconds_per_transition is None:
            return 1
        count = _BLOCK_SECONDS / max(self._seconds_per_transition * thinning, 1e-9)
        return int(np.clip(count, 1, self._program.block))

    def _stop_early(self, progress: Progress) -> bool:
        if self._callback is None:
            return False
        try:
            return bool(self._callback(progress))
        except Exception:  # the user's metric must not cost the draws
            self._bar.say("The callback failed and is not called again; the run goes on.")
            self._bar.say(traceback.format_exc())
            self._callback = None
            return False


def _named_statistics(
    statistics: dict[str, np.ndarray], kernel: MCMCKernel
) -> dict[str, np.ndarray]:
    """Statistics under ArviZ's names: the log density as `lp`, a NUTS tree's depth."""
    named = dict(statistics)
    if "potential_energy" in named:
        named["lp"] = -named.pop("potential_energy")
    if isinstance(kernel, NUTS) and "n_steps" in named:
        # A full tree of depth d has 2^d - 1 leapfrogs.
        named["tree_depth"] = np.floor(np.log2(np.maximum(named["n_steps"], 1))).astype(int) + 1
    return named


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put Ctrl-C off to the end of the block; outside the main thread none comes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *arguments: came.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came and callable(before):
        before(*came[0])
