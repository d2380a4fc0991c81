"""The tasks that a cluster is given: one for each part of a run."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

from bayesnn_ppl.distributed.tasks import held_by_scheduler, packed
from bayesnn_ppl.inference.sampling.clusters.parts import Part
from bayesnn_ppl.inference.sampling.clusters.work import Rows, make_part
from bayesnn_ppl.inference.sampling.plan import Plan, SampleInputs

__all__ = ["Tasks", "tasks_of"]

_ALONE_SECONDS = 20.0  # without a worker, after which a run that is to end is given up


class Tasks:
    """Tasks that make the parts."""

    def __init__(self, client: Any, plan: Plan) -> None:
        from distributed import Event

        self._client, self._plan = client, plan
        self._name = f"bayesnn-stop-{uuid4().hex}"
        self._stop = Event(self._name, client=client)
        self._rows = held_by_scheduler(client, Rows(plan.inputs.x, plan.inputs.y))
        self._futures: list[Any] = []

    def start(self, parts: Sequence[Part], draws: int) -> None:
        """Have the parts made until each holds so many draws."""
        self._stop.clear()
        for part in parts:
            future = self._client.submit(
                make_part,
                part.place,
                packed(_inputs_of(self._plan, part)),
                self._rows,
                draws,
                self._name,
                pure=False,
                key=f"{part.place.rpartition('/')[2]}-{uuid4().hex[:8]}",
            )
            self._futures.append(future)

    def running(self) -> bool:
        """Whether a part is still being made; raises the error of one that failed."""
        for future in self._futures:
            if future.status == "error":
                future.result()
        return not all(future.done() for future in self._futures)

    def ended(self, parts: Sequence[Part], *, together: bool) -> list[int]:
        """End all parts, and return how many draws each has.

        Parts that are ended early end at different draws. Where they are to end `together`, those
        with fewer are continued to the most that one has, since its state is known there alone.
        """
        if self.running():
            self._stop.set()
        made = self._gathered()
        while together and min(made) < max(made):
            behind = [p for p, n in zip(parts, made, strict=True) if n < max(made)]
            self.start(behind, max(made))
            found = iter(self._gathered())
            made = [n if n == max(made) else next(found) for n in made]
        return made

    def _gathered(self) -> list[int]:
        """What the tasks return; they are done with then."""
        alone = time.monotonic()
        while self.running():
            now = time.monotonic()
            alone = now if self.workers() else alone
            if now - alone > _ALONE_SECONDS:
                raise RuntimeError(
                    "The run was to end, but no worker of the cluster is left that could end its "
                    "chains at one draw. What each has committed is kept, and `resume` on a "
                    "cluster continues from there."
                )
            time.sleep(0.1)
        made = [int(n) for n in self._client.gather(self._futures)]
        self._futures = []
        return made

    def workers(self) -> set[str]:
        """The addresses of the workers that are there."""
        return set(self._client.nthreads())

    def close(self) -> None:
        """Leave no task behind."""
        self._stop.set()
        for future in self._futures:
            future.cancel()


@contextmanager
def tasks_of(client: Any, plan: Plan) -> Iterator[Tasks]:
    """The tasks of a run; at the end of the block none is left behind."""
    tasks = Tasks(client, plan)
    try:
        yield tasks
    finally:
        tasks.close()


def _inputs_of(plan: Plan, part: Part) -> SampleInputs:
    """What the worker of a part is asked for."""
    begin, end = part.chains
    inputs = plan.inputs
    return replace(
        inputs,
        x=None,
        y=None,
        mesh=None,
        chains=end - begin,
        first_chain=begin,
        init=part.own(plan.values) or inputs.init,
        keep=replace(plan.keep, groups=()),
        until=None,
        on_disk=True,
    )
