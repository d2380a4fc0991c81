r"""The two temperatures of a sampler, on arrays: estimates, and what they should be.

A sampler of exp(-U(θ)/T) with momenta p and mass M has, for every parameter array of d elements,

* a kinetic temperature T_K = pᵀM⁻¹p/d, whose expectation depends on the integrator (below);
* a configurational temperature T_C = ⟨θ - c, ∇U⟩/d with E T_C = T for every fixed point c, by
  integration by parts. It needs the positions alone, and the gradient of the same U: the prior
  and the Jacobians of constrained sites included.

Under symplectic Euler, p' = βp - h∇U + √(2T(1-β))ξ and θ' = θ + hp', on a Gaussian of curvature λ,

    E T_K = 2T/(1+β) · 1/(1 - h²λ/(2(1+β))),    E T_C = T/(1 - h²λ/(2(1+β))).

The first factor, 1.053 at β = 0.9, is not a fault, and a χ² region around T ignores it. And

    E T_C = (1+β)/2 · E T_K

holds for any potential, step and gradient noise: stationarity of E|θ|² gives E⟨θ, p⟩ = ∓h/2 E|p|²
before and after a step, and the update of p the rest. So the two temperatures agree whatever the
curvature, when the force of the sampler is the gradient that T_C is given; where they differ, the
force is wrong; where both are off, the noise is, or the step is too long.

References:
    Wenzel et al. (2020), arXiv:2002.02405, appendices D and I.
    Leimkuhler and Matthews (2015), Molecular Dynamics, chapters 6 and 7.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincinv, stdtrit

from bayesnn_ppl.diagnostics.convergence.autocorrelation import effective_sample_size
from bayesnn_ppl.diagnostics.convergence.measures import convergence_summary

__all__ = [
    "Measured",
    "block_bootstrap_error",
    "configurational_series",
    "expected_kinetic",
    "measure",
    "naive_region",
    "zero_step_limit",
]

type Array = NDArray[np.float64]

# E T_K/T at curvature λ > 0, with κ = h²λ, and where κ has its limit of stability.
_KINETIC = {
    "symplectic Euler": lambda beta, kappa: 2 / (1 + beta) / (1 - kappa / (2 * (1 + beta))),
    "BBK": lambda beta, kappa: 1 / (1 - kappa / 4),
    "BAOAB": lambda beta, kappa: 1 - kappa / 4,
    "OBABO": lambda beta, kappa: np.ones_like(kappa),
    "thermostat": lambda beta, kappa: np.ones_like(kappa),
}


class Measured(NamedTuple):
    """The mean of k series, each field (k,), or (k, parts) for the three over time.

    `error` is the standard error of `value`, `lower` and `upper` a simultaneous interval of all k;
    `ess` the effective sample size, `rhat` that of the chains' temperatures. `part_*` are the same
    for consecutive parts of the run.
    """

    value: Array
    error: Array
    lower: Array
    upper: Array
    ess: Array
    rhat: Array
    part_value: Array
    part_lower: Array
    part_upper: Array


def expected_kinetic(
    scheme: str, temperature: Any = 1.0, *, momentum_decay: Any = 0.0, scaled_curvature: Any = 0.0
) -> Any:
    """E T_K of an integrator on a Gaussian; the limit of a small step for curvature 0.

    Args:
        scheme: "symplectic Euler", "BBK", "BAOAB", "OBABO", or "thermostat", which holds T.
        temperature: T.
        momentum_decay: β of symplectic Euler; the others do not depend on it.
        scaled_curvature: h²λ of one mode; take the mean over an array of modes.

    Raises:
        ValueError: it has no kinetic temperature, or h²λ lies beyond the stability limit.
    """
    if scheme not in _KINETIC:
        raise ValueError(
            f"No kinetic temperature is known for {scheme!r}: there are {', '.join(_KINETIC)}. "
            "Samplers without momenta, such as SGLD, have no kinetic temperature; measure the "
            "configurational one."
        )
    beta, kappa = np.asarray(momentum_decay, float), np.asarray(scaled_curvature, float)
    limit = 2 * (1 + beta) if scheme == "symplectic Euler" else np.asarray(4.0)
    if np.any((beta < 0) | (beta >= 1)) or np.any((kappa < 0) | (kappa >= limit)):
        raise ValueError(
            f"{scheme} needs a momentum decay in [0, 1) and a scaled curvature h²λ in "
            f"[0, {np.min(limit):g}), beyond which the step is unstable; lower the step size."
        )
    return temperature * _KINETIC[scheme](beta, kappa)


def naive_region(temperature: float, size: ArrayLike, *, level: float = 0.99) -> tuple[Any, Any]:
    """The naive region of one kinetic temperature: T·χ²_d quantiles / d.

    Naive, because it takes momenta for exact draws of N(0, TM): with symplectic Euler a right
    sampler leaves it, by the factor 2/(1+β), as soon as d is a few hundred. It is offered because
    published figures are drawn with it (Wenzel et al. 2020); no verdict here uses it.

    Args:
        temperature: T.
        size: d, the number of elements of the array.
        level: the probability inside.
    """
    d = np.asarray(size, dtype=float)
    low, high = (2 * gammaincinv(d / 2, q) / d for q in ((1 - level) / 2, (1 + level) / 2))
    return temperature * low, temperature * high


def configurational_series(
    positions: ArrayLike, gradients: ArrayLike, *, centre: str | ArrayLike = "others"
) -> Array:
    """⟨θ - c, ∇U(θ)⟩/d of each draw of one parameter array, shape (chain, draw).

    The expectation is T for every point c that does not depend on the draws it is used with; c
    decides the variance, which is smallest near the mean. The mean of the same draws is not
    independent of them: it reads low by about T/ESS, the effective size being that of the
    positions, which for slow weights is a handful. The mean of the *other* chains costs no bias.

    Args:
        positions: θ in unconstrained coordinates, shape (chain, draw, ...).
        gradients: ∇U there, the same shape.
        centre: "others", the mean of the other chains, and 0 for a single one; "zero"; "mean",
            that of all draws, with the bias above; or an array that broadcasts to (chain, ...).

    Raises:
        ValueError: the shapes differ, or the centre is unknown.
    """
    theta, force = np.asarray(positions), np.asarray(gradients)
    if theta.ndim < 2 or theta.shape != force.shape:
        raise ValueError(
            f"`positions` have shape {theta.shape} and `gradients` {force.shape}; both must be "
            "(chain, draw, ...), one gradient for each position."
        )
    chains, draws = theta.shape[:2]
    theta = theta.reshape(chains, draws, -1).astype(float)
    force = force.reshape(theta.shape).astype(float)
    own = theta.mean(axis=1)
    if not isinstance(centre, str):
        c = np.broadcast_to(np.asarray(centre, float), (chains, *np.shape(positions)[2:]))
        c = c.reshape(own.shape)
    elif centre == "zero" or (centre == "others" and chains == 1):
        c = np.zeros_like(own)
    elif centre == "others":
        c = (own.sum(axis=0) - own) / (chains - 1)
    elif centre == "mean":
        c = np.broadcast_to(own.mean(axis=0), own.shape)
    else:
        raise ValueError(f'`centre` is "others", "zero", "mean" or an array, not {centre!r}.')
    return np.einsum("cdi,cdi->cd", theta - c[:, None], force) / theta.shape[2]


def measure(
    series: ArrayLike,
    *,
    level: float = 0.99,
    comparisons: int | None = None,
    parts: int = 8,
    bootstrap: bool = False,
    seed: int = 0,
) -> Measured:
    """Means of k correlated series over all draws, with intervals that hold for all together.

    The standard error is sd/√ESS, or that of a block bootstrap; the interval is Student's with
    ESS - 1 degrees of freedom (few effective draws do not know their own variance) at
    1 - (1 - level)/comparisons, Bonferroni's.

    Args:
        series: shape (chain, draw, k), at least 4 draws.
        level: probability that all intervals hold.
        comparisons: how many intervals hold together; k where it is left out.
        parts: consecutive parts of the run that are measured too; their errors are the error of
            the whole times √parts, or what their own spread over chains says if that is larger.
        bootstrap: standard errors by `block_bootstrap_error`.
        seed: of the bootstrap.

    Raises:
        ValueError: fewer than three axes or than 4 draws, or a level outside (0, 1).
    """
    values = np.asarray(series, dtype=float)
    if values.ndim != 3 or values.shape[1] < 4:
        raise ValueError(
            f"The series have shape {values.shape}, but must be (chain, draw, k) with at least "
            "4 draws: a temperature is an average over a run."
        )
    if not 0 < level < 1:
        raise ValueError(f"`level` is a probability in (0, 1), not {level:g}.")
    _, draws, count = values.shape
    found = convergence_summary(values)
    ess = effective_sample_size(values)
    error = found.mcse_mean
    if bootstrap:
        # The block is as long as the slowest of all series asks for, within reason.
        error = np.array(
            [
                block_bootstrap_error(values[:, :, i], ess=float(ess[i]), seed=seed)
                for i in range(count)
            ]
        )
    quantile = 1 - (1 - level) / (2 * (comparisons or count))
    reach = stdtrit(np.maximum(np.nan_to_num(ess, nan=2.0) - 1, 1.0), quantile) * error
    number = max(1, min(parts, draws // 2))
    cuts = np.linspace(0, draws, number + 1).astype(int)[:-1]
    lengths = np.diff([*cuts, draws])[None, :, None]
    with np.errstate(invalid="ignore", over="ignore"):  # a chain that diverged
        each = np.add.reduceat(values, cuts, axis=1) / lengths  # (chain, part, k)
    part = each.mean(axis=0).T
    part_reach = reach[:, None] * np.sqrt(draws / lengths[0].T)
    return Measured(
        value=found.mean,
        error=error,
        lower=found.mean - reach,
        upper=found.mean + reach,
        ess=ess,
        rhat=found.rhat,
        part_value=part,
        part_lower=part - part_reach,
        part_upper=part + part_reach,
    )


def block_bootstrap_error(
    series: ArrayLike, *, ess: float, resamples: int = 500, seed: int = 0
) -> float:
    """Standard error of the mean of (chain, draw), by resampling blocks of consecutive draws.

    Blocks are twice the autocorrelation time long, at most a quarter of a chain, and are drawn
    with replacement from all places of all chains, so that chains which differ widen the error.

    Args:
        series: shape (chain, draw).
        ess: the effective sample size of the mean, which sets the length of the blocks.
        resamples: bootstrap means.
        seed: of the resampling.

    References:
        Künsch (1989), The jackknife and the bootstrap for general stationary observations.
    """
    values = np.asarray(series, dtype=float)
    chains, draws = values.shape
    if not np.isfinite(values).all():
        return float("nan")
    length = int(np.clip(np.ceil(2 * values.size / max(ess, 1.0)), 1, max(1, draws // 4)))
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    blocks = ((sums[:, length:] - sums[:, :-length]) / length).ravel()
    number = max(2, values.size // length)
    chosen = np.random.default_rng(seed).integers(len(blocks), size=(resamples, number))
    means = blocks[chosen].mean(axis=1)
    # The blocks' own mean is known, so their variance lacks a factor (n - 1)/n, as any sample's.
    return float(means.std(ddof=1) * np.sqrt(number / (number - 1)))


def zero_step_limit(
    step_sizes: ArrayLike, temperatures: ArrayLike, errors: ArrayLike
) -> tuple[Any, Any]:
    """Temperatures at a ladder of steps, extrapolated to a step of zero.

    Discretisation and minibatch noise both heat by O(ε) at a fixed momentum decay, ε = h²:
    a line T_0 + aε is fitted by weighted least squares. T_0 checks noise and temperature with
    no knowledge of the curvature; use steps where the excess is below a third or so.

    Args:
        step_sizes: ε, shape (n,), at least two different ones.
        temperatures, errors: shape (n, ...), the errors positive.

    Returns:
        T_0 and its standard error, each of the trailing shape.

    Raises:
        ValueError: fewer than two different steps, or the lengths differ.
    """
    steps = np.asarray(step_sizes, dtype=float)
    values, sd = np.asarray(temperatures, dtype=float), np.asarray(errors, dtype=float)
    if steps.ndim != 1 or len(np.unique(steps)) < 2 or values.shape[:1] != steps.shape:
        raise ValueError(
            f"An extrapolation needs at least two different step sizes, and a temperature for "
            f"each; given are {steps.size} steps and temperatures of shape {values.shape}."
        )
    weight = 1 / sd**2
    grid = steps.reshape(-1, *(1,) * (values.ndim - 1))
    s0, s1, s2 = (np.sum(weight * grid**k, axis=0) for k in (0, 1, 2))
    t0, t1 = (np.sum(weight * values * grid**k, axis=0) for k in (0, 1))
    determinant = s0 * s2 - s1**2
    return (s2 * t0 - s1 * t1) / determinant, np.sqrt(s2 / determinant)
