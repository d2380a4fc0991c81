"""Ctrl-C: put off where it would do harm, and raised again where it was swallowed."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bayesnn_ppl.storage import RunFolder

__all__ = ["heard", "raise_if_swallowed", "uninterrupted", "what_is_kept"]

_came = False


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put Ctrl-C off to the end of the block; elsewhere than in the main thread none comes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *signal_and_frame: came.append(signal_and_frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came and callable(before):
        before(*came[0])


@contextmanager
def heard() -> Iterator[None]:
    """Note Ctrl-C within the block, for `raise_if_swallowed`.

    JAX frees its arrays in a callback of Python's garbage collector, from which no exception gets
    out. While a program was traced, three Ctrl-C of seven came there, and the run continued.

    A handler that is not Python's own stays, as does one that ignores the signal.
    """
    global _came
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return

    def note(*_: Any) -> None:
        global _came
        _came = True
        raise KeyboardInterrupt

    _came = False
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _came = False


def raise_if_swallowed() -> None:
    """Raise the KeyboardInterrupt that came within `heard`, where the block still runs."""
    if _came:
        raise KeyboardInterrupt


def what_is_kept(folder: RunFolder | None, *, warmup: int, draws: int, repeatable: bool) -> str:
    """What Ctrl-C has left of a run without a draw to return, and how to resume it.

    Args:
        folder: of the run; None of one in memory.
        warmup, draws: that it was to make.
        repeatable: whether it can be started again from its settings alone.
    """
    if folder is None:
        return (
            "Interrupted before the first draw, so nothing is kept. A run with `out=` keeps its "
            "warm-up, and `resume` continues from there."
        )
    record = folder.commit_record
    if record["checkpoint"] is None:
        how = "`resume` starts it again" if repeatable else "sample again, into another folder"
        return f"Interrupted before the first draw. Nothing is kept in {folder.path}: {how}."
    warming = record["phase"] == "warmup"
    return (
        f"Interrupted. {record['done']} of {warmup if warming else draws} "
        f"{'warm-up ' if warming else ''}draws per chain are kept in {folder.path}, and `resume` "
        "continues from there."
    )
