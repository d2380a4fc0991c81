"""One training: attempts made of blocks of epochs, watched, recorded and safe to interrupt."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayesnn_ppl.inference.runtime.block_loop import BlockLoop
from bayesnn_ppl.inference.runtime.progress import ProgressBar
from bayesnn_ppl.inference.runtime.state_arrays import arrays_to_state, state_to_arrays
from bayesnn_ppl.inference.training.checkpoints import TrainingRecord
from bayesnn_ppl.inference.training.compiled_program import TrainingProgram, compile_training
from bayesnn_ppl.inference.training.plan import TrainingPlan
from bayesnn_ppl.inference.training.result import (
    Trained,
    TrainingProgress,
    arrays_of,
    merged,
    part_of,
    trained_from,
)

__all__ = ["TrainingBar", "TrainingRun"]


class TrainingBar(ProgressBar):
    """The bar of `sample`, with epochs for draws and losses for divergences."""

    def show(self, done: int, losses: np.ndarray, held_out: np.ndarray, stopped: int) -> None:
        """Show the losses of the last epoch, of the members that still train."""
        shown = losses if np.isnan(held_out).all() else held_out
        known = shown[~np.isnan(shown)]
        parts = [f"× {len(losses)} members"]
        if known.size:
            parts.append(f"{'loss' if shown is losses else 'held-out loss'} {known.mean():.4g}")
        if stopped:
            parts.append(f"{stopped} stopped")
        self.tell(done, " · ".join(parts), over=stopped == len(losses))


class TrainingRun:
    """One training: attempts made of blocks of epochs, and their results."""

    def __init__(
        self,
        plan: TrainingPlan,
        bar: TrainingBar,
        callback: Callable[[TrainingProgress], Any] | None,
        record: TrainingRecord | None,
    ) -> None:
        self._plan, self._bar, self._loop = plan, bar, BlockLoop(bar, callback)
        self._record, self._epochs = record, plan.recipe.settings.epochs
        self._earlier: Trained | None = None  # what attempts before this one came to
        self._interrupted = self._asked = self._kept = False
        self._state: Any = None
        self._values: Mapping[str, Any] = {}

    def run(self) -> Trained:
        """Train all members, and those that fail again."""
        plan = self._plan
        active = np.ones(plan.recipe.members, bool)
        program = compile_training(plan.recipe, plan.keys(0), active, *plan.data)
        self._data = [program.place(array) for array in plan.data]
        self._began = time.perf_counter()
        before = None if self._record is None else self._record.restored()
        attempt = 0 if before is None else int(before["attempt"])
        if before is not None and attempt:
            active, self._earlier = before["active"], trained_from(before)
        while True:
            try:
                trained = self._attempt(program, attempt, active, before)
            except KeyboardInterrupt:
                if self._earlier is None:
                    raise
                self._interrupted, trained = True, self._earlier
                break
            if self._earlier is not None:
                trained = merged(self._earlier, trained, active)
            active, before = trained.failed, None
            if self._interrupted or not active.any() or attempt == plan.recipe.settings.retries:
                break
            attempt, self._earlier = attempt + 1, trained
        if self._record is not None and self._interrupted:
            self._record.close()
        elif self._record is not None:
            self._record.end()
        return replace(
            trained,
            rows=plan.data[0].shape[0],
            start=plan.recipe.settings.start,
            interrupted=self._interrupted,
            asked=self._asked,
            seconds={
                "compile": program.compile_seconds,
                "train": time.perf_counter() - self._began,
            },
        )

    def _attempt(
        self,
        program: TrainingProgram,
        attempt: int,
        active: np.ndarray,
        before: Mapping[str, np.ndarray] | None,
    ) -> Trained:
        """Train the active members from their starts of this attempt; the others stay put."""
        self._bar.phase("train" if attempt == 0 else "again", self._epochs)
        self._number, self._active = attempt, active
        if before is None:
            self._state = program.begin((self._plan.keys(attempt), active), *self._data[:2])
            self._losses = np.full((2, len(active), self._epochs), np.nan)
            self._done = 0
        else:
            self._state = arrays_to_state(before, program.state)
            self._losses, self._done = before["losses"].copy(), int(before["done"])
            self._values = part_of(before, "values")
        try:
            self._advance(program)
        except KeyboardInterrupt:
            if not self._done:
                raise
            self._interrupted = True
            self._bar.say(f"Interrupted: training ends after {self._done} epochs.")
        if self._interrupted and not self._kept:
            self._keep_record(int(np.sum(self._state.stopped)), over=True)
        state = self._state
        return Trained(
            positions={name: np.asarray(value) for name, value in state.best_z.items()},
            values={name: np.asarray(value) for name, value in self._values.items()},
            losses=self._losses[0],
            held_out_losses=self._losses[1],
            best_epochs=np.asarray(state.best_epoch),
            best_losses=np.asarray(state.best_loss),
            failed=np.asarray(state.failed),
            attempts=np.full(len(active), attempt + 1),
            rows=0,
            start="",
            interrupted=False,
            seconds={},
        )

    def _advance(self, program: TrainingProgram) -> None:
        """Train, block by block, until all members have stopped or made their epochs."""
        epochs, members = self._epochs, self._plan.recipe.members
        limits = np.int32(epochs), np.int32(self._plan.patience)

        def make(done: int, count: int) -> tuple[Any, np.ndarray, Any]:
            state, *losses, values = program.advance(
                self._state, *self._data, np.int32(count), *limits
            )
            return state, np.stack([np.asarray(part)[:, :count] for part in losses]), values

        def keep(block: Any, done: int) -> None:
            self._state, losses, self._values = block
            self._losses[:, :, self._done : done] = losses
            self._done = done

        def show(block: Any, done: int) -> bool:
            stopped = int(np.sum(self._state.stopped))
            over = done == epochs or stopped == members
            self._keep_record(stopped, over=over)
            training, held_out = block[1][:, :, -1]
            self._bar.show(done, training, held_out, stopped)
            asked = self._loop.asked_to_end(self._seen)
            if asked and not over:
                self._interrupted = self._asked = True
            return asked or over

        self._loop.run(epochs, done=self._done, most=program.block, make=make, keep=keep, show=show)

    def _seen(self) -> TrainingProgress:
        losses, held_out_losses = self._losses[:, :, : self._done].copy()
        seconds = time.perf_counter() - self._began
        return TrainingProgress(self._done, self._epochs, seconds, losses, held_out_losses)

    def _keep_record(self, stopped: int, *, over: bool) -> None:
        """Let the record have the state, at once where it is `over`, and the last metrics."""
        if self._record is None:
            return
        last = self._losses[:, :, self._done - 1]
        known = [row[~np.isnan(row)] for row in last]
        self._kept = self._record.take(
            self._arrays,
            {
                "seconds": time.perf_counter() - self._began,
                "attempt": self._number,
                "loss": float(known[0].mean()) if known[0].size else None,
                "held_out_loss": float(known[1].mean()) if known[1].size else None,
                "stopped": stopped,
            },
            phase="train",
            done=self._done,
            last=over,
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        """All that the next epoch needs, and what earlier attempts came to."""
        earlier = {} if self._earlier is None else arrays_of(self._earlier)
        return {
            **state_to_arrays(self._state),
            **{f"values/{name}": np.asarray(value) for name, value in self._values.items()},
            **earlier,
            "attempt": np.asarray(self._number),
            "active": self._active,
            "losses": self._losses,
            "done": np.asarray(self._done),
        }
