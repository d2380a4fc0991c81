r"""The Laplace approximation to the log evidence, and the hyperparameters that maximise it.

In coordinates t in units of the prior's standard deviations, with θ* at t = 0, the likelihood's
curvature M, factors λ of the prior's precisions and a factor κ of the likelihood's precision,

    log Z = ℓ(t̂, κ) - ½ [ log |κM + Λ| - log |Λ| + Σ λ (t̂ - m)² ]

that is the log likelihood minus half of the ratio of determinants and the scatter about the prior
mean m. ℓ is the model's log likelihood, weighted as the model weights it. t̂ is 0, the mode
that was found; or, where the model is linear in its weights with Gaussian noise, the exact mode
for every λ and κ, and then log Z is exact.

References:
    MacKay (1992), The evidence framework; Immer et al. (2021), arXiv:2104.04975.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

__all__ = ["Terms", "Tuned", "ascend", "log_evidence", "maximise", "mode_shift"]

_STEPS = 200
_FARTHEST = 20.0  # of a log factor from where the model has it


class Terms(NamedTuple):
    """What the evidence is made of, besides the curvature.

    Attributes:
        log_likelihood: at t = 0 and κ = 1, weighted.
        log_prior: log density of t = 0 under the model's own prior, in the coordinates t.
        squares: κ-dependent part of -2ℓ at t = 0, Σ w (y - μ)²/σ²; 0 where κ stays 1.
        count: Σ w over elements of y; 0 where κ stays 1.
        slope: Jᵀr (d,), the gradient of ℓ in t, where the mode moves with λ and κ.
        prior_mean: m, (d,).
    """

    log_likelihood: Any
    log_prior: Any
    squares: Any
    count: Any
    slope: Any
    prior_mean: Any


class Tuned(NamedTuple):
    """Hyperparameters at which the evidence is greatest.

    Attributes:
        log_factors: of the prior's precisions, one for each group.
        log_noise: log κ.
        converged: whether the gradient became small.
        at_bound: the groups whose factor went as far as it may.
    """

    log_factors: np.ndarray
    log_noise: float
    converged: bool
    at_bound: np.ndarray


@jax.jit
def mode_shift(curvature: Any, terms: Terms, factors: Any, noise: Any) -> Any:
    """t̂ of a linear Gaussian model: (κM + Λ)⁻¹ (κ Jᵀr + Λ m), shape (d,)."""
    return curvature.solve(factors, noise, noise * terms.slope + factors * terms.prior_mean)


@partial(jax.jit, static_argnames="recentre")
def log_evidence(
    curvature: Any, terms: Terms, factors: Any, noise: Any, *, recentre: bool = False
) -> Any:
    """log Z at factors (d,) of the prior's precisions and κ = `noise`.

    Args:
        curvature: one of the structures, in coordinates t.
        terms: see `Terms`.
        factors: λ, one for each parameter.
        noise: κ.
        recentre: whether t̂ is the exact mode of a linear Gaussian model, not 0.
    """
    d = factors.shape[0]
    value = terms.log_likelihood + 0.5 * terms.count * jnp.log(noise)
    value -= 0.5 * terms.squares * (noise - 1)
    # The model's own normaliser, and what the factors add to it.
    value += terms.log_prior + 0.5 * d * jnp.log(2 * jnp.pi)
    value -= 0.5 * jnp.sum((factors - 1) * terms.prior_mean**2)
    value += 0.5 * jnp.log(factors).sum()
    value -= 0.5 * curvature.log_determinant(factors, noise)
    if recentre:
        gradient = noise * terms.slope + factors * terms.prior_mean
        value += 0.5 * gradient @ mode_shift(curvature, terms, factors, noise)
    return value


def _objective(
    parameters: Any, curvature: Any, terms: Terms, groups: Any, tune_noise: bool, recentre: bool
) -> Any:
    log_factors, log_noise = _bounded(parameters)
    noise = jnp.exp(log_noise) if tune_noise else jnp.ones_like(log_noise)
    return -log_evidence(curvature, terms, jnp.exp(log_factors)[groups], noise, recentre=recentre)


def _bounded(parameters: Any) -> Any:
    return jax.tree.map(lambda a: _FARTHEST * jnp.tanh(a / _FARTHEST), parameters)


@partial(jax.jit, static_argnames=("tune_noise", "recentre", "tune_prior"))
def _maximise(
    start: Any,
    curvature: Any,
    terms: Terms,
    groups: Any,
    *,
    tune_noise: bool,
    recentre: bool,
    tune_prior: bool,
) -> Any:
    def loss(parameters: Any) -> Any:
        log_factors, log_noise = parameters
        if not tune_prior:
            log_factors = jnp.zeros_like(log_factors)
        return _objective((log_factors, log_noise), curvature, terms, groups, tune_noise, recentre)

    optimiser = optax.lbfgs()
    value_and_gradient = optax.value_and_grad_from_state(loss)
    small = 1e-7 if terms.prior_mean.dtype == jnp.float64 else 1e-4

    def size(gradient: Any) -> Any:
        return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))

    first = size(jax.grad(loss)(start))

    def unfinished(carry: Any) -> Any:
        _, _, gradient, step = carry
        return (step < _STEPS) & (size(gradient) > small * (1 + first))

    def step(carry: Any) -> Any:
        parameters, memory, _, number = carry
        value, gradient = value_and_gradient(parameters, state=memory)
        updates, memory = optimiser.update(
            gradient, memory, parameters, value=value, grad=gradient, value_fn=loss
        )
        parameters = optax.apply_updates(parameters, updates)
        return parameters, memory, jax.grad(loss)(parameters), number + 1

    begin = (start, optimiser.init(start), jax.grad(loss)(start), 0)
    parameters, _, gradient, _ = jax.lax.while_loop(unfinished, step, begin)
    # Rounding may stop the line search a little above what was asked for.
    return *_bounded(parameters), size(gradient) <= 100 * small * (1 + first)


def maximise(
    curvature: Any,
    terms: Terms,
    groups: np.ndarray,
    *,
    tune_prior: bool,
    tune_noise: bool,
    recentre: bool = False,
) -> Tuned:
    """Factors of the prior's precisions, one for each group, and κ, of the greatest evidence.

    L-BFGS on their logarithms from those of the model.

    Args:
        curvature, terms, recentre: see `log_evidence`.
        groups: (d,), the group of each parameter.
        tune_prior, tune_noise: what is tuned; the other stays as the model has it.
    """
    dtype = terms.prior_mean.dtype
    start = (jnp.zeros(int(groups.max()) + 1, dtype), jnp.zeros((), dtype))
    log_factors, log_noise, converged = _maximise(
        start,
        curvature,
        terms,
        jnp.asarray(groups),
        tune_noise=tune_noise,
        recentre=recentre,
        tune_prior=tune_prior,
    )
    if not tune_prior:
        log_factors = jnp.zeros_like(log_factors)
    found = np.asarray(log_factors)
    return Tuned(
        found,
        float(log_noise) if tune_noise else 0.0,
        bool(converged),
        np.flatnonzero(np.abs(found) > 0.9 * _FARTHEST),
    )


@partial(jax.jit, static_argnames=("tune_prior", "tune_noise", "steps", "rate"))
def ascend(
    parameters: Any,
    memory: Any,
    curvature: Any,
    terms: Terms,
    groups: Any,
    *,
    tune_prior: bool,
    tune_noise: bool,
    steps: int,
    rate: float,
) -> Any:
    """A few steps of Adam on (log factors, log κ), as in training by marginal likelihood.

    Returns:
        Parameters, Adam's memory, and the log evidence before the first step.
    """
    optimiser = optax.adam(rate)

    def loss(parameters: Any) -> Any:
        return _objective(parameters, curvature, terms, groups, tune_noise, False)

    def step(carry: Any, _: Any) -> Any:
        parameters, memory = carry
        value, gradient = jax.value_and_grad(loss)(parameters)
        log_factors, log_noise = gradient
        if not tune_prior:
            log_factors = jnp.zeros_like(log_factors)
        updates, memory = optimiser.update((log_factors, log_noise), memory, parameters)
        return (optax.apply_updates(parameters, updates), memory), -value

    (parameters, memory), values = jax.lax.scan(step, (parameters, memory), None, length=steps)
    return parameters, memory, values[0]
