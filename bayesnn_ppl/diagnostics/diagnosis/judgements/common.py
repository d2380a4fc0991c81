"""A judgement and its parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from bayesnn_ppl.core.arguments import readable

type Status = Literal["converged", "approximate", "doubtful", "not judged", "not converged"]
type JudgementStatus = Literal["passed", "approximate", "doubtful", "not judged", "failed"]
type Name = Literal["mixing", "exploration", "exactness", "precision"]
type Summary = Mapping[str, Any]
# What was found, and how bad it is.
type Finding = tuple[JudgementStatus, str]

# From harmless to worst: the worst of several decides.
SEVERITY: tuple[JudgementStatus, ...] = (
    "passed",
    "approximate",
    "doubtful",
    "not judged",
    "failed",
)


class Thresholds(NamedTuple):
    """The numbers a verdict rests on; see `diagnose` for their meaning."""

    rhat_threshold: float
    rhat_limit: float
    ess_threshold: float
    ess_limit: float
    ebfmi_threshold: float
    divergence_share: float
    saturation_share: float
    stuck_share: float
    acceptance_shortfall: float


@readable
@dataclass(frozen=True)
class Judgement:
    """One of the four questions of a verdict.

    Attributes:
        name: "mixing": do the chains agree, and are they long enough? "exploration": would they
            disagree if they had missed something? "exactness": does the sampler leave the
            posterior unchanged? "precision": how large are the Monte Carlo errors?
        status: "passed"; "approximate": a threshold is missed, within stated errors; "doubtful":
            there are signs of a bias; "not judged": it was not examined; "failed".
        figure: what the status rests on, in half a line.
        sentences: reasons and what to do.
    """

    name: Name
    status: JudgementStatus
    figure: str
    sentences: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: Name, figure: str, findings: Sequence[Finding]) -> "Judgement":
        """The judgement of several findings: the worst decides, and the worst is said first."""
        ordered = sorted(findings, key=lambda found: -SEVERITY.index(found[0]))
        status = ordered[0][0] if ordered else "passed"
        return cls(name, status, figure, tuple(sentence for _, sentence in ordered))


def outputs(functions: Mapping[str, Summary]) -> list[Summary]:
    """Summaries of the functions that have outputs to judge."""
    return [summary for summary in functions.values() if summary["judged"]]


def fewest(summary: Summary) -> float:
    """The smallest effective sample size, bulk or tail."""
    return min(summary["ess_bulk_min"], summary["ess_tail_min"])


def rhat_name(sampler: Summary) -> str:
    """What R-hat is called: of superchains it is the nested one."""
    return "R-hat" if sampler.get("superchains") is None else "nested R-hat"
