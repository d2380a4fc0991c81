"""Chains of random-walk Metropolis on densities whose moments are known, in NumPy."""

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.verdicts.verdict_chains import Array, Runs, Shape, Source, student


def metropolis(
    log_density: Callable[[Array], Array],
    start: Callable[[np.random.Generator, tuple[int, ...]], Array],
    *,
    step: float,
    thinning: int,
    shown: Callable[[Array], Array],
    truth: tuple[Sequence[float], Sequence[float]],
) -> Source:
    """Random-walk Metropolis, all chains of all runs in step.

    Args:
        log_density: of positions (..., dimension).
        start: positions of a shape (..., dimension) are drawn by it.
        step: standard deviation of a proposal.
        thinning: steps per draw.
        shown: the outputs of positions.
        truth: their means and standard deviations.
    """

    def make(generator: np.random.Generator, shape: Shape) -> Runs:
        runs, chains, draws = shape
        position = start(generator, (runs, chains))
        begun, density = shown(position), log_density(position)
        kept = np.empty((runs, chains, draws, begun.shape[-1]))
        for draw in range(draws):
            for _ in range(thinning):
                proposed = position + step * generator.standard_normal(position.shape)
                there = log_density(proposed)
                accept = np.log(generator.random(there.shape)) < there - density
                position = np.where(accept[..., None], proposed, position)
                density = np.where(accept, there, density)
            kept[:, :, draw] = shown(position)
        mean, sd = (np.asarray(part, float) for part in truth)
        return Runs(kept, begun, mean, sd, np.ones(runs, bool))

    return make


FUNNEL_SCALE = 3.0


def _funnel(position: Array) -> Array:
    v, x = position[..., 0], position[..., 1]
    return -0.5 * (v / FUNNEL_SCALE) ** 2 - 0.5 * x**2 * np.exp(-v) - 0.5 * v


def _funnel_start(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    v = FUNNEL_SCALE * generator.standard_normal(shape)
    return np.stack([v, np.exp(v / 2) * generator.standard_normal(shape)], axis=-1)


def funnel(step: float, thinning: int) -> Source:
    """Metropolis on v ~ N(0, 3²), x ~ N(0, e^v), starts from the distribution; the output is v."""
    return metropolis(
        _funnel,
        _funnel_start,
        step=step,
        thinning=thinning,
        shown=lambda position: position[..., :1],
        truth=([0.0], [FUNNEL_SCALE]),
    )


def student_walk(freedom: float, step: float, thinning: int) -> Source:
    """Metropolis on Student's t."""
    _, mean, sd = student(freedom)

    def log_density(position: Array) -> Array:
        return -(freedom + 1) / 2 * np.log1p(position[..., 0] ** 2 / freedom)

    return metropolis(
        log_density,
        lambda generator, shape: generator.standard_t(freedom, (*shape, 1)),
        step=step,
        thinning=thinning,
        shown=lambda position: position,
        truth=([mean], [sd]),
    )
