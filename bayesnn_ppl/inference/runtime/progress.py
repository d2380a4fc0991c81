"""The progress of all chains together: a live bar on a terminal, lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import numpy as np

__all__ = ["ProgressBar"]

_LINE_SECONDS = 15.0


class ProgressBar:
    """Shows phase, draws done, divergences, acceptance and time left.

    Args:
        shown: False shows nothing.
        chains: number of chains, for the text.
    """

    def __init__(self, *, shown: bool, chains: int) -> None:
        self._shown, self._chains = shown, chains
        self._bar: Any = None
        self._task: Any = None
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        if self._shown:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            console = Console(stderr=True)
            if console.is_terminal or console.is_jupyter:
                self._bar = Progress(
                    TextColumn("{task.description:<8}"),
                    BarColumn(bar_width=28),
                    MofNCompleteColumn(),
                    TextColumn("{task.fields[note]}"),
                    TimeElapsedColumn(),
                    TextColumn("left"),
                    TimeRemainingColumn(),
                    console=console,
                )
                self._bar.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.__exit__(kind, error, trace)

    def say(self, text: str) -> None:
        """Print one line above or below the bar."""
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        elif self._shown:
            print(text, file=sys.stderr, flush=True)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Show on a terminal or in a notebook that a program is being compiled."""
        if self._bar is None:
            yield
            return
        task = self._bar.add_task("compile", total=None, note=f"× {self._chains} chains")
        try:
            yield
        finally:
            self._bar.remove_task(task)

    def phase(self, name: str, total: int, done: int = 0) -> None:
        """Start a phase of `total` draws, of which `done` were made before."""
        self._name, self._total, self._began = name, total, time.monotonic()
        self._before = done
        if self._bar is not None:
            if self._task is not None:
                self._bar.stop_task(self._task)
            self._task = self._bar.add_task(
                name, total=total, completed=done, note=f"× {self._chains} chains"
            )

    def tell(self, done: int, note: str, *, over: bool = False) -> None:
        """Show that `done` of the phase are made, and a note; `over` where no more will be."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, note=note)
            return
        now = time.monotonic()
        if self._shown and (over or done >= self._total or now - self._last_line > _LINE_SECONDS):
            self._last_line = now
            print(f"{self._name:<8} {done:>6}/{self._total} {note}", file=sys.stderr, flush=True)

    def advance(self, done: int, statistics: dict[str, np.ndarray], divergences: int) -> None:
        """Show that `done` draws of the phase are made; `statistics` are of the last block."""
        parts = [f"× {self._chains} chains"]
        if "diverging" in statistics:
            parts.append(f"{divergences} divergences")
        if "acceptance_rate" in statistics:
            parts.append(f"acceptance {np.mean(statistics['acceptance_rate']):.2f}")
        note = " · ".join(parts)
        if self._bar is not None:
            self._bar.update(self._task, completed=done, note=note)
        elif self._shown:
            now = time.monotonic()
            if done >= self._total or now - self._last_line > _LINE_SECONDS:
                self._last_line = now
                took = now - self._began
                left = ""
                if done > self._before:
                    left = f", {took / (done - self._before) * (self._total - done):.0f} s left"
                print(
                    f"{self._name:<8} {done:>6}/{self._total} {note} · {took:.0f} s{left}",
                    file=sys.stderr,
                    flush=True,
                )
