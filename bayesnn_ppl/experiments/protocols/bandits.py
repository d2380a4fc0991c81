"""Contextual bandits: choose an action for each context, and see the reward of that one alone.

References:
    Riquelme, Tucker and Snoek (2018), Deep Bayesian bandits showdown, arXiv:1802.09127.
    Thompson (1933), On the likelihood that one unknown probability exceeds another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.experiments.protocols.acquiring import seed_of

__all__ = ["POLICIES", "PROBLEMS", "Problem", "features", "labels_problem", "play", "wheel_problem"]

PROBLEMS = ("labels", "wheel")
POLICIES = ("thompson", "greedy", "uniform")

type Floats = NDArray[np.float64]
# (inputs, rewards, seed) -> a function from inputs (n, d) to the mean reward by draw, (S, n).
type Train = Callable[[NDArray[np.float32], NDArray[np.float32], int], Callable[..., Floats]]


@dataclass(frozen=True)
class Problem:
    """A bandit, written out beforehand so that all policies meet the same contexts and noise.

    Attributes:
        contexts: shape (n, d).
        means: expected reward of each action, shape (n, K).
        rewards: what it would pay, shape (n, K).
    """

    contexts: Floats
    means: Floats
    rewards: Floats

    def regret(self, actions: ArrayLike) -> Floats:
        """Expected reward of the best action minus that of the one taken, shape (len(actions),)."""
        own = np.asarray(actions, dtype=np.intp)
        return self.means[: len(own)].max(axis=1) - self.means[np.arange(len(own)), own]


def labels_problem(x: np.ndarray, y: np.ndarray, classes: int, length: int, seed: int) -> Problem:
    """Name the label of each row: reward 1 where it is right and else 0.

    Args:
        x, y: inputs (N, ...), which are flattened, and labels (N,).
        classes: K actions.
        length: rows that are met, without replacement.
        seed: of their order.

    Raises:
        ValueError: there are fewer rows.
    """
    if length > len(x):
        raise ValueError(f"The bandit has {length} contexts, but the data only {len(x)} rows.")
    order = np.random.default_rng(seed).permutation(len(x))[:length]
    means = np.eye(classes)[np.asarray(y)[order]]
    return Problem(np.asarray(x, dtype=float)[order].reshape(length, -1), means, means)


def wheel_problem(delta: float, length: int, seed: int) -> Problem:
    """The wheel: contexts uniform on the unit disc, five actions.

    The first pays 1.2 on average everywhere, the others 1, but in the outer ring, |x| > delta, one
    of them pays 50, another in each quadrant. Noise of standard deviation 0.01. The wider delta,
    the rarer a context in which to find that out.

    Args:
        delta: in (0, 1).
        length: contexts.
        seed: of contexts and noise.
    """
    generator = np.random.default_rng(seed)
    radius, angle = np.sqrt(generator.random(length)), 2 * np.pi * generator.random(length)
    contexts = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    means = np.tile([1.2, 1.0, 1.0, 1.0, 1.0], (length, 1))
    outside = np.flatnonzero(radius > delta)
    means[outside, 1 + (2 * angle[outside] / np.pi).astype(int) % 4] = 50.0
    return Problem(contexts, means, means + 0.01 * generator.standard_normal(means.shape))


def features(contexts: Floats, actions: np.ndarray, count: int) -> NDArray[np.float32]:
    """The context and a 1 in the block of the action, zeros in the others: (n, K (d + 1)).

    So each action has first-layer weights of its own, and shares what is above them (Li et al.
    2010, arXiv:1003.0146, call it disjoint).

    Args:
        contexts: (n, d).
        actions: (n,), in 0..K-1.
        count: K.
    """
    n, d = contexts.shape
    blocks = np.zeros((n, count, d + 1), dtype=np.float32)
    blocks[np.arange(n), actions, :d] = contexts
    blocks[np.arange(n), actions, d] = 1
    return blocks.reshape(n, -1)


def play(
    problem: Problem,
    policy: str,
    train: Train | None,
    *,
    refits: Sequence[int],
    seed: int = 0,
    before: Sequence[int] = (),
    after: Callable[[Sequence[int]], None] | None = None,
) -> NDArray[np.intp]:
    r"""The actions that a policy takes.

    Up to the first refit actions take turns. At each refit the mean reward f(context, action) is
    learned from the rewards seen so far, from scratch; up to the next,

    - "thompson": a draw θ_t of the posterior for each context, and the action
      argmax_a f(x_t, a; θ_t);
    - "greedy": argmax_a of the mean of f over the draws;
    - "uniform": any action, and nothing is learned.

    Rewards are given to `train` standardised by those seen.

    Args:
        problem: of `labels_problem` or `wheel_problem`.
        policy: one of `POLICIES`.
        train: learns from (inputs of `features`, rewards, seed), and returns what gives the mean
            reward of each draw, (S, n), at inputs; None for "uniform".
        refits: rising numbers of contexts after which to train.
        seed: of the draws and of the trainings.
        before: actions taken already, up to a refit; the others follow as if in one go.
        after: told all actions so far, before each refit but the first and at the end.

    Returns:
        Actions, shape (n,).

    Raises:
        ValueError: an unknown policy, or no `train` for one that learns.
    """
    if policy not in POLICIES:
        raise ValueError(f"`policy` is {policy!r}, but must be one of {', '.join(POLICIES)}.")
    if train is None and policy != "uniform":
        raise ValueError(f"The policy {policy!r} learns, so `train` must be given.")
    length, count = problem.means.shape
    actions = [*before] if before else [t % count for t in range(refits[0])]
    for number, start in enumerate(refits):
        end = length if number + 1 == len(refits) else refits[number + 1]
        if end <= len(actions):
            continue
        generator = np.random.default_rng([seed, number])
        here = problem.contexts[start:end]
        if policy == "uniform" or train is None:
            chosen = generator.integers(count, size=len(here))
        else:
            mean = train(*_seen(problem, actions, count), seed_of(seed, 2, number))
            chosen = _chosen(mean, here, count, policy, generator)
        actions += chosen.tolist()
        if after is not None:
            after(actions)
    return np.asarray(actions, dtype=np.intp)


def _seen(
    problem: Problem, actions: list[int], count: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Inputs, and the rewards of the actions taken with mean 0 and standard deviation 1."""
    n = len(actions)
    rewards = problem.rewards[np.arange(n), actions]
    spread = rewards.std()
    scaled = (rewards - rewards.mean()) / (spread if spread > 0 else 1.0)
    return features(problem.contexts[:n], np.asarray(actions), count), scaled.astype(np.float32)


def _chosen(
    mean: Callable[..., Floats],
    contexts: Floats,
    count: int,
    policy: str,
    generator: np.random.Generator,
) -> NDArray[np.intp]:
    n = len(contexts)
    inputs = features(np.repeat(contexts, count, axis=0), np.tile(np.arange(count), n), count)
    values = np.asarray(mean(inputs)).reshape(-1, n, count)  # draws, contexts, actions
    if policy == "greedy":
        return values.mean(axis=0).argmax(axis=1)
    return values[generator.integers(len(values), size=n), np.arange(n)].argmax(axis=1)
