"""Chains that are stuck, not finite, given twice, or apart from the rest."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.diagnostics.convergence.chains import chains_apart, moved_share
from bayesnn_ppl.diagnostics.diagnosis.given import Given
from bayesnn_ppl.diagnostics.diagnosis.judgements import Thresholds

__all__ = ["odd_chains"]


def odd_chains(given: Given, acceptance: list[float] | None, limits: Thresholds) -> dict[str, Any]:
    """The numbers of the odd chains, by what is odd about them.

    Args:
        given: the arrays.
        acceptance: the mean of each chain, where it is known.
        limits: what counts as stuck, and as apart.
    """
    # Equal names in both groups must not hide each other.
    everything = {("f", name): array for name, array in given.functions.items()}
    everything |= {("w", name): array for name, array in given.draws.items()}
    moved = moved_share(everything)
    accepted = acceptance or [np.nan] * given.chains
    # What is one constant over all chains cannot say that one of them is stuck.
    varies = any((array != array[:1, :1]).any() for array in everything.values())
    stuck = [
        chain
        for chain, share in enumerate(moved)
        if given.recorded >= 4
        and ((varies and share < limits.stuck_share) or accepted[chain] < limits.stuck_share)
    ]
    broken = [
        chain
        for chain in range(given.chains)
        # The extremes of a chain carry a NaN on and need no array of truth values.
        if not all(
            np.isfinite(array[chain].min()) and np.isfinite(array[chain].max())
            for array in everything.values()
            if array.size
        )
    ]
    apart: list[int] = []
    twins: list[list[int]] = []
    without = float("nan")
    if given.superchains is None:  # else chains are many and short, and may be copies
        twins = _identical(everything, [chain for chain in range(given.chains) if moved[chain] > 0])
        apart, without = chains_apart(
            given.functions, rhat_threshold=limits.rhat_threshold, rhat_limit=limits.rhat_limit
        )
    return {
        "moved_share": moved.tolist(),
        "stuck_chains": stuck,
        "non_finite_chains": broken,
        "identical_chains": twins,
        "apart_chains": apart,
        "rhat_without_apart": without if apart else None,
    }


def _identical(variables: Mapping[Any, NDArray], chains: list[int]) -> list[list[int]]:
    """Groups of chains that have the same draws, of those given."""
    arrays = list(variables.values())
    alike: dict[bytes, list[int]] = {}
    for chain in chains:
        # The last draws tell nearly all chains apart.
        alike.setdefault(b"".join(a[chain, -1].tobytes() for a in arrays), []).append(chain)
    groups: list[list[int]] = []
    for candidates in alike.values():
        while len(candidates) > 1:
            first, *others = candidates
            same = [c for c in others if all(np.array_equal(a[first], a[c]) for a in arrays)]
            if same:
                groups.append([first, *same])
            candidates = [c for c in others if c not in same]
    return groups
