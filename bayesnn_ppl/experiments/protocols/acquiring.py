"""Active learning: label what a posterior knows least about, and train again."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bayesnn_ppl.metrics.active_learning import acquisition, highest

__all__ = ["acquire", "seed_of"]

type Train = Callable[[np.ndarray, np.ndarray, int], Any]
type Round = dict[str, Any]


def acquire(
    train: Train,
    score: Callable[[Any], Mapping[str, float | None]],
    x: np.ndarray,
    y: np.ndarray,
    *,
    rule: str,
    start: int,
    batch: int,
    rounds: int,
    candidates: int = 0,
    seed: int = 0,
    before: Sequence[Round] = (),
    after: Callable[[Sequence[Round]], None] | None = None,
) -> list[Round]:
    """Rounds of training on the labelled rows, and of labelling those that score highest.

    The first rows are drawn at random by the seed alone, so all rules start alike; of labels, as
    many of each as there can be. Beyond that start the labels of other rows are not looked at.
    Every round trains from scratch, as Gal et al. do, with a seed of its own: a warm start would
    favour what was labelled first.

    Args:
        train: (x, y, seed) -> a posterior, whose `predict` is asked at rows of the pool.
        score: a posterior -> its scores on test rows.
        x, y: the pool with its labels, leading axis N.
        rule: of `metrics.acquisition`.
        start: rows labelled at random.
        batch: rows labelled after each round but the last.
        rounds: how many.
        candidates: unlabelled rows that are scored each round, at random; 0 for all.
        seed: of the rows at random, and of the trainings.
        before: rounds that were made already; the others follow as if in one go.
        after: told all rounds so far after each.

    Returns:
        For each round `labelled`, the rows it was trained on in the order of their labelling, and
        `scores`.

    Raises:
        ValueError: the pool has too few rows; or as `metrics.acquisition`.

    References:
        Gal, Islam and Ghahramani (2017), Deep Bayesian active learning with image data,
        arXiv:1703.02910.
    """
    needed = start + (rounds - 1) * batch
    if needed > len(x):
        raise ValueError(
            f"{rounds} rounds from {start} rows, {batch} more each, label {needed} rows, and the "
            f"pool has {len(x)}. Take fewer rounds or smaller batches."
        )
    done = list(before)
    labelled = _first(y, start, np.random.default_rng([seed, 0]))
    for number in range(rounds if len(done) < rounds else 0):
        if number < len(done):
            labelled = np.asarray(done[number]["labelled"], dtype=np.intp)
        if number + 1 < len(done):
            continue
        posterior = train(x[labelled], y[labelled], seed_of(seed, number))
        if number == len(done):
            done.append({"labelled": labelled.tolist(), "scores": dict(score(posterior))})
            if after is not None:
                after(done)
        if number + 1 == rounds:
            break
        pool = np.setdiff1d(np.arange(len(x)), labelled)
        if 0 < candidates < len(pool):
            pool = np.random.default_rng([seed, 1, number]).permutation(pool)[:candidates]
        values = acquisition(posterior.predict(x[pool]), rule, seed=seed_of(seed, 1, number))
        labelled = np.concatenate([labelled, pool[highest(values, batch)]])
    return done


def _first(y: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Rows at random, balanced over the labels: without one of each nothing can be trained."""
    order = generator.permutation(len(y))
    if y.dtype.kind not in "iu" or y.ndim != 1:
        return order[:count]
    labels = np.asarray(y)[order]
    before = np.zeros(len(y), dtype=int)  # rows of the same label that come earlier
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        before[own] = np.arange(len(own))
    return order[np.argsort(before, kind="stable")[:count]]


def seed_of(*numbers: int) -> int:
    """One seed, below 2^31, from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0] >> 1)
