"""Which chains do not move, and which differ from the rest."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.diagnostics.convergence.measures import rhat

# Outputs looked at when a chain is searched for; the worst ones show it best.
_OUTPUTS = 64
# Leaving a chain out must take away this share of the excess of R-hat over 1 to put the blame on
# it: among chains that merely mix badly the oddest one takes away a half or so.
_BLAME = 0.8
# Elements compared at a time.
_COLUMNS = 4096


def moved_share(variables: Mapping[Any, NDArray]) -> NDArray[np.float64]:
    """Share of draws that differ from the draw before, per chain; NaN without draws to compare.

    A draw moves when any element of any variable changes, so a rejected proposal does not count.

    Args:
        variables: name -> array (chain, draw, ...), at least one.
    """
    arrays = list(variables.values())
    chains = arrays[0].shape[0]
    shares = np.full(chains, np.nan)
    for chain in range(chains):
        # Variables may be recorded at different draws (thinned functions): the best one counts.
        by_length: dict[int, NDArray] = {}
        for array in arrays:
            values = array[chain].reshape(array.shape[1], -1)
            moved = by_length.setdefault(len(values), np.zeros(max(len(values) - 1, 0), bool))
            for start in range(0, values.shape[1], _COLUMNS):
                if moved.all():
                    break
                part = values[:, start : start + _COLUMNS]
                moved |= (part[1:] != part[:-1]).any(axis=1)
        known = [moved.mean() for moved in by_length.values() if moved.size]
        if known:
            shares[chain] = max(known)
    return shares


def chains_apart(
    functions: Mapping[str, NDArray],
    *,
    rhat_threshold: float = 1.01,
    rhat_limit: float = 1.1,
    share: float = 0.95,
) -> tuple[list[int], float]:
    """Chains that differ from the majority in function space.

    The level is `rhat_limit` where an output reaches it, else `rhat_threshold`. Among the
    outputs at or above the level (the 64 worst), the chain that is farthest from the median
    chain, in mean or in log spread, is left out, and then the next, while more than half of the
    chains remain. The chains left out are named when without them nearly all those outputs come
    below the level and the excess of R-hat over 1 falls by four fifths.

    Args:
        functions: label -> array (chain, draw, ...).
        rhat_threshold, rhat_limit: the two levels.
        share: the share of those outputs that must come below the level.

    Returns:
        The chains, numbered from 0, and the largest R-hat of those outputs without them; no
        chains and NaN when none can be named.
    """
    columns = [array.reshape(*array.shape[:2], -1) for array in functions.values() if array.size]
    if not columns or columns[0].shape[0] < 3:
        return [], float("nan")
    chains = columns[0].shape[0]
    each = [np.atleast_1d(rhat(column)) for column in columns]
    before = np.concatenate(each)
    level = rhat_limit if np.any(before >= rhat_limit) else rhat_threshold
    order = np.argsort(np.where(np.isnan(before), -np.inf, before), kind="stable")[::-1][:_OUTPUTS]
    worst = np.sort(order[before[order] >= level])
    if not worst.size:
        return [], float("nan")
    starts = np.cumsum([0, *(len(part) for part in each)])
    values = np.concatenate(
        [
            column[:, :, worst[(worst >= start) & (worst < start + column.shape[2])] - start]
            for column, start in zip(columns, starts, strict=False)
        ],
        axis=2,
    ).astype(float)
    before = before[worst]
    mean, sd = values.mean(axis=1), values.std(axis=1)
    left = list(range(chains))
    # An infinite R-hat (frozen chains) has no excess to compare.
    excess = np.minimum(before, 1e6) - 1
    while len(left) - 1 > chains / 2 and len(left) > 2:
        scale = np.median(sd[left], axis=0)
        floor = np.where(scale > 0, 1e-3 * scale, 1.0)
        away = np.abs(mean[left] - np.median(mean[left], axis=0)) / (scale + floor)
        spread = np.log(sd[left] + floor)
        away = np.maximum(away, np.abs(spread - np.median(spread, axis=0)))
        left.pop(int(np.argmax(np.mean(away, axis=1))))
        after = rhat(values[left])
        # Outputs that become constant without the chain agree without it.
        after = np.where(np.isnan(after), 1.0, after)
        relieved = np.median((after - 1) / excess) <= 1 - _BLAME
        if relieved and np.mean(after < level) >= share:
            return [chain for chain in range(chains) if chain not in left], float(after.max())
    return [], float("nan")
