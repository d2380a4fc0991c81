"""Cyclical step sizes, the noise in their last part, and csgmcmc's own settings."""

import warnings
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from bayesnn_ppl.core.arguments import integer, positive
from bayesnn_ppl.inference.schedules.base import Schedule, fraction_of, half_cosine, real

__all__ = ["Cyclical", "Delayed", "LastPart", "check_delay", "csgmcmc"]


@dataclass(frozen=True)
class Cyclical(Schedule):
    """A step size that falls from its peak to nearly 0 along half a cosine, again and again.

    ε_k = peak·c^power with c = (1 + cos(π·(k mod K)/K))/2, K = `steps_per_cycle`.

    Large steps at the beginning of a cycle find another mode, small ones at its end sample it.
    With power 2 the time step h = √ε is scaled by c, and with it the friction's part of a step:
    β' = 1 - c(1-β), which every kernel with momentum does by itself. Power 1 is the rule of Zhang
    et al., ε_k = peak·c.

    Draws at the end of a cycle, where the discretisation is finest, follow from the number of
    steps of a draw; `draws` counts them, and `noise_at_end` leaves the noise out before:

        cycle = Cyclical(1e-5, steps_per_cycle=5000)
        SGLD(model, step_size=cycle, steps_per_draw=cycle.draws(3, apart=100),
             noise=cycle.noise_at_end(0.5), ...)

    Args:
        peak: ε at the start of a cycle, the reference.
        steps_per_cycle: K, an integer at least 2, so that every cycle is the same.
        power: 2 (c scales time) or 1 (Zhang et al.), or any number from 1 to 2.

    References:
        Zhang, Li, Zhang, Chen and Wilson (2020), arXiv:1902.03932; Wenzel et al. (2020),
        arXiv:2002.02405, Section 3.
    """

    peak: float
    steps_per_cycle: int
    power: float = 2.0

    def __post_init__(self) -> None:
        positive(self.peak, "`peak` of Cyclical")
        integer(self.steps_per_cycle, "`steps_per_cycle` of Cyclical", at_least=2)
        if not 1 <= positive(self.power, "`power` of Cyclical") <= 2:
            raise ValueError(
                f"`power` of Cyclical must be from 1 to 2, not {self.power:g}: 2 scales the time "
                "step by the cosine, 1 the step size ε itself, as Zhang et al. (2020) do."
            )

    @property
    def reference(self) -> float:
        return float(self.peak)

    @property
    def first(self) -> float:
        return float(self.peak)

    def __call__(self, step: Any) -> Any:
        part = fraction_of(jnp.remainder(step, self.steps_per_cycle), self.steps_per_cycle)
        return self.peak * half_cosine(part) ** self.power

    def draws(self, number: int = 1, *, apart: int | None = None) -> tuple[int, ...]:
        """For `steps_per_draw`: the lengths of the draws of a cycle, the last one at its end.

        Args:
            number: draws of a cycle.
            apart: steps from one draw of a cycle to the next; needed when there are several.
                The first draw takes the rest of the cycle.

        Raises:
            TypeError, ValueError: draws that do not fit into the cycle.
        """
        integer(number, "`number` of draws of a cycle", at_least=1)
        if number == 1:
            return (self.steps_per_cycle,)
        if apart is None:
            raise ValueError(
                f"{number} draws a cycle need the steps between them: `draws({number}, apart=...)`,"
                " such as the steps of one epoch."
            )
        integer(apart, "`apart`, the steps between draws of a cycle,", at_least=1)
        first = self.steps_per_cycle - (number - 1) * apart
        if first < 1:
            raise ValueError(
                f"{number} draws, {apart} steps apart, do not fit into a cycle of "
                f"{self.steps_per_cycle} steps. Take fewer, or nearer together."
            )
        return (first, *(apart for _ in range(number - 1)))

    def noise_at_end(self, fraction: float) -> "LastPart":
        """For `noise`: none in the cycle's exploration, all of it in its last `fraction`."""
        return LastPart(self.steps_per_cycle, fraction)


@dataclass(frozen=True)
class Delayed(Schedule):
    """A schedule that stays where it starts for a while, and then begins.

    value(k) = schedule(max(k - steps, 0)): a constant warm-up before the first cycle, as
    bnn_hmc's cyclical runs have it.

    `steps_per_draw=cycle.draws(...)` counts from step 0. So delay a cycle by whole cycles, or the
    draws come in the middle of it, and delay the noise as well, as by
    `Delayed(cycle.noise_at_end(0.5), steps)`:

        steps = 2 * cycle.steps_per_cycle
        SGLD(model, step_size=Delayed(cycle, steps), steps_per_draw=cycle.draws(),
             noise=Delayed(cycle.noise_at_end(0.5), steps), ...)

    A kernel whose draws make up one cycle refuses another delay.

    Args:
        schedule: what begins after the delay.
        steps: length of the delay; in front of cycles, a multiple of their length.

    References:
        Izmailov et al. (2021), arXiv:2104.14421.
    """

    schedule: Schedule
    steps: int

    def __post_init__(self) -> None:
        if not isinstance(self.schedule, Schedule):
            raise TypeError(
                f"`schedule` of Delayed must be one of `schedules`, not {self.schedule!r}."
            )
        integer(self.steps, "`steps` of Delayed", at_least=1)

    @property
    def reference(self) -> float:
        return self.schedule.reference

    @property
    def first(self) -> float:
        return self.schedule.first

    def __call__(self, step: Any) -> Any:
        return self.schedule(jnp.maximum(jnp.asarray(step) - self.steps, 0))


def check_delay(step_size: Any, steps_per_draw: int | tuple[int, ...], kernel: str) -> None:
    """ValueError where the draws of a cycle, by `Cyclical.draws`, come in the middle of a cycle."""
    if not (isinstance(step_size, Delayed) and isinstance(step_size.schedule, Cyclical)):
        return
    lengths = (steps_per_draw,) if isinstance(steps_per_draw, int) else steps_per_draw
    cycle, delay = step_size.schedule.steps_per_cycle, step_size.steps
    if sum(lengths) == cycle and delay % cycle:
        raise ValueError(
            f"The step size of {kernel} is delayed by {delay} steps, which are no whole cycles of "
            f"{cycle}, and `steps_per_draw` counts cycles from step 0: the draws would come "
            f"{cycle - delay % cycle} steps after a cycle's end, and not at it. Delay it by "
            f"{cycle * round(max(delay / cycle, 1))} steps, and the noise as well."
        )


@dataclass(frozen=True)
class LastPart(Schedule):
    """0, and 1 in the last part of each cycle: noise for its sampling stage only.

    Args:
        steps_per_cycle: K, as that of the step size.
        fraction: the part, in (0, 1]; the last round(fraction·K) steps, at least one.
    """

    steps_per_cycle: int
    fraction: float

    def __post_init__(self) -> None:
        integer(self.steps_per_cycle, "`steps_per_cycle` of LastPart", at_least=1)
        if positive(self.fraction, "`fraction` of LastPart") > 1:
            raise ValueError(f"`fraction` of LastPart must be at most 1, not {self.fraction:g}.")

    @property
    def _zeros(self) -> int:
        return self.steps_per_cycle - max(1, round(self.fraction * self.steps_per_cycle))

    @property
    def reference(self) -> float:
        return 1.0

    @property
    def first(self) -> float:
        return float(self._zeros == 0)

    def __call__(self, step: Any) -> Any:
        return (jnp.remainder(step, self.steps_per_cycle) >= self._zeros).astype(real())


def csgmcmc(
    rows: int,
    *,
    learning_rate: float = 0.5,
    batch_size: int = 64,
    cycles: int = 4,
    epochs: int = 200,
    draws_per_cycle: int = 3,
    noise_epochs: int = 5,
    temperature: float = 1 / 50000,
    momentum: float = 0.1,
) -> dict[str, Any]:
    r"""Keyword arguments with which `SGHMC` runs as csgmcmc does on CIFAR, by its own defaults.

    200 epochs make 4 cycles of 50. Noise comes in the last 5 epochs of a cycle only, and a draw is
    taken at the end of each of its last 3. So `sample(SGHMC(model, **csgmcmc(rows)), x, y,
    warmup=0, draws=12)` is one chain of theirs.

    **Its temperature is 1/50000.** The target is exp(-U/T), a posterior so cold that the noise
    hardly matters: what comes out is an ensemble of optima, not draws from the Bayes posterior,
    for which give `temperature=1`. A warning says so.

    Its learning rate is that of the mean loss, lr = ε·rows; ε falls as c, not c². Two things
    differ. Its momentum, 0.1, is the same at every step, so that friction grows as the steps
    shrink; here friction is constant and the momentum rises: β' = 1 - √c·(1 - 0.1). And its last
    minibatch of an epoch is smaller; here there is none, an epoch has ⌊rows/batch_size⌋ steps.
    Its weight decay 5e-4 on the mean loss is a prior of variance 1/(5e-4·rows), 1/25 at 50 000
    rows: that belongs to the model.

    Args:
        rows: N, the number of training rows.
        learning_rate: at the start of a cycle, of the mean loss.
        batch_size: B.
        cycles, epochs: an integer number of epochs a cycle, all cycles together `epochs`.
        draws_per_cycle: draws, an epoch apart, the last at the cycle's end.
        noise_epochs: last epochs of a cycle that have noise.
        temperature: T of the whole posterior.
        momentum: β at the start of a cycle; 0 for SGLD is said by taking `SGLD` and leaving
            `momentum_decay` out.

    Returns:
        `step_size`, `momentum_decay`, `batch_size`, `steps_per_draw`, `noise`, `temperature` and
        `minibatches`.

    Raises:
        TypeError, ValueError: an argument is out of range, or epochs do not make whole cycles.

    References:
        Zhang, Li, Zhang, Chen and Wilson (2020), arXiv:1902.03932, and its code, csgmcmc.
    """
    rows = integer(rows, "`rows`, the number of training rows,", at_least=1)
    batch_size = integer(batch_size, "`batch_size` of csgmcmc", at_least=1, below=rows + 1)
    cycles = integer(cycles, "`cycles` of csgmcmc", at_least=1)
    epochs = integer(epochs, "`epochs` of csgmcmc", at_least=1)
    if epochs % cycles:
        raise ValueError(
            f"{epochs} epochs do not make {cycles} cycles of whole epochs. Take "
            f"{max(epochs // cycles, 1) * cycles}."
        )
    per_cycle = epochs // cycles
    integer(draws_per_cycle, "`draws_per_cycle`", at_least=1, below=per_cycle + 1)
    integer(noise_epochs, "`noise_epochs`", at_least=1, below=per_cycle + 1)
    temperature = positive(temperature, "`temperature` of csgmcmc")
    if temperature < 1:
        warnings.warn(
            f"csgmcmc runs at temperature {temperature:g}: a cold posterior, nearly an ensemble of "
            "optima, and not the Bayes posterior, which is `temperature=1`. Raise it, or say in "
            "what you report that T is not 1.",
            UserWarning,
            stacklevel=2,
        )
    steps = rows // batch_size
    cycle = Cyclical(
        positive(learning_rate, "`learning_rate` of csgmcmc") / rows, per_cycle * steps, power=1
    )
    return {
        "step_size": cycle,
        "momentum_decay": momentum,
        "batch_size": batch_size,
        "steps_per_draw": cycle.draws(draws_per_cycle, apart=steps),
        "noise": cycle.noise_at_end(noise_epochs / per_cycle),
        "temperature": temperature,
        "minibatches": "epoch",
    }
