"""The situations with known truth that the verdict is measured on: chains made in NumPy."""

import math
from dataclasses import dataclass

from benchmarks.verdicts.verdict_chains import (
    EXPONENTIAL,
    NORMAL,
    UNIFORM,
    Source,
    autoregressive,
    independent,
    lognormal,
    modes,
    pausing,
    reflected_walk,
    some_slow,
    student,
)
from benchmarks.verdicts.verdict_metropolis import funnel, student_walk

__all__ = ["SITUATIONS", "Situation"]


@dataclass(frozen=True)
class Situation:
    """What chains are made, how many, and whether longer ones are judged too.

    Attributes:
        name: a line of the table.
        source: makes runs, and knows their truth.
        chains, draws: of a run.
        runs: how many runs are judged.
        outputs: of a run; only so many runs are made at once as fit a memory bound.
        underdispersed: the chains start closer together than draws by design.
        ample: runs that are judged with four times the draws needed; 0 for none.
    """

    name: str
    source: Source
    chains: int = 4
    draws: int = 1000
    runs: int = 500
    outputs: int = 1
    underdispersed: bool = False
    ample: int = 200


def _of(name: str, source: Source, **settings: object) -> Situation:
    return Situation(name, source, **settings)  # type: ignore[arg-type]


_FAR = (-5.0, 5.0)
_EQUAL, _UNEQUAL, _MINOR = (0.5, 0.5), (0.7, 0.3), (0.9, 0.1)
_THREE, _THIRDS = (-6.0, 0.0, 6.0), (1 / 3, 1 / 3, 1 / 3)

_INDEPENDENT = (
    _of("normal", independent(NORMAL)),
    _of("normal, short", independent(NORMAL), draws=100, ample=0),
    _of("normal, 8 chains", independent(NORMAL), chains=8),
    _of("normal, 16 chains", independent(NORMAL), chains=16, draws=250),
    _of("normal, 2 chains", independent(NORMAL), chains=2, ample=0),
    _of("normal, 1 chain", independent(NORMAL), chains=1, runs=100, ample=0),
    _of("normal, 10 outputs", independent(NORMAL, 10), outputs=10),
    _of("normal, 100 outputs", independent(NORMAL, 100), outputs=100, runs=60, ample=60),
    _of("normal, 1 000 outputs", independent(NORMAL, 1000), outputs=1000, runs=20, ample=20),
    _of("uniform", independent(UNIFORM)),
    _of("exponential", independent(EXPONENTIAL)),
    _of(
        "exponential, 1 000 outputs",
        independent(EXPONENTIAL, 1000),
        outputs=1000,
        runs=20,
        ample=20,
    ),
    _of("lognormal(0.5)", independent(lognormal(0.5))),
)
_HEAVY = (
    _of("t(8)", independent(student(8))),
    _of("t(8), 1 000 outputs", independent(student(8), 1000), outputs=1000, runs=20, ample=20),
    _of("t(5)", independent(student(5)), ample=0),
    _of("t(5), 1 000 outputs", independent(student(5), 1000), outputs=1000, runs=20, ample=0),
    _of("t(3)", independent(student(3)), ample=0),
    _of("t(3), 4 000 draws", independent(student(3)), draws=4000, ample=0),
    _of("t(3), 10 outputs", independent(student(3), 10), outputs=10, ample=0),
    _of("t(2.5)", independent(student(2.5)), ample=0),
    _of("t(2.5), 10 outputs", independent(student(2.5), 10), outputs=10, ample=0),
    _of("t(2.5), 4 000 draws", independent(student(2.5)), draws=4000, ample=0),
    _of("lognormal(1.5)", independent(lognormal(1.5)), ample=0),
    _of("Metropolis on t(3)", student_walk(3, 4.0, 5), ample=0),
)
_SLOW = (
    _of("AR(0.9)", autoregressive(0.9)),
    _of("AR(0.9), 10 outputs", autoregressive(0.9, outputs=10), outputs=10),
    _of("AR(0.99)", autoregressive(0.99), ample=40),
    _of("AR(0.99), 20 000 draws", autoregressive(0.99), draws=20_000, runs=200, ample=0),
    _of("AR(0.999)", autoregressive(0.999), ample=0),
    _of("AR(−0.5)", autoregressive(-0.5)),
    _of("AR(0.99), starts 10 sd wide", autoregressive(0.99, start=10), ample=0),
    _of(
        "AR(0.98), starts 10 sd wide, long",
        autoregressive(0.98, start=10),
        draws=10_000,
        runs=200,
        ample=40,
    ),
    _of("AR(0.97), starts shifted by 5 sd", autoregressive(0.97, shift=5), draws=2000, ample=0),
    _of(
        "AR(0.999), 5 of 100 outputs",
        some_slow(0.999, slow=5, outputs=100),
        runs=60,
        ample=0,
        outputs=100,
    ),
    _of("reflected walk, step 0.2", reflected_walk(0.2)),
    _of("reflected walk, step 0.05", reflected_walk(0.05), ample=20),
    _of("reflected walk, step 0.01", reflected_walk(0.01), ample=0),
    _of("held in the tails for 20 draws", pausing(20), ample=40),
    _of("held in the tails for 100 draws", pausing(100), draws=2000, ample=0),
)
_FUNNELS = (
    _of("funnel, Metropolis, 1 step a draw", funnel(1.5, 1), ample=0),
    _of("funnel, Metropolis, 10 steps a draw", funnel(1.5, 10), ample=0),
    _of("funnel, Metropolis, 30 steps a draw", funnel(3.0, 30), runs=200, draws=2000, ample=0),
)
_MODES = (
    _of("two modes, switching every 5 draws", modes(_FAR, _EQUAL, dwell=5)),
    _of("two modes, every 20", modes(_FAR, _EQUAL, dwell=20), ample=40),
    _of(
        "two modes, every 20, 10 outputs",
        modes(_FAR, _EQUAL, dwell=20, outputs=10),
        outputs=10,
        ample=20,
    ),
    _of("two modes, every 100", modes(_FAR, _EQUAL, dwell=100), ample=0),
    _of("two modes, every 500", modes(_FAR, _EQUAL, dwell=500), ample=0),
    _of("two modes, never", modes(_FAR, _EQUAL, dwell=math.inf), ample=0),
    _of("two modes, never, 8 chains", modes(_FAR, _EQUAL, dwell=math.inf), chains=8, ample=0),
    _of(
        "two modes, every 1 000, 16 chains",
        modes(_FAR, _EQUAL, dwell=1000),
        chains=16,
        draws=500,
        ample=0,
    ),
    _of("two modes, never, 2 chains", modes(_FAR, _EQUAL, dwell=math.inf), chains=2, ample=0),
    _of("weights 0.7 and 0.3, every 20", modes(_FAR, _UNEQUAL, dwell=20), ample=0),
    _of(
        "weights 0.7 and 0.3, every 300, starts half and half",
        modes(_FAR, _UNEQUAL, dwell=300, starts="modes"),
        ample=0,
    ),
    _of("weights 0.9 and 0.1, every 50", modes(_FAR, _MINOR, dwell=50), ample=0),
    _of("weights 0.9 and 0.1, every 300", modes(_FAR, _MINOR, dwell=300), ample=0),
    _of(
        "weights 0.9 and 0.1, every 300, starts in the larger",
        modes(_FAR, _MINOR, dwell=300, starts=0),
        ample=0,
    ),
    _of(
        "weights 0.9 and 0.1, every 1 000, 250 draws, starts in the larger",
        modes(_FAR, _MINOR, dwell=1000, starts=0),
        draws=250,
        ample=0,
    ),
    _of("weights 0.98 and 0.02, every 20", modes((0.0, 8.0), (0.98, 0.02), dwell=20), ample=0),
    _of("overlapping modes, never", modes((-1.0, 1.0), _EQUAL, dwell=math.inf), ample=0),
    _of("hardly apart, never", modes((-0.4, 0.4), _EQUAL, dwell=math.inf), ample=0),
    _of("three modes, every 50", modes(_THREE, _THIRDS, dwell=50), ample=0),
    _of(
        "three modes, never, starts spread",
        modes(_THREE, _THIRDS, dwell=math.inf, starts="modes"),
        ample=0,
    ),
    _of(
        "three modes of weights 0.6, 0.3, 0.1, every 100",
        modes(_THREE, (0.6, 0.3, 0.1), dwell=100),
        draws=2000,
        ample=0,
    ),
)
_STARTS = (
    _of(
        "normal, starts at one place", autoregressive(0.5, start=0.0), underdispersed=True, ample=0
    ),
    _of(
        "AR(0.99), starts within 0.1 sd, shifted by 1 sd",
        autoregressive(0.99, start=0.1, shift=1.0),
        draws=10_000,
        runs=200,
        underdispersed=True,
        ample=0,
    ),
    _of("AR(0.9), starts half as wide", autoregressive(0.9, start=0.5), ample=0),
    _of(
        "walk, step 0.05, starts in the middle",
        reflected_walk(0.05, centred=True),
        underdispersed=True,
        ample=0,
    ),
    _of(
        "two modes, never, starts at one place",
        modes(_FAR, _EQUAL, dwell=math.inf, starts=5.0),
        underdispersed=True,
        ample=0,
    ),
    _of(
        "two modes, every 20, starts at one place",
        modes(_FAR, _EQUAL, dwell=20, starts=5.0),
        underdispersed=True,
        ample=0,
    ),
    _of(
        "two modes, never, starts spread in one",
        modes(_FAR, _EQUAL, dwell=math.inf, starts=0),
        ample=0,
    ),
)

SITUATIONS = _INDEPENDENT + _HEAVY + _SLOW + _FUNNELS + _MODES + _STARTS
