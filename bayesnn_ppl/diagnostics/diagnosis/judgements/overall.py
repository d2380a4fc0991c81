"""From four judgements to one verdict."""

import math
from collections.abc import Mapping, Sequence

from bayesnn_ppl.diagnostics.diagnosis.judgements.common import (
    SEVERITY,
    Judgement,
    Status,
    Summary,
    Thresholds,
)

__all__ = ["STATUS", "judge", "remarks"]

STATUS: Mapping[str, Status] = {
    "passed": "converged",
    "approximate": "approximate",
    "doubtful": "doubtful",
    "not judged": "not judged",
    "failed": "not converged",
}


def judge(judgements: Sequence[Judgement]) -> tuple[Status, tuple[str, ...]]:
    """The status of the worst judgement, and all reasons, the worst first."""
    ordered = sorted(judgements, key=lambda found: -SEVERITY.index(found.status))
    sentences = [sentence for found in ordered for sentence in found.sentences]
    return STATUS[ordered[0].status], tuple(sentences)


def remarks(
    functions: Mapping[str, Summary],
    weights: Mapping[str, Summary],
    status: Status,
    limits: Thresholds,
    *,
    symmetric: bool,
) -> tuple[str, ...]:
    """Why weights have a larger R-hat than functions, where they do.

    Args:
        functions, weights: label or layer -> summary.
        status: of the run; nothing is explained of one that failed or was not judged.
        limits: the two levels of R-hat.
        symmetric: whether the model has hidden units that could be exchanged.
    """
    in_functions, in_weights = _largest(functions), _largest(weights)
    bounds = (limits.rhat_threshold, limits.rhat_limit)
    if status in ("not converged", "not judged") or not any(
        in_functions < bound <= in_weights for bound in bounds
    ):
        return ()
    trust = (
        "predictions at these inputs can be trusted"
        if status == "converged"
        else "judge by the predictions, with the reservations above"
    )
    cause = (
        "weight symmetries (hidden-unit permutation, sign flips) let chains be at equivalent "
        f"places; {trust}, but do not interpret single weights."
        if symmetric
        else "some combinations of weights change the function little and mix slowly; "
        f"{trust}, but single weights are not converged."
    )
    return (
        f"Function space has R-hat {in_functions:.3f} at most while weights reach "
        f"{in_weights:.3g}: {cause}",
    )


def _largest(group: Mapping[str, Summary]) -> float:
    known = [s["rhat_max"] for s in group.values() if not math.isnan(s["rhat_max"])]
    return max(known, default=math.nan)
