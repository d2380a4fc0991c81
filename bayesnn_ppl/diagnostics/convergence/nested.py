"""Nested R-hat: convergence of many short chains, grouped by where they started."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.diagnostics.convergence.halved_chains import larger, without_rounding
from bayesnn_ppl.diagnostics.convergence.measures import by_block, checked_draws, rhat
from bayesnn_ppl.diagnostics.convergence.ranks import normal_scores

__all__ = ["nested_rhat", "rhat_among"]

type Array = NDArray[np.float64]


def nested_rhat(draws: ArrayLike, superchains: ArrayLike) -> Any:
    r"""Rank-normalised split nested R-hat: the larger of the bulk and the folded one.

    Chains of one superchain started at one point and differ in their random numbers. The mean
    of a superchain averages over many chains, so that chains may be short: R-hat of single chains
    stays large until each has many effective draws, nested R-hat falls as soon as the starting
    points are forgotten. Over superchains, with the half chains of each,

        R-hat = sqrt(1 + B/W),   B = Var(superchain means),
        W = mean(Var(half-chain means) + mean(half-chain variances)).

    It is at least 1, and about 1 + 1/(2 M n) for stationary superchains of M chains with n
    effective draws each; for M = 1 it is not `rhat`, which has no such floor.

    The recipe is that of `rhat` here and of ArviZ's `rhat_nested(method="rank")`: chains are
    halved, values replaced by normal scores, and so are the folded values |x - median(x)|.

    Args:
        draws: shape (chain, draw, ...).
        superchains: the superchain of each chain, shape (chain,): any labels, each as often.

    Returns:
        Array of the trailing shape, a scalar when there is none. NaN for a constant, a variable
        with a NaN or an infinity, and fewer than 4 draws a chain; infinity for chains that never
        move and whose superchains are at different places.

    Raises:
        ValueError: `draws` has fewer than two axes; there is not one label for each chain; there
            is one superchain only, or they differ in size.
        TypeError: `draws` is not real.

    References:
        Margossian, Hoffman, Sountsov, Riou-Durand, Vehtari, Gelman (2024), Nested R-hat:
        assessing the convergence of Markov chain Monte Carlo when running many short chains,
        Bayesian Analysis, arXiv:2110.13017, equations 4 to 8.
    """
    values = checked_draws(draws)
    members = _members(superchains, values.shape[0])
    order = members.reshape(-1)
    return by_block(
        values, ("rhat",), lambda block: {"rhat": _of_block(block[:, order], len(members))}
    )["rhat"]


def rhat_among(draws: ArrayLike, superchains: int | None) -> Any:
    """Nested R-hat of so many superchains, whose chains are neighbours; R-hat where there are none.

    Raises:
        ValueError: the chains are not so many groups of one size.
    """
    if superchains is None:
        return rhat(draws)
    chains = np.shape(draws)[0]
    if superchains < 2 or chains % superchains:
        raise ValueError(
            f"{chains} chains are not {superchains} superchains of equal size. There must be two "
            "or more superchains, and a multiple of their number of chains."
        )
    return nested_rhat(draws, np.repeat(np.arange(superchains), chains // superchains))


def _members(superchains: ArrayLike, chains: int) -> NDArray[np.intp]:
    """The chains of each superchain, shape (superchain, chain)."""
    labels = np.asarray(superchains)
    if labels.shape != (chains,):
        raise ValueError(
            f"`superchains` has shape {labels.shape}, but the draws have {chains} chains. "
            "Give one label for each, such as np.repeat(np.arange(K), M) for K superchains of M."
        )
    names, which, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise ValueError(
            f"Nested R-hat compares superchains, and there are {len(names)}. Start the chains at "
            "two or more points."
        )
    if sizes.min() != sizes.max():
        listed = ", ".join(f"{name}: {size}" for name, size in zip(names, sizes, strict=True))
        raise ValueError(
            "Nested R-hat needs superchains of one size, but their numbers of chains are "
            f"{listed}. Leave out chains of the larger ones."
        )
    return np.argsort(which, kind="stable").reshape(len(names), -1)


def _of_block(block: Array, superchains: int) -> Array:
    """Nested R-hat of finite (variable, chain, draw), chains of a superchain side by side."""
    variables, _, count = block.shape
    half = count // 2
    # An odd count leaves its middle draw out; both halves stay beside their superchain's.
    split = np.stack((block[:, :, :half], block[:, :, -half:]), axis=2)
    shape = (variables, superchains, -1, half)
    scores, folded = normal_scores(split.reshape(variables, -1), fold=True)
    assert folded is not None
    return larger(_nested(scores.reshape(shape)), _nested(folded.reshape(shape)))


def _nested(scores: Array) -> Array:
    """sqrt(1 + B/W) of (variable, superchain, half chain, draw); NaN for a constant."""
    means = scores.mean(axis=3)
    within = scores.var(axis=3, ddof=1).mean(axis=2) + means.var(axis=2, ddof=1)
    between = means.mean(axis=2).var(axis=1, ddof=1)
    within, between = without_rounding(within.mean(axis=1)), without_rounding(between)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(1 + between / within)
