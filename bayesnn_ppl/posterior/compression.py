"""A few draws in place of many: support points of the posterior, chosen in function space."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.posterior.draws_with_model import DrawsWithModel, as_inputs, spread_rows
from bayesnn_ppl.references.stored import compared
from bayesnn_ppl.storage import STARTS

__all__ = ["compress", "support_points"]

_MOST_VALUES = 2000  # of the functions of one draw
_MOST_DRAWS = 4096  # whose distances take 128 MB
_MOST_PASSES = 50
# What a run's record says of files that a selection does not have.
_FILES = ("probe", "starts", "derived", "storage", "parts")


def compress(posterior: DrawsWithModel, k: int, x: Any, memory: int) -> Any:
    """See `Posterior.compress`."""
    run = posterior.provenance
    if not posterior.has_weights:
        raise ValueError(
            "The run kept no draws of its weights, and `compress` chooses among them. Sample with "
            '`Keep(weights="all")`, the default.'
        )
    sizes = posterior.tree["posterior"].sizes
    chains, each = int(sizes["chain"]), int(sizes["draw"])
    k = integer(k, "`k`, the number of draws to keep,", at_least=1, below=chains * each)
    x = as_inputs(posterior, x)
    x = spread_rows(posterior, x, _MOST_VALUES, memory)
    points = _coordinates(posterior.function_values(x, memory=memory))
    # All draws, or else so many, evenly spaced, that stand for all.
    count = min(len(points), max(_MOST_DRAWS, k))
    candidates = np.linspace(0, len(points) - 1, count).astype(int)
    chosen, energy, spread = support_points(points[candidates], k)
    chain, draw = np.divmod(np.sort(candidates[chosen]), each)
    selection = {
        "of": len(points),
        "rows": len(x),
        "energy_distance": energy,
        # The expectation of n random draws, spread (S - n) / ((S - 1) n), solved for n.
        "random_draws": spread * count / (energy * (count - 1) + spread),
    }
    changed = {"chains": 1, "draws": k, "draws_requested": k, "every": {"posterior": 1}}
    changed |= {"superchains": None, "stopped_chains": [], "selection": selection}
    draws = {name: a[chain, draw][None] for name, a in posterior.draws.items()}
    return type(posterior).from_groups(
        {
            "posterior": draws,
            "sample_stats": {"source_chain": chain[None], "source_draw": draw[None]},
        },
        {name: value for name, value in run.items() if name not in _FILES} | changed,
        starts=_mode(posterior),
        model=posterior.model,
    )


def _coordinates(functions: dict[str, np.ndarray]) -> NDArray[np.float64]:
    """Draws as points (S, D): mean and noise sd, or log-odds, each in its standard deviations."""
    columns = [np.asarray(a, np.float64) for a in compared(functions).values()]
    points = np.concatenate([a.reshape(a.shape[0] * a.shape[1], -1) for a in columns], axis=1)
    lost = np.count_nonzero(~np.isfinite(points).all(axis=1))
    if lost:
        raise ValueError(
            f"The functions of {lost} of {len(points)} draws are not finite at `x`, so predictions "
            "of all draws are not numbers either. `posterior.diagnose(x)` names the chains."
        )
    spread = points.std(axis=0)
    if not spread.any():
        raise ValueError(
            f"All {len(points)} draws predict the same at `x`, so there is nothing to choose by. "
            "Give other inputs, or keep any one draw."
        )
    return (points / np.where(spread > 0, spread, 1.0))[:, spread > 0]


def support_points(
    points: NDArray[np.float64], k: int, *, passes: int = _MOST_PASSES
) -> tuple[NDArray[np.intp], float, float]:
    r"""k of S points with a small energy distance to all S.

        E = 2/(kS) Σ_{i,j} |c_i - p_j| - 1/k² Σ_{i,i'} |c_i - c_i'| - 1/S² Σ_{j,j'} |p_j - p_j'|

    This is the squared maximum mean discrepancy of the kernel -|a - b|, which has no width to be
    set: zero if and only if both sets have one distribution. The points are chosen one by one, each
    where it makes E of those so far the smallest, as in kernel herding. Then each in turn is
    exchanged for the best one that is not chosen, until no exchange makes E smaller.

    Args:
        points: shape (S, D).
        k: how many, below S.
        passes: of exchanges, at most.

    Returns:
        Their numbers (k,); E; and the mean distance of two points, 1/S² Σ |p_j - p_j'|.

    References:
        Mak and Joseph (2018), Support points, arXiv:1609.01811; Chen, Welling and Smola (2010),
        Super-samples from kernel herding, arXiv:1203.3472.
    """
    distances = _distances(points)
    to_all = distances.mean(axis=1)
    to_chosen, chosen = np.zeros(len(points)), np.zeros(0, dtype=np.intp)

    def best(size: int, to_others: NDArray[np.float64], others: NDArray[np.intp]) -> int:
        cost = size * to_all - to_others
        cost[others] = np.inf
        return int(cost.argmin())

    for size in range(1, k + 1):
        chosen = np.append(chosen, best(size, to_chosen, chosen))
        to_chosen += distances[chosen[-1]]
    for _ in range(passes):
        before = chosen.copy()
        for place, old in enumerate(before):
            to_others = to_chosen - distances[old]
            new = best(k, to_others, np.delete(chosen, place))
            gain = k * (to_all[old] - to_all[new]) - (to_others[old] - to_others[new])
            if gain > 1e-9 * k * to_all[old]:  # rounding exchanges equal points for ever
                chosen[place], to_chosen = new, to_others + distances[new]
        if (chosen == before).all():
            break
    spread = float(to_all.mean())
    energy = 2 * to_all[chosen].mean() - distances[np.ix_(chosen, chosen)].mean() - spread
    return chosen, float(energy), spread


def _distances(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """|p_i - p_j|, shape (S, S), in one array."""
    squares = np.square(points).sum(axis=1)
    found = points @ points.T
    found *= -2.0
    found += squares
    found += squares[:, None]
    np.maximum(found, 0.0, out=found)
    np.sqrt(found, out=found)
    np.fill_diagonal(found, 0.0)
    return found


def _mode(posterior: DrawsWithModel) -> dict[str, np.ndarray]:
    """Where a linearised network is expanded, which `load` reads among the starts; else nothing."""
    fit = posterior.provenance.get("approximation") or {}
    if fit.get("predictive") != "linearised":
        return {}
    group = STARTS[0]
    return {f"{group}/{n}": a.values[:1] for n, a in posterior.tree[group].data_vars.items()}
