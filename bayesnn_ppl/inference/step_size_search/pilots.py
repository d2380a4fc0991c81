"""Short runs at one step size after another, of one compiled program."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from bayesnn_ppl.inference.kernels.stochastic_gradient.base import StochasticGradientKernel
from bayesnn_ppl.inference.kernels.stochastic_gradient.preconditioners import RMSProp
from bayesnn_ppl.inference.kernels.stochastic_gradient.sghmc import SGHMC
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgld import SGLD
from bayesnn_ppl.inference.runtime.draw_writers import MemorySink
from bayesnn_ppl.inference.runtime.keep import Keep
from bayesnn_ppl.inference.sampling.execution import execute
from bayesnn_ppl.inference.sampling.plan import SampleInputs, make_plan
from bayesnn_ppl.inference.sampling.sampler import sample
from bayesnn_ppl.inference.schedules.simple import CosineBurnIn
from bayesnn_ppl.posterior.posterior import Posterior

__all__ = ["Pilots", "pilot_kernel", "stopped"]

type State = Mapping[str, np.ndarray]

_STEPS = 20  # of a draw, at least: momenta are new after some 1/(1 - β) steps
_STEP_SIZE = ".variables.step_size"  # where a sampler's state has it
_ARRIVING = 0.05, 0.001  # steps on the way to the posterior, of gradients over their own size


class PilotVariables(NamedTuple):
    """The momentum m, shape (d,), and ε, shape ()."""

    momentum: Any
    step_size: Any


class PilotSGHMC(SGHMC):
    """SGHMC whose step size is a number in its state: one compiled model runs at any of them.

    The size that it is made with is that of a chain's first state.
    """

    _of_state: Any = None

    @property
    def _reference_step_size(self) -> None:
        return None  # β is the same at every size

    def _inner(self, state: Any, *rest: Any) -> Any:
        self._of_state = state.variables.step_size
        return super()._inner(state, *rest)

    def _begin(self, position: Any, normal: Any, settings: Any, gradient: Any) -> Any:
        begun = super()._begin(position, normal, settings, gradient)
        return PilotVariables(begun.momentum, settings.step_size)

    def _step(self, position: Any, variables: Any, *rest: Any) -> Any:
        position, moved = super()._step(position, variables, *rest)
        return position, variables._replace(momentum=moved.momentum)

    def _step_size_at(self, index: Any, rows: int) -> Any:
        return super()._step_size_at(index, rows) if self._of_state is None else self._of_state


class Pilots:
    """The pilot runs of one search; each continues from a state that an earlier one has left.

    Args:
        kernel: whose gradients and β are tried.
        x, y, chains, seed, float64, init: see `sample`.
        warmup: draws on the way to the posterior; each pilot has a quarter of them.

    Attributes:
        start: where the way to the posterior ended, latent site -> (chain, ...); `init` where a
            chain stopped on it.
    """

    def __init__(
        self,
        kernel: StochasticGradientKernel,
        x: Any,
        y: Any,
        *,
        warmup: int,
        chains: int,
        seed: int,
        float64: bool,
        init: Any,
    ) -> None:
        self._kernel, self._data = kernel, (x, y)
        self._common: dict[str, Any] = {"chains": chains, "float64": float64}
        self._warmup, self._seed = -(-warmup // 4), seed
        self._pilot: PilotSGHMC | None = None
        self._begin: State | None = None
        arrived = _quietly(
            lambda: sample(
                _arriving(kernel, warmup),
                x,
                y,
                warmup=warmup,
                draws=1,
                seed=seed,
                init=init,
                progress=False,
                **self._common,
            )
        )
        self.start = init if stopped(arrived) else _last_draws(arrived)

    def run(
        self, step_size: float, draws: int, *, keep_every: int, state: State | None
    ) -> tuple[Posterior, State]:
        """A run at a step size, and the sampler's state at its end.

        Args:
            step_size: ε.
            draws: of each chain, after the warm-up.
            keep_every: the weights of every so many draws are kept.
            state: where it continues; None for the start.
        """
        if self._pilot is None:
            self._pilot = pilot_kernel(self._kernel, step_size)
        before = self._begin if state is None else state
        if before is not None:
            before = dict(before) | {
                _STEP_SIZE: np.full_like(before[_STEP_SIZE], step_size),
                ".iteration": np.zeros_like(before[".iteration"]),  # a preconditioner continues
            }
        keep = Keep(every=keep_every)
        sink = _StateSink(draws, keep, before)
        posterior = _quietly(lambda: self._executed(sink, keep, draws))
        if self._begin is None:
            self._begin = sink.begin
        return posterior, sink.state()

    def _executed(self, sink: MemorySink, keep: Keep, draws: int) -> Posterior:
        x, y = self._data
        inputs = SampleInputs(
            method=self._pilot,
            x=x,
            y=y,
            warmup=self._warmup,
            seed=self._seed + 1,
            init=self.start,
            keep=keep,
            **self._common,
        )
        return execute(make_plan(inputs), sink, draws, progress=False, callback=None)


class _StateSink(MemorySink):
    """In memory, from a sampler's state on, where one is given; it knows the first and the last."""

    def __init__(self, total: int, keep: Keep, before: State | None) -> None:
        super().__init__(total, keep)
        self.begin = self._before = before
        self.state: Callable[[], State] = dict

    def restored_state(self) -> Any:
        return self._before

    def checkpoint(self, state: Any, phase: str, done: int, *, now: bool = False) -> None:
        self.state = state
        if self.begin is None:
            self.begin = state()


def stopped(posterior: Posterior) -> bool:
    """Whether a chain has stopped."""
    found = posterior.statistics.get("stopped")
    return found is not None and bool(np.asarray(found).any())


def _quietly(run: Callable[[], Posterior]) -> Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that chains stop is what a search finds out
        return run()


def _last_draws(posterior: Posterior) -> dict[str, np.ndarray]:
    latents = set(posterior.provenance["latents"])
    names = posterior.provenance["site_names"]
    return {site: posterior.draws[name][:, -1] for name, site in names.items() if site in latents}


def pilot_kernel(kernel: StochasticGradientKernel, step_size: float) -> PilotSGHMC:
    """SGHMC on the same gradients, with the kernel's β."""
    preconditioner, decay = kernel.preconditioner, getattr(kernel, "momentum_decay", 0.0)
    if preconditioner.corrected:  # its drift is SGLD's alone, and no matter for the temperature
        preconditioner = replace(cast(Any, preconditioner), mode="frozen")
    return PilotSGHMC(
        step_size=step_size,
        momentum_decay=decay,
        steps_per_draw=max(_STEPS, round(2 / (1 - decay))),
        preconditioner=preconditioner,
        gradient=kernel.gradient,
        minibatches=kernel.minibatches,
        **_settings(kernel),
    )


def _arriving(kernel: StochasticGradientKernel, warmup: int) -> SGLD:
    """What leads to the posterior from wherever chains start.

    Gradients at a draw of the prior may be a thousand times those of the posterior (a noise scale
    near 0), and a step that is right for the posterior would leave it at once. RMSProp divides
    them by their size; its bias does no harm on the way.
    """
    first, last = _ARRIVING
    return SGLD(
        step_size=CosineBurnIn(first, last, max(1, _STEPS * warmup)),
        steps_per_draw=_STEPS,
        # It forgets within ten steps, or gradients that were enormous would hold the chains up.
        preconditioner=RMSProp(mode="plain", decay=0.9),
        **_settings(kernel),
    )


def _settings(kernel: Any) -> dict[str, Any]:
    return {
        "model": kernel.model,
        "batch_size": kernel.batch_size,
        "temperature": kernel.posterior_temperature,
        "sub_batches": kernel.sub_batches,
        "init_strategy": kernel.init_strategy,
    }
