"""How a run goes, in numbers: a row of metrics after each block, and the file they go to."""

import csv
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.core.predictions import not_masked
from bayesnn_ppl.inference.runtime.function_history import FunctionHistory
from bayesnn_ppl.inference.runtime.keep import Probe
from bayesnn_ppl.inference.runtime.stopping_rule import Until

__all__ = ["MetricsFile", "Watch"]

_SHARE_OF_TIME = 0.05  # of the run, for R-hat and effective sample size
_CHECK_SECONDS = 0.5  # between two looks at whether a run is done, at least,
_LOOK_SHARE = 5.0  # and so many times what a look takes


class RunningScores:
    """Scores of the posterior predictive distribution of all draws so far, at the probe inputs."""

    def __init__(self, probe: Probe, standardisation: Any) -> None:
        assert probe.y is not None
        self._y = probe.y
        units = None if standardisation is None else standardisation.to_dict()
        self._scale = np.asarray(1.0 if units is None else units["y_scale"])
        self._exact: Any = np.ones(probe.y.shape, bool)  # neither masked nor censored
        self._draws = 0
        self._sum: Any = 0.0
        self._log_density: Any = -np.inf

    def add(self, functions: Mapping[str, np.ndarray]) -> None:
        """Take a block, (chain, block, row, ...)."""
        log_p = functions["log_likelihood"].astype(np.float64)
        self._draws += log_p.shape[0] * log_p.shape[1]
        self._log_density = np.logaddexp(
            self._log_density, np.logaddexp.reduce(log_p.reshape(-1, log_p.shape[2]), axis=0)
        )
        values = functions["probability"] if "probability" in functions else functions["mean"]
        self._sum = self._sum + values.sum(axis=(0, 1), dtype=np.float64)
        if "exact" in functions:
            self._exact = functions["exact"].all(axis=(0, 1))
        self._labels = "probability" in functions

    def scores(self) -> dict[str, float]:
        """`rmse` or `accuracy`, and `nll`, in the data's units."""
        mean = self._sum / self._draws
        log_p = self._log_density - np.log(self._draws)
        if self._labels:
            right = float(np.mean(mean.argmax(-1) == self._y))
            return {"accuracy": right, "nll": -float(np.mean(log_p))}
        target = self._y[..., 0] if self._y.ndim > mean.ndim else self._y  # ends of an interval
        error = (self._scale * (mean - target))[self._exact]
        units = (np.log(self._scale) * self._exact).reshape(len(target), -1).sum(axis=1)
        known = not_masked(self._exact, log_p)
        rmse = float(np.sqrt(np.mean(error**2))) if error.size else np.nan
        nll = float(np.mean((units - log_p)[known])) if known.any() else np.nan
        return {"rmse": rmse, "nll": nll}


class Watch:
    """Makes a row of metrics of each block.

    Args:
        probe: where function values are kept, or None.
        standardisation: of the targets, or None.
        superchains: of the run, or None.
    """

    def __init__(
        self, probe: Probe | None, standardisation: Any, superchains: int | None = None
    ) -> None:
        self._history = None if probe is None else FunctionHistory(superchains)
        self._scores = (
            None if probe is None or probe.y is None else RunningScores(probe, standardisation)
        )
        self._spent, self._began = 0.0, time.perf_counter()
        self._judged = 0
        self._looked = self._look_seconds = 0.0

    def add(self, functions: Mapping[str, np.ndarray]) -> None:
        """Take function values of a block of kept draws."""
        if self._history is not None:
            self._history.add(functions)
        if self._scores is not None:
            self._scores.add(functions)

    def row(
        self,
        phase: str,
        done: int,
        seconds: float,
        statistics: Mapping[str, np.ndarray],
        divergences: int,
    ) -> dict[str, Any]:
        """Metrics after `done` draws of the phase; those of the sampler are of the last block.

        `function_rhat` and `function_ess` are None in a row where they were not computed: they
        may take a twentieth of the time.
        """
        row: dict[str, Any] = {"phase": phase, "draws": done, "seconds": round(seconds, 3)}
        for name in ("acceptance_rate", "step_size", "n_steps", "energy_error", "lp"):
            if name in statistics:
                row[name] = float(np.mean(statistics[name]))
        if "diverging" in statistics:
            row["divergences"] = divergences
        if self._history is not None:
            row |= {"function_rhat": None, "function_ess": None}
            if phase == "sample" and self._due(done):
                began = time.perf_counter()
                row["function_rhat"], row["function_ess"] = self._history.convergence()
                self._spent += time.perf_counter() - began
                self._judged = done
        if self._scores is not None:
            known = self._scores.scores() if phase == "sample" else {}
            row |= known
        return row

    def reached(self, until: Until) -> dict[str, float] | None:
        """What R-hat and effective sample size are, when both are as wanted; else None.

        Looked at every half second or so, less often where a look takes long.
        """
        assert self._history is not None
        now = time.perf_counter()
        if now - self._looked < max(_CHECK_SECONDS, _LOOK_SHARE * self._look_seconds):
            return None
        largest, fewest = self._history.convergence(at_most=until.function_rhat)
        self._looked = time.perf_counter()
        self._look_seconds = self._looked - now
        if not until.reached(largest, fewest):
            return None
        if until.ess is not None and not self._history.precise(until.ess):
            return None
        return {"function_rhat": largest, "ess": fewest}

    def _due(self, done: int) -> bool:
        elapsed = time.perf_counter() - self._began
        return done > self._judged and self._spent <= _SHARE_OF_TIME * elapsed


# In the order in which a run goes through them; the first ones are stages of a fit.
_PHASES = ("train", "tuning", "iterates", "draws", "climb", "warmup", "sample")


class MetricsFile:
    """`metrics.csv`: one line for each commit of a run on disk.

    Args:
        path: the file.
        phase, draws: the current state of the run; later lines are dropped, being of draws that a
            crash has taken.
    """

    def __init__(self, path: Path, *, phase: str, draws: int) -> None:
        self._path = path
        self._columns: list[str] | None = None
        if not path.is_file():
            return
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
            self._columns = list(reader.fieldnames or ()) or None
        order = _PHASES
        kept = [
            row
            for row in rows
            if row.get("phase") in order
            and str(row.get("draws", "")).isdigit()
            and (order.index(row["phase"]), int(row["draws"])) <= (order.index(phase), draws)
        ]
        if self._columns and len(kept) < len(rows):
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, self._columns, lineterminator="\n")
                writer.writeheader()
                writer.writerows(kept)

    def write(self, row: Mapping[str, Any]) -> None:
        """Add a line; a column that was not there at first has a file rewritten."""
        cells = {name: _cell(value) for name, value in row.items()}
        new = [name for name in cells if name not in (self._columns or ())]
        if new:
            before: list[dict[str, str]] = []
            if self._columns is not None:
                with self._path.open(newline="", encoding="utf-8") as file:
                    before = list(csv.DictReader(file))
            self._columns = [*(self._columns or ()), *new]
            with self._path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, self._columns, lineterminator="\n")
                writer.writeheader()
                writer.writerows(before)
        assert self._columns is not None
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self._columns, lineterminator="\n").writerow(cells)


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value
