"""Step sizes and temperatures over time."""

from bayesnn_ppl.inference.schedules.simple import (
    Constant,
    CosineBurnIn,
    Cyclical,
    Delayed,
    LastPart,
    Polynomial,
    Ramp,
    Schedule,
    check_schedule,
    csgmcmc,
    evaluate,
    reference,
)

__all__ = [
    "Constant",
    "CosineBurnIn",
    "Cyclical",
    "Delayed",
    "LastPart",
    "Polynomial",
    "Ramp",
    "Schedule",
    "check_schedule",
    "csgmcmc",
    "evaluate",
    "reference",
]


def __dir__() -> list[str]:
    return sorted(__all__)  # what a prompt offers, without what is imported here
