"""Rank-normalised split R-hat, effective sample sizes and Monte Carlo errors of many variables.

The definitions are those of Vehtari et al. (2021) and the conventions those of ArviZ, which
computes them one variable at a time; here all variables of a block go together, and blocks keep
the memory bounded. The tails are the 5 % and 95 % quantiles, as those of ArviZ's `ess(...,
method="tail", prob=(0.05, 0.95))`; without `prob`, ArviZ 1 takes 11 % and 89 %, by its setting
`stats.ci_prob`. Every function takes `draws` of shape (chain, draw, ...) and returns an array
of the trailing shape (a scalar when there is none). A variable with a NaN or an infinity, or one
with fewer than 4 draws a chain, gets NaN; R-hat also needs two chains and is NaN for a constant.

References:
    Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021), Rank-normalization, folding, and
    localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2),
    arXiv:1903.08008.
    Geyer (1992), Practical Markov chain Monte Carlo, Statistical Science 7(4).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.diagnostics.convergence.halved_chains import (
    ess_of_halves,
    half_chains,
    larger,
    rhat_of_halves,
)
from bayesnn_ppl.diagnostics.convergence.ranks import normal_scores

type Array = NDArray[np.float64]

# Values in one block of variables: its sorts and transforms then work on about a megabyte, which
# stays in the processor's caches and was measured fastest.
_BLOCK = 2**17
_FEWEST_DRAWS = 4
_TAILS = (0.05, 0.95)


@readable
class Convergence(NamedTuple):
    """Convergence measures of every variable; each field has the variables' shape.

    `rhat`, `ess_bulk`, `ess_tail` as the functions of those names; `mcse_mean` the standard error
    of `mean` in the variable's units; `sd` with divisor n - 1, exactly 0 for a constant.
    """

    rhat: Any
    ess_bulk: Any
    ess_tail: Any
    mcse_mean: Any
    mean: Any
    sd: Any


def rhat(draws: ArrayLike) -> Any:
    """Rank-normalised split R-hat: the larger of the bulk and the folded one.

    Chains are halved, values replaced by normal scores z = Phi^-1((rank - 3/8) / (S + 1/4)), and
    R-hat = sqrt((B/W + n - 1) / n), with n draws in a half chain, B = n Var(half-chain means) and
    W = mean(half-chain variances). Folding replaces x by |x - median(x)| first and so compares
    the spread of the chains. Chains that never move, at different places, have R-hat infinity.

    Args:
        draws: shape (chain, draw, ...).

    Returns:
        Array of the trailing shape. NaN for one chain and for a constant.

    Raises:
        ValueError: `draws` has fewer than two axes, or its chains differ in their numbers of draws.
        TypeError: `draws` is not real.
    """
    return _measured(draws, "rhat")["rhat"]


def ess_bulk(draws: ArrayLike) -> Any:
    """Effective sample size of the bulk: that of the normal scores of the split chains.

    ESS = S / tau, tau = -1 + 2 sum_k P_k over Geyer's initial monotone sequence of the pair sums
    P_k = rho_2k + rho_2k+1, with the autocorrelations rho combined over chains, and tau at least
    1 / log10(S). A constant has ESS = S.

    Args:
        draws: shape (chain, draw, ...).

    Returns:
        Array of the trailing shape.

    Raises:
        ValueError, TypeError: as `rhat`.
    """
    return _measured(draws, "ess_bulk")["ess_bulk"]


def ess_tail(draws: ArrayLike) -> Any:
    """Effective sample size of the tails: the smaller of the indicators x <= q05 and x <= q95.

    `az.summary` of ArviZ 1 shows that of x <= q11 and x <= q89, unless `stats.ci_prob` is 0.95.

    Args:
        draws: shape (chain, draw, ...).

    Returns:
        Array of the trailing shape.

    Raises:
        ValueError, TypeError: as `rhat`.
    """
    return _measured(draws, "ess_tail")["ess_tail"]


def mcse_mean(draws: ArrayLike) -> Any:
    """Monte Carlo standard error of the mean, sd / sqrt(ESS of the raw values), in their units.

    Args:
        draws: shape (chain, draw, ...).

    Returns:
        Array of the trailing shape.

    Raises:
        ValueError, TypeError: as `rhat`.
    """
    return _measured(draws, "mcse_mean")["mcse_mean"]


def convergence_summary(draws: ArrayLike) -> Convergence:
    """All measures at once, sharing the sorts and the passes over the data.

    Args:
        draws: shape (chain, draw, ...).

    Returns:
        A `Convergence`.

    Raises:
        ValueError, TypeError: as `rhat`.
    """
    return Convergence(**_measured(draws, *Convergence._fields))


def ebfmi(energy: ArrayLike) -> Array:
    """Energy Bayesian fraction of missing information of each chain.

    E-BFMI = mean (E_t - E_t-1)^2 / Var(E). Below about 0.3 the momentum refreshment moves the
    energy too slowly for the spread of energies, and the tails are not explored.

    Args:
        energy: the Hamiltonian after each draw, shape (chain, draw).

    Returns:
        Array (chain,); NaN for a constant or non-finite energy and for fewer than 4 draws.

    Raises:
        ValueError: `energy` does not have the two axes (chain, draw), or its chains differ in
            their numbers of draws.

    References:
        Betancourt (2016), arXiv:1604.00695.
    """
    values = np.asarray(rectangular(energy, "energy"), dtype=float)
    if values.ndim != 2:
        raise ValueError(
            f"`energy` has shape {values.shape}, but E-BFMI is computed per chain. "
            "Pass an array with the axes (chain, draw)."
        )
    if values.shape[1] < _FEWEST_DRAWS:
        return np.full(values.shape[0], np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        steps = np.mean(np.diff(values, axis=1) ** 2, axis=1)
        return np.where(np.ptp(values, axis=1) > 0, steps / np.var(values, axis=1, ddof=1), np.nan)


def _measured(draws: ArrayLike, *wanted: str) -> dict[str, Any]:
    return by_block(draws, wanted, lambda block: _measure_block(block, wanted))


def checked_draws(draws: ArrayLike) -> NDArray[Any]:
    """The draws as an array; ValueError or TypeError as `rhat`."""
    values = rectangular(draws, "draws")
    if values.ndim < 2:
        raise ValueError(
            f"`draws` has shape {values.shape}, but needs the leading axes (chain, draw). "
            "For a single chain add the axis: draws[None]."
        )
    if values.dtype.kind not in "fiub":
        raise TypeError(
            f"`draws` has dtype {values.dtype}, but R-hat and ESS order the values and so need "
            "real numbers. Pass the real and imaginary parts, or codes of the categories, apart."
        )
    return values


def rectangular(draws: Any, name: str) -> NDArray[Any]:
    """The chains as one array; those of a list may have unlike lengths, which NumPy refuses."""
    try:
        values = np.asarray(draws)
        if values.dtype != object or values.ndim != 1:
            return values
    except ValueError:  # told below, for an array of lists too
        pass
    counts = [len(chain) if hasattr(chain, "__len__") else 1 for chain in draws]
    if len(set(counts)) < 2:
        raise ValueError(
            f"`{name}` does not make an array (chain, draw, ...): its parts have different shapes. "
            "Give variables of different shapes one by one."
        )
    least, shown = min(counts), ", ".join(map(str, counts[:8])) + ", ..." * (len(counts) > 8)
    raise ValueError(
        f"The chains of `{name}` have different numbers of draws, {shown}, and these measures "
        f"compare chains of one length. Cut them to the shortest: [chain[:{least}] for chain in "
        f"{name}]."
    )


def by_block(
    draws: ArrayLike, wanted: tuple[str, ...], measure: Callable[[Array], dict[str, Array]]
) -> dict[str, Any]:
    """Measures of every variable, computed for blocks of finite ones.

    Args:
        draws: shape (chain, draw, ...).
        wanted: names of the measures.
        measure: block (variable, chain, draw) -> name -> (variable,).

    Raises:
        ValueError, TypeError: as `rhat`.
    """
    values = checked_draws(draws)
    chains, count = values.shape[:2]
    trailing = values.shape[2:]
    variables = int(np.prod(trailing))
    flat = values.reshape(chains, count, variables)
    results = {name: np.full(variables, np.nan) for name in wanted}
    if count >= _FEWEST_DRAWS and chains >= 1:
        width = max(1, _BLOCK // (chains * count))
        for start in range(0, variables, width):
            part = slice(start, start + width)
            block = np.ascontiguousarray(np.moveaxis(flat[:, :, part], 2, 0), dtype=float)
            finite = np.isfinite(block).all(axis=(1, 2))
            if not finite.any():
                continue
            kept = block if finite.all() else block[finite]
            for name, result in measure(kept).items():
                results[name][part][finite] = result
    return {name: result.reshape(trailing)[()] for name, result in results.items()}


def _measure_block(block: Array, wanted: tuple[str, ...]) -> dict[str, Array]:
    """Measures of one finite block (variable, chain, draw)."""
    variables, chains, count = block.shape
    split = half_chains(block)
    results: dict[str, Array] = {}
    if "rhat" in wanted or "ess_bulk" in wanted:
        fold = "rhat" in wanted and chains > 1
        scores, folded = normal_scores(split.reshape(variables, -1), fold=fold)
        scores = scores.reshape(split.shape)
        if "rhat" in wanted:
            if folded is None:
                results["rhat"] = np.full(variables, np.nan)
            else:
                results["rhat"] = larger(
                    rhat_of_halves(scores), rhat_of_halves(folded.reshape(split.shape))
                )
        if "ess_bulk" in wanted:
            results["ess_bulk"] = ess_of_halves(scores)
    if "ess_tail" in wanted:
        edges = np.quantile(block.reshape(variables, -1), _TAILS, axis=1)
        low, high = (ess_of_halves((split <= edge[:, None, None]).astype(float)) for edge in edges)
        results["ess_tail"] = np.minimum(low, high)
    if {"mcse_mean", "mean", "sd"} & set(wanted):
        constant = np.ptp(block, axis=(1, 2)) == 0
        sd = np.where(constant, 0.0, np.std(block, axis=(1, 2), ddof=1))
        if "mean" in wanted:
            results["mean"] = np.where(constant, block[:, 0, 0], np.mean(block, axis=(1, 2)))
        if "sd" in wanted:
            results["sd"] = sd
        if "mcse_mean" in wanted:
            results["mcse_mean"] = sd / np.sqrt(ess_of_halves(split))
    return results
