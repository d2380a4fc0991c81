"""What `SWAG` and `ConstantSGD` share: a mode, a constant rate, and the iterates from there on."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from math import ceil
from typing import Any, ClassVar

import jax
import numpy as np

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.inference.approximations.sgd_iterates.constant_rate import (
    best_rates,
    drift_findings,
    reduced_finding,
    refuse_burn_in,
    stability,
    stability_findings,
)
from bayesnn_ppl.inference.approximations.sgd_iterates.sgd_loop import SGDSettings, run_sgd
from bayesnn_ppl.inference.approximations.trained_networks.flat_loss import (
    Layout,
    check_minibatches,
)
from bayesnn_ppl.inference.approximations.trained_networks.starting_modes import (
    check_mode,
    find_modes,
)
from bayesnn_ppl.inference.approximations.trained_networks.trained import thinned
from bayesnn_ppl.inference.fitting.approximation import Finding, Fitted
from bayesnn_ppl.inference.fitting.stages import Collector
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.modeling.temperature import Model

__all__ = ["IteratesOfSGD"]


@dataclass(frozen=True)
class IteratesOfSGD:
    """SGD that continues from modes at a constant rate; see the approximations made of it."""

    _stream: ClassVar[int]  # of randomness
    _stage: ClassVar[str]  # its name, for the bar and the record

    model: Model | None = None
    _: KW_ONLY
    mode: Any = None
    members: int = 1
    learning_rate: float | Callable[[Any], Any] | None = None
    batch_size: int = 128
    draws: int = 100
    every: int | None = None
    burn_in: int = 10

    def __post_init__(self) -> None:
        check_mode(self.mode, type(self).__name__)
        for name in ("members", "batch_size", "draws"):
            integer(getattr(self, name), f"`{name}`", at_least=1)
        if self.every is not None:
            integer(self.every, "`every`", at_least=1)
        integer(self.burn_in, "`burn_in`", at_least=0)

    @abstractmethod
    def _iterates(self) -> tuple[int, float, str]:
        """How many iterates count, the momentum μ, and the preconditioner of the best rate."""

    @abstractmethod
    def _collector(self, starts: np.ndarray) -> Collector:
        """What takes the iterates, those of the burn-in too."""

    @abstractmethod
    def _vectors(self, problem: Problem, collector: Any, dtype: Any) -> np.ndarray:
        """The draws (members, draws, d), none where the burn-in was not over."""

    def _check_layout(self, layout: Layout) -> None:
        """Raise ValueError where there are too many coordinates."""

    def _more_record(self, collector: Any) -> Mapping[str, Any]:
        return {}

    def solve(self, problem: Problem) -> Fitted:
        """Train, and continue at a constant rate; see `fit`."""
        name = type(self).__name__
        count, momentum, preconditioner = self._iterates()
        layout = Layout.of(problem)
        check_minibatches(problem, layout, self.batch_size, name)
        self._check_layout(layout)
        modes = find_modes(problem, self.mode, self.members)
        starts = layout.vectors(modes.positions)
        batch = min(self.batch_size, len(problem.x))
        every = ceil(len(problem.x) / batch) if self.every is None else self.every
        schedule: Any = 1.0
        findings: list[Finding] = list(modes.findings)
        if self.learning_rate is None:
            rates = best_rates(problem, layout, starts, batch, preconditioner)
            rate, stable = (1 - momentum) * rates.rate, rates.stability
            if rates.reduced.any():
                findings.append(reduced_finding(name, rates.reduced, batch))
        else:
            if callable(self.learning_rate):
                schedule, first = self.learning_rate, float(self.learning_rate(0))
                rate = np.ones((self.members, 1), starts.dtype)
            else:
                rate, first = np.full((self.members, 1), self.learning_rate, starts.dtype), 1.0
            # With momentum SGD leaves the mode from 2 (1 + μ) on, and not from 2 on.
            stable = stability(problem, layout, starts, rate * first) / (1 + momentum)
            findings += stability_findings(stable, name)
        collector = self._collector(starts)
        result = run_sgd(
            problem,
            starts,
            rate,
            layout,
            SGDSettings(batch, momentum, schedule, every, self.burn_in + count),
            jax.random.split(problem.key(self._stream), self.members),
            self._stage,
            collector,
        )
        vectors = self._vectors(problem, collector, starts.dtype)
        if not vectors.shape[1]:
            refuse_burn_in(result, name)
        diagonal = rate if rate.ndim == 2 else np.diagonal(rate, axis1=1, axis2=2)
        settled = result._replace(losses=result.losses[:, self.burn_in :])
        return Fitted(
            positions=layout.sites(vectors),
            record={
                "mode": modes.record,
                "learning_rates": np.round(np.median(diagonal, axis=1), 10).tolist(),
                "stability": np.round(stable, 6).tolist(),
                "every": every,
                **self._more_record(collector),
                "losses": thinned(result.losses),
                "seconds": {self._stage: round(result.seconds, 3)},
            },
            findings=(*findings, *drift_findings(settled, name)),
            interrupted=result.interrupted or modes.interrupted,
        )
