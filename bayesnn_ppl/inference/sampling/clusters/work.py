"""What a worker of a cluster does: some chains of a run, from the state in their folder."""

import time
from dataclasses import dataclass, replace
from typing import Any

from bayesnn_ppl import storage
from bayesnn_ppl.distributed import EndedTogether
from bayesnn_ppl.distributed.tasks import unpacked
from bayesnn_ppl.inference.runtime.draw_writers import FolderSink
from bayesnn_ppl.inference.sampling.execution import execute
from bayesnn_ppl.inference.sampling.plan import Plan, make_plan
from bayesnn_ppl.storage import RunFolder

__all__ = ["Rows", "make_part"]

_WAIT_SECONDS = 60.0  # for a worker that was given up, and still holds the folder
_ASK_SECONDS = 0.5  # between two questions to the scheduler whether to end


@dataclass(frozen=True)
class Rows:
    """Training data on their way to a worker, with the units that they carry."""

    x: Any
    y: Any


def make_part(place: str, inputs: bytes, rows: bytes, draws: int, stop: str) -> int:
    """Make the chains of a part, or continue them, until they have `draws` draws.

    Args:
        place: folder or address of the part.
        inputs: the `SampleInputs` of the part without its rows, `packed`.
        rows: the training data as `Rows`, `packed`.
        draws: per chain that the part is to hold.
        stop: name of the event that ends it early.

    Returns:
        The draws per chain that are committed.

    Raises:
        RuntimeError: the worker cannot import what the kernel is made of.
    """
    from distributed import Event, get_client

    event, asked = Event(stop, client=get_client()), time.monotonic()

    def ends(_: Any) -> bool:
        nonlocal asked
        now = time.monotonic()
        if now - asked < _ASK_SECONDS:
            return False
        asked = now
        return bool(event.is_set())

    given, data = unpacked(inputs), unpacked(rows)
    plan = make_plan(replace(given, x=data.x, y=data.y))
    folder = _opened(place, plan, draws)
    try:
        sink = FolderSink(folder, plan.keep)
        if sink.done < draws:
            execute(plan, sink, draws, progress=False, callback=ends)
    except EndedTogether:  # in its warm-up, of which the state is kept
        pass
    finally:
        folder.release()
    return int(folder.commit_record["draws"])


def _opened(place: str, plan: Plan, draws: int) -> RunFolder:
    """The folder of a part, new or as its last writer has left it."""
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            folder = RunFolder.reopen(storage.fetched(place))
        except FileNotFoundError:
            storage.remove_run(place)  # what one left that was lost before its first commit
            return RunFolder.create(
                storage.working_copy(place),
                plan.describe(draws_requested=draws),
                every={"posterior": plan.keep.every},
                probe=None if plan.probe is None else plan.probe.arrays(),
            )
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(1.0)
        else:
            if folder.config["draws_requested"] != draws:
                folder.update_config(draws_requested=draws)
            return folder
