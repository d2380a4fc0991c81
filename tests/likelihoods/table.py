"""Every likelihood with its density, moments and distribution written out in NumPy and SciPy.

Outputs f have shape (S, N, outputs); parameters (S, 1) or, where they are vectors, (S, 1, size).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpyro.distributions as dist
from scipy import special, stats

import bayesnn_ppl as bnn

LEVELS = np.array([0.1, 0.4, 0.9])
CLASS_WEIGHTS = (1.0, 2.0, 0.5)
SMOOTHING = 0.1


@dataclass(frozen=True)
class Case:
    """A likelihood, its latent sites (name -> shape), and what is known of it.

    `density` is (f, y, p) -> log p of each row; `moments` (f, p) -> mean and variance, or for
    labels `probabilities` (f, p); `cdf` (f, p, v) of each element; `targets` (generator, rows).
    """

    name: str
    likelihood: Any
    outputs: int
    density: Callable
    targets: Callable
    sites: dict = field(default_factory=dict)
    moments: Callable | None = None
    probabilities: Callable | None = None
    cdf: Callable | None = None
    standardised: bool = True


def normal_targets(*shape):
    return lambda generator, rows: generator.normal(size=(rows, *shape)).astype(np.float32)


def counts(generator, rows):
    return generator.poisson(2.0, size=rows).astype(np.int32)


def labels(classes):
    return lambda generator, rows: np.arange(rows, dtype=np.int32) % classes


def log_density(distribution, y):
    return (distribution.logpmf if hasattr(distribution, "pmf") else distribution.logpdf)(y)


def of(distribution):
    """Density, moments and distribution function by SciPy, of `distribution(f, p)`."""
    return {
        "density": lambda f, y, p: log_density(distribution(f, p), y),
        "moments": lambda f, p: distribution(f, p).stats("mv"),
        "cdf": lambda f, p, v: distribution(f, p).cdf(v),
    }


def negative_binomial(f, p):
    a, mean = p["noise_concentration"], np.exp(f[..., 0])
    return stats.nbinom(a, a / (a + mean))


def per_output_density(f, y, p):
    return stats.norm(f, p["noise_scale"]).logpdf(y).sum(-1)


def mixture(f):
    """Weights, means and scales (..., D, 3), and the D targets a row has."""
    logits, means, raw = np.moveaxis(f.reshape(*f.shape[:-1], 3, -1, 3), -3, 0)
    return special.softmax(logits, -1), means, 0.05 + np.logaddexp(0, raw)


def mixture_density(f, y, p):
    weights, means, scales = mixture(f)
    y = np.reshape(y, (*np.shape(y)[:1], -1, 1))
    return special.logsumexp(np.log(weights) + stats.norm(means, scales).logpdf(y), -1).sum(-1)


def mixture_moments(f, p):
    weights, means, scales = mixture(f)
    mean = (weights * means).sum(-1)
    variance = (weights * (scales**2 + means**2)).sum(-1) - mean**2
    return (mean[..., 0], variance[..., 0]) if mean.shape[-1] == 1 else (mean, variance)


def mixture_cdf(f, p, v):
    weights, means, scales = mixture(f)
    v = np.reshape(v, (*np.shape(v)[:1], -1, 1))
    below = (weights * stats.norm(means, scales).cdf(v)).sum(-1)
    return below[..., 0] if below.shape[-1] == 1 else below


def ordinal_probabilities(f, p):
    c = p["cutpoints"]
    upto = special.expit(c - f)
    one = np.ones_like(upto[..., :1])
    return np.diff(np.concatenate([0 * one, upto, one], -1))


def softmax(f, p):
    return special.softmax(f, -1)


def chosen(probabilities):
    def density(f, y, p):
        every = np.log(probabilities(f, p))
        return np.take_along_axis(every, np.broadcast_to(y, every.shape[:-1])[..., None], -1)[
            ..., 0
        ]

    return density


def quantile_pieces(f, p):
    scale = np.broadcast_to(p["noise_scale"], f.shape)
    return np.sort(f, -1), scale[..., 0] / (1 - LEVELS[0]), scale[..., -1] / LEVELS[-1]


def quantile_cdf(f, p, v):
    f, below, above = quantile_pieces(f, p)
    v = np.broadcast_to(v, f.shape[:-1])
    inner = [
        np.interp(one, knots, LEVELS)
        for one, knots in zip(v.ravel(), f.reshape(-1, len(LEVELS)), strict=True)
    ]
    low = LEVELS[0] * np.exp(np.minimum(v - f[..., 0], 0) / below)
    high = 1 - (1 - LEVELS[-1]) * np.exp(-np.maximum(v - f[..., -1], 0) / above)
    inner = np.reshape(inner, v.shape)
    return np.where(v < f[..., 0], low, np.where(v > f[..., -1], high, inner))


def quantile_density(f, y, p):
    """The slope of the distribution function, between points that no knot lies between."""
    y, step = np.asarray(y, dtype=float), 1e-6
    return np.log((quantile_cdf(f, p, y + step) - quantile_cdf(f, p, y - step)) / (2 * step))


def quantile_moments(f, p):
    """By the quantile function: E y = ∫ F⁻¹, on its four pieces in closed form."""
    f, below, above = quantile_pieces(f, p)
    weights = np.diff(np.concatenate([[0], LEVELS, [1]]))
    ends = f[..., 0] - below, f[..., -1] + above
    means = np.stack([ends[0], *np.moveaxis((f[..., 1:] + f[..., :-1]) / 2, -1, 0), ends[1]], -1)
    squares = [below**2 + ends[0] ** 2]
    for a, b in zip(np.moveaxis(f, -1, 0), np.moveaxis(f[..., 1:], -1, 0), strict=False):
        squares.append((a**2 + a * b + b**2) / 3)
    squares.append(above**2 + ends[1] ** 2)
    mean = (weights * means).sum(-1)
    return mean, (weights * np.stack(squares, -1)).sum(-1) - mean**2


SCALE = {"noise_scale": ()}
LIKELIHOODS = bnn.likelihoods

CASES = [
    Case(
        "gaussian per output",
        LIKELIHOODS.gaussian(outputs=3, per_output=True),
        3,
        per_output_density,
        normal_targets(3),
        {"noise_scale": (3,)},
        lambda f, p: (f, np.broadcast_to(p["noise_scale"] ** 2, f.shape)),
        cdf=lambda f, p, v: stats.norm(f, p["noise_scale"]).cdf(v),
    ),
    Case(
        "student_t",
        LIKELIHOODS.student_t(dist.Gamma(2.0, 0.1)),
        1,
        targets=normal_targets(),
        sites=SCALE | {"noise_df": ()},
        **of(lambda f, p: stats.t(p["noise_df"], f[..., 0], p["noise_scale"])),
    ),
    Case(
        "laplace",
        LIKELIHOODS.laplace(),
        1,
        targets=normal_targets(),
        sites=SCALE,
        **of(lambda f, p: stats.laplace(f[..., 0], p["noise_scale"])),
    ),
    Case(
        "log_normal",
        LIKELIHOODS.log_normal(),
        1,
        targets=lambda generator, rows: generator.lognormal(size=rows).astype(np.float32),
        sites=SCALE,
        standardised=False,
        **of(lambda f, p: stats.lognorm(p["noise_scale"], scale=np.exp(f[..., 0]))),
    ),
    Case(
        "poisson",
        LIKELIHOODS.poisson(),
        1,
        targets=counts,
        standardised=False,
        **of(lambda f, p: stats.poisson(np.exp(f[..., 0]))),
    ),
    Case(
        "negative_binomial",
        LIKELIHOODS.negative_binomial(),
        1,
        targets=counts,
        sites={"noise_concentration": ()},
        standardised=False,
        **of(negative_binomial),
    ),
    Case(
        "ordinal",
        LIKELIHOODS.ordinal(4),
        1,
        chosen(ordinal_probabilities),
        labels(4),
        {"cutpoints": (3,)},
        probabilities=ordinal_probabilities,
        standardised=False,
    ),
    Case(
        "mixture_density",
        LIKELIHOODS.mixture_density(3, floor=0.05),
        9,
        mixture_density,
        normal_targets(),
        moments=mixture_moments,
        cdf=mixture_cdf,
    ),
    Case(
        "mixture_density of two targets",
        LIKELIHOODS.mixture_density(3, floor=0.05, targets=2),
        18,
        mixture_density,
        normal_targets(2),
        moments=mixture_moments,
        cdf=mixture_cdf,
    ),
    Case(
        "quantile",
        LIKELIHOODS.quantile(tuple(LEVELS)),
        3,
        quantile_density,
        normal_targets(),
        {"noise_scale": (3,)},
        quantile_moments,
        cdf=quantile_cdf,
    ),
    Case(
        "dirty",
        LIKELIHOODS.dirty(
            LIKELIHOODS.categorical(3), class_weights=CLASS_WEIGHTS, label_smoothing=SMOOTHING
        ),
        3,
        chosen(softmax),
        labels(3),
        probabilities=softmax,
        standardised=False,
    ),
]
