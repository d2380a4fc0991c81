"""Chains whose truth is known, in NumPy: many runs at once.

A source is a function `(generator, shape) -> Runs` with `shape = (runs, chains, draws)`. It knows
the mean and standard deviation of every output exactly, where each chain started, and whether the
chains of a run together have been in every mode.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Fewer draws than this in a mode are a glimpse, which nothing tells from the end of a tail.
GLIMPSE = 10

type Array = NDArray[np.float64]
type Shape = tuple[int, int, int]
type Noise = Callable[[np.random.Generator, tuple[int, ...]], Array]


class Runs(NamedTuple):
    """Many runs of one situation.

    Attributes:
        values: (run, chain, draw, output).
        starts: (run, chain, output).
        mean, sd: true mean and standard deviation, (output,).
        complete: whether a run's chains together have been in every mode, for `GLIMPSE` draws at
            least, (run,).
    """

    values: Array
    starts: Array
    mean: Array
    sd: Array
    complete: NDArray[np.bool_]


type Source = Callable[[np.random.Generator, Shape], Runs]


def _runs(values: Array, starts: Array, mean: float, sd: float) -> Runs:
    outputs = values.shape[-1]
    return Runs(
        values,
        starts,
        np.full(outputs, mean),
        np.full(outputs, sd),
        np.ones(len(values), bool),
    )


def student(freedom: float) -> tuple[Noise, float, float]:
    """Student t with its mean and standard deviation."""

    def draw(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return generator.standard_t(freedom, shape)

    return draw, 0.0, float(np.sqrt(freedom / (freedom - 2)))


def lognormal(scale: float) -> tuple[Noise, float, float]:
    """exp(scale z), z standard normal."""

    def draw(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.exp(scale * generator.standard_normal(shape))

    square = scale**2
    return draw, float(np.exp(square / 2)), float(np.sqrt((np.exp(square) - 1) * np.exp(square)))


NORMAL = (lambda generator, shape: generator.standard_normal(shape), 0.0, 1.0)
UNIFORM = (lambda generator, shape: generator.random(shape), 0.5, 12**-0.5)
EXPONENTIAL = (lambda generator, shape: generator.standard_exponential(shape), 1.0, 1.0)


def independent(distribution: tuple[Noise, float, float], outputs: int = 1) -> Source:
    """Draws and starts that are independent draws of the posterior."""
    noise, mean, sd = distribution

    def make(generator: np.random.Generator, shape: Shape) -> Runs:
        runs, chains, draws = shape
        values = noise(generator, (runs, chains, draws, outputs))
        return _runs(values, noise(generator, (runs, chains, outputs)), mean, sd)

    return make


def autoregressive(
    correlation: float, *, start: float = 1.0, shift: float = 0.0, outputs: int = 1
) -> Source:
    """x' = ρ x + sqrt(1 - ρ²) ξ, of standard normal distribution.

    Args:
        correlation: ρ.
        start: standard deviation of the starts; above or below 1 the first draws are wrong.
        shift: mean of the starts.
        outputs: independent ones.
    """

    def make(generator: np.random.Generator, shape: Shape) -> Runs:
        from scipy.signal import lfilter

        runs, chains, draws = shape
        starts = shift + start * generator.standard_normal((runs, chains, outputs))
        noise = generator.standard_normal((runs, chains, draws, outputs))
        noise *= np.sqrt(1 - correlation**2)
        noise[:, :, 0] += correlation * starts
        return _runs(lfilter([1], [1, -correlation], noise, axis=2), starts, 0.0, 1.0)

    return make


def some_slow(correlation: float, *, slow: int, outputs: int) -> Source:
    """Independent outputs with a few autoregressive ones among them."""

    def make(generator: np.random.Generator, shape: Shape) -> Runs:
        fast = independent(NORMAL, outputs - slow)(generator, shape)
        among = autoregressive(correlation, outputs=slow)(generator, shape)
        parts = [np.concatenate(pair, -1) for pair in zip(fast[:2], among[:2], strict=True)]
        return _runs(parts[0], parts[1], 0.0, 1.0)

    return make


def reflected_walk(step: float, *, centred: bool = False) -> Source:
    """A random walk in [0, 1] that is reflected at the ends: uniform, and no resonance to help.

    Args:
        step: standard deviation of a step.
        centred: start within 0.05 of the middle.
    """

    def make(generator: np.random.Generator, shape: Shape) -> Runs:
        runs, chains, draws = shape
        starts = generator.random((runs, chains, 1))
        starts = 0.5 + 0.1 * (starts - 0.5) if centred else starts
        moves = step * generator.standard_normal((runs, chains, draws, 1))
        free = starts[:, :, None] + np.cumsum(moves, axis=2)
        # Reflection of a symmetric walk is the free walk folded.
        return _runs(1 - np.abs(1 - free % 2), starts, 0.5, 12**-0.5)

    return make


def modes(
    places: Sequence[float],
    weights: Sequence[float],
    *,
    dwell: float,
    starts: str | int | float = "weights",
    outputs: int = 1,
) -> Source:
    """A mixture of unit normal modes between which chains switch; independent within a mode.

    Args:
        places: the modes' means.
        weights: their probabilities, which sum to one.
        dwell: mean number of draws between choices of a mode by its weight; inf: never.
        starts: "weights": in modes by their weights; "modes": in each mode equally often; an
            integer: all in this mode; a float: all chains at this very place, in the mode next
            to it.
        outputs: each a multiple of the position, the first 1, plus independent normal noise.
    """
    centres, shares = np.asarray(places, float), np.asarray(weights, float)
    mean = float(centres @ shares)
    variance = 1 + float((centres - mean) ** 2 @ shares)
    loading = np.linspace(1, -1, outputs) if outputs > 1 else np.ones(1)
    extra = np.sqrt(1 - loading**2)

    def make(generator: np.random.Generator, shape: Shape) -> Runs:
        runs, chains, draws = shape
        count = len(centres)
        if isinstance(starts, str):
            first = shares if starts == "weights" else np.full(count, 1 / count)
            mode = generator.choice(count, (runs, chains), p=first)
        elif isinstance(starts, int):
            mode = np.full((runs, chains), starts)
        else:
            mode = np.full((runs, chains), np.abs(centres - starts).argmin())
        choose = generator.random((runs, chains, draws)) < 1 / dwell
        chosen = generator.choice(count, choose.shape, p=shares)
        # The last choice before a draw holds; before the first it is the start's mode.
        index = np.maximum.accumulate(np.where(choose, np.arange(draws), -1), axis=2)
        held = np.take_along_axis(chosen, np.maximum(index, 0), axis=2)
        held = np.where(index < 0, mode[:, :, None], held)
        position = centres[held] + generator.standard_normal(held.shape)
        at = centres[mode] + generator.standard_normal(mode.shape)
        if isinstance(starts, float):
            at = np.full(mode.shape, starts)
        values = position[..., None] * loading
        begun = at[..., None] * loading
        if outputs > 1:
            values += extra * generator.standard_normal(values.shape)
            begun += extra * generator.standard_normal(begun.shape)
        seen = [(held == k).sum(axis=(1, 2)) >= GLIMPSE for k in range(count)]
        complete = np.all(seen, axis=0)
        sd = np.sqrt(loading**2 * variance + extra**2)
        return Runs(values, begun, mean * loading, sd, complete)

    return make


def pausing(length: int) -> Source:
    """Normal draws, of which those beyond two standard deviations are held for `length` draws.

    Far values are proposed that much more rarely, so the distribution stays normal, as under a
    sampler that is rejected for long in the tails.
    """
    limit = 2.0

    def make(generator: np.random.Generator, shape: Shape) -> Runs:
        from scipy.stats import norm, truncnorm

        share = 2 * norm.sf(limit)
        rate = share / (length * (1 - share) + share)
        far = generator.random(shape) < rate
        lengths = np.where(far, length, 1)
        near = truncnorm.rvs(-limit, limit, size=shape, random_state=generator)
        sign = np.where(generator.random(shape) < 0.5, -1.0, 1.0)
        proposed = np.where(far, sign * norm.isf(norm.sf(limit) * generator.random(shape)), near)
        values = np.empty(shape)
        for chain in np.ndindex(shape[:2]):
            values[chain] = np.repeat(proposed[chain], lengths[chain])[: shape[2]]
        starts = generator.standard_normal((*shape[:2], 1))
        return _runs(values[..., None], starts, 0.0, 1.0)

    return make
