"""Replication after replication: a truth, the method's draws, and ranks of the truth among them."""

import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesnn_ppl.calibration.judging import LEVELS
from bayesnn_ppl.calibration.methods import Method
from bayesnn_ppl.calibration.quantities import Quantities
from bayesnn_ppl.calibration.record import Line, Replications
from bayesnn_ppl.calibration.truths import METHOD, TIES, Truth, Truths, seed_of
from bayesnn_ppl.diagnostics.convergence.measures import ess_bulk
from bayesnn_ppl.distributed.tasks import calls_on_workers
from bayesnn_ppl.inference.runtime.progress import ProgressBar
from bayesnn_ppl.posterior.posterior import Posterior


@dataclass(frozen=True)
class Replicator:
    """Makes one replication after another, in this process or on a worker.

    Attributes:
        method: what is calibrated.
        quantities: what is ranked.
        truths: where parameters and data come from.
        seed: of all randomness.
    """

    method: Method
    quantities: Quantities
    truths: Truths
    seed: int

    def run(self, kept: Replications, replications: int, bar: ProgressBar, client: Any) -> None:
        """Make the replications that are not done yet, on the workers of `client` if given."""
        missing = [r for r in range(replications) if r not in kept.done]
        bar.phase("calibrate", replications, replications - len(missing))
        with closing(self._lines(missing, client)) as lines:
            for line in lines:
                kept.add(line)
                bar.tell(len(kept.done), "replications")

    def _lines(self, missing: list[int], client: Any) -> Generator[Line]:
        if client is None:
            yield from map(self.replication, missing)
            return
        with closing(calls_on_workers(client, Replicator.replication, self, missing)) as calls:
            for _, result in calls:
                yield result()

    def replication(self, r: int) -> Line:
        """One replication."""
        began = time.perf_counter()
        truth = self.truths.draw(r)
        line: Line = {"replication": r, "failed": None, "stopped": 0, "divergences": 0}
        try:
            posterior = self.method.posterior(truth.y, seed_of(self.seed, r, METHOD))
        except (RuntimeError, FloatingPointError) as error:
            if r == 0:  # most likely all of them would
                raise
            return {**line, "failed": str(error), "ranks": {}, "ess": {}, "seconds": 0.0}
        run = posterior.provenance
        diverging = posterior.statistics.get("diverging")
        ranks, ess = self._ranks(r, truth, posterior)
        return {
            **line,
            "stopped": len(run.get("stopped_chains", ())),
            "divergences": 0 if diverging is None else int(np.sum(diverging)),
            "compile_seconds": run["seconds"].get("compile", 0.0),
            "ranks": ranks,
            "ess": ess,
            "seconds": round(time.perf_counter() - began, 3),
        }

    def _ranks(
        self, r: int, truth: Truth, posterior: Posterior
    ) -> tuple[dict[str, list[int] | None], dict[str, float]]:
        """Ranks among each number of draws, and effective sample sizes, by quantity."""
        true = self.quantities.of_truth(truth.parameters, truth.y)
        drawn = self.quantities.of_posterior(posterior, truth.y)
        generator = np.random.default_rng([self.seed, r, TIES])
        ranks: dict[str, list[int] | None] = {}
        ess: dict[str, float] = {}
        for name in [name for name in true if name in drawn]:
            values = np.asarray(drawn[name], dtype=float)
            ok = bool(np.isfinite(values).all() and np.isfinite(true[name]))
            ranks[name] = self._rank(values, true[name], generator) if ok else None
            ess[name] = self._ess(values) if ok else 0.0
        return ranks, ess

    def _rank(self, values: np.ndarray, true: float, generator: np.random.Generator) -> list[int]:
        flat = values.reshape(-1)  # chain by chain, so that even steps thin each of them
        most = flat.size if self.method.independent else flat.size // 2
        found = []
        for level in LEVELS:
            if level > most:
                found.append(-1)
                continue
            own = flat[((np.arange(level) + 0.5) * flat.size / level).astype(int)]
            equal = int(np.sum(own == true))  # ties are broken at random
            found.append(int(np.sum(own < true)) + int(generator.integers(0, equal + 1)))
        return found

    def _ess(self, values: np.ndarray) -> float:
        if self.method.independent:
            return float(values.size)
        found = float(ess_bulk(values))
        constant = bool((values == values.flat[0]).all())
        return 1.0 if constant or not np.isfinite(found) else round(found, 1)
