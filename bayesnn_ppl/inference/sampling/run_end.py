"""Why a run ends: it has its draws, its chains have stopped, it was asked to, or it is done."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesnn_ppl.inference.runtime.metrics_log import Watch
from bayesnn_ppl.inference.runtime.progress import ProgressBar
from bayesnn_ppl.inference.sampling.plan import Plan

__all__ = ["RunEnd"]


class RunEnd:
    """Whether a run ends after a block, and why.

    Args:
        plan: of the run.
        watch: knows the function values of its draws.
        bar: is told.
        called: when the caller called.

    Attributes:
        record: what ended it, for the provenance.
        stopped: chains that a draw which was not finite has stopped.
        early: whether it was ended before it had made the draws of its phase.
    """

    def __init__(self, plan: Plan, watch: Watch, bar: ProgressBar, called: float) -> None:
        self._plan, self._team = plan, plan.share.team
        self._watch, self._bar, self._called = watch, bar, called
        self.record: dict[str, Any] = {"by": "draws"}
        self.stopped: list[int] = []
        self.early = False

    def notice_stopped(self, phase: str, done: int, statistics: Mapping[str, np.ndarray]) -> None:
        """Name the chains that have stopped for good in the block that ends with draw `done`."""
        stopped = statistics.get("stopped")
        if stopped is None:
            return
        for chain in np.flatnonzero(stopped.any(axis=1)).tolist():
            if chain in self.stopped:
                continue
            self.stopped.append(chain)
            draw = done - stopped.shape[1] + int(np.argmax(stopped[chain]))
            self._bar.say(
                f"Chain {chain} has stopped in draw {draw} of the {phase} phase: its state was no "
                "longer finite. It stays at its last good draw. Take a smaller step size, or "
                "start where the gradients are smaller."
            )

    def is_still(self, statistics: Mapping[str, np.ndarray]) -> bool:
        """Whether all chains of all processes have stopped: more draws would be of no use."""
        if "stopped" not in statistics:
            return False
        still = len(self.stopped) == self._plan.settings.chains
        if not all(self._team.agree(still)):
            return False
        if self.record["by"] != "stopped":
            self._bar.say("All chains have stopped, so the run ends.")
        self.record = {"by": "stopped"}
        return True

    def is_done(self, phase: str, done: int) -> bool:
        """Whether `until` ends the run here, and why."""
        until = self._plan.until
        if until is None:
            return False
        limit = until.max_seconds
        late = limit is not None and time.perf_counter() - self._called > limit
        if limit is not None and self._team.agree(late)[0]:
            self.record = {"by": "max_time", "max_seconds": limit}
            self._bar.say(f"The time is up, {limit:g} s, after {done} draws of the {phase} phase.")
            self.early = phase == "warmup"
            return True
        if phase == "warmup" or not until.watches_functions:
            return False
        found = self._team.agree(self._watch.reached(until))[0]
        if found is None:
            return False
        self.record = {"by": "convergence", **{k: round(v, 4) for k, v in found.items()}}
        self._bar.say(
            f"Done after {done} draws per chain: largest R-hat of the functions "
            f"{found['function_rhat']:.4f}, smallest effective sample size {found['ess']:.0f}."
        )
        return True
