"""Exploration: would the chains disagree if there were more to find than they have seen?"""

from collections.abc import Mapping
from typing import Any

from bayesnn_ppl.diagnostics.diagnosis.judgements.common import Judgement

__all__ = ["judge_exploration"]

_CHAINS = 4
_RARE = 0.1  # a region that takes this share of the starts


def judge_exploration(
    chains: int, starts: Mapping[str, Any], *, functions: bool = True, what: str = "chains"
) -> Judgement:
    """Were there four chains or more, and did they start at least as far apart as draws are?

    R-hat compares chains. It sees a region that one chain found and another did not, and is blind
    to one that none started near: of independent starts, `chains` miss a region that takes one
    start in ten with probability 0.9^chains.

    Args:
        chains: how many there are.
        starts: `status`, `median` and `sentence` of `dispersion_of_starts`; {} where the starts
            are not known.
        functions: whether function values of the draws are known, which the starts could be
            compared with.
        what: what they are called: "superchains", where chains that share a start count once.
    """
    missed = (
        f"a region that takes one start in ten is missed by {_all(chains)} in "
        f"{100 * (1 - _RARE) ** chains:.0f} % of runs"
    )
    if chains < 2:
        return Judgement(
            "exploration",
            "not judged",
            "one chain",
            (
                "There is only one chain. Whether it found the whole posterior cannot be judged, "
                "because only chains from different starts can disagree. Run at least 4.",
            ),
        )
    spread = starts.get("status", "not judged")
    known = {
        "overdispersed": "overdispersed starts",
        "comparable": "starts as far apart as draws",
        "underdispersed": "starts closer together than draws",
        "not judged": "starts not known" if functions else "functions at the starts not known",
    }[spread]
    figure = f"{chains} {what}, {known}: {missed}"
    if spread == "underdispersed":
        return Judgement(
            "exploration",
            "not judged",
            f"{chains} {what}, starts closer together than draws: R-hat cannot see modes that all "
            "of them missed",
            (starts["sentence"],),
        )
    if spread == "not judged":
        sentence = (
            "No function values are known, so the distance between the starts cannot be measured. "
            "Give the model and rows, or sample with probe inputs."
        )
        if functions and "sentence" in starts:
            sentence = starts["sentence"]
        elif functions:
            sentence = (
                "The starts of the chains are not known. So it is not known whether R-hat could "
                "have seen a mode that some of them missed. Pass `starts`, the function values at "
                "the starts; runs of `sample` record them."
            )
        return Judgement("exploration", "not judged", figure, (sentence,))
    if chains < _CHAINS:
        sentence = f"{chains} {what} are too few: {missed}. Run at least {_CHAINS}."
        return Judgement("exploration", "not judged", figure, (sentence,))
    return Judgement("exploration", "passed", figure)


def _all(chains: int) -> str:
    return "both" if chains == 2 else f"all {chains}"
