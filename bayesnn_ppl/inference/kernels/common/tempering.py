"""From the prior to the posterior through powers of the likelihood: which particles are kept."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from numpyro import handlers

from bayesnn_ppl.inference.kernels.common.acceptance import select
from bayesnn_ppl.inference.kernels.common.adaptation import adam_step
from bayesnn_ppl.inference.kernels.common.density import Density, Terms, jacobian_sites, log_ratio
from bayesnn_ppl.modeling.training_noise import clean

__all__ = [
    "Run",
    "TemperedLikelihood",
    "next_inverse_temperature",
    "refuse_tempered_prior",
    "reweighted",
    "systematic",
]


_RATE_OF_LENGTHS = 0.05  # of Adam, on log T
_FIRST_LENGTH = 2.25  # the best on N(0, I) with trajectories uniform in (0, T)


@dataclass(frozen=True)
class TemperedLikelihood(Density):
    """p(θ) L(θ)^β: all but the latent sites and their Jacobians counts with weight β.

    Attributes:
        inverse_temperature: β > 0, shape (); may be traced.
    """

    inverse_temperature: Any = 1.0

    def terms(self, vector: Any) -> Terms:
        """Site -> its log densities at this temperature, element by element."""
        terms = super().terms(vector)
        weighed = self._of_likelihood(terms, vector)
        return terms | {name: self.inverse_temperature * terms[name] for name in weighed}

    def log_likelihood(self, terms: Terms, vector: Any) -> Any:
        """log L, shape (), from the terms at the vector."""
        own = {name: terms[name] for name in self._of_likelihood(terms, vector)}
        return log_ratio(own, jax.tree.map(jnp.zeros_like, own)) / self.inverse_temperature

    def _of_likelihood(self, terms: Terms, vector: Any) -> list[str]:
        latents = self.unravel(vector)
        prior = set(latents) | jacobian_sites(terms, latents)
        return [name for name in terms if name not in prior]


class Run(NamedTuple):
    """What one run of N particles has come to; in the state with a leading axis of runs.

    Attributes:
        inverse_temperature: β; 1 from the last stage on.
        log_evidence: log of the estimate of ∫ p(θ) L(θ)^β dθ.
        effective_share: the smallest share 1/(N Σ w²) of particles that a stage has left.
        scale: standard deviations of the coordinates, shape (d,): square roots of M⁻¹.
        step_size: ε in units of `scale`.
        log_length: log T.
        squares, updates: of Adam on log T.
    """

    inverse_temperature: Any
    log_evidence: Any
    effective_share: Any
    scale: Any
    step_size: Any
    log_length: Any
    squares: Any
    updates: Any

    @classmethod
    def start(cls, points: Any) -> "Run":
        """At β = 0, for N draws from the prior of shape (N, d)."""
        zero = jnp.zeros((), points.dtype)
        return cls(
            inverse_temperature=zero,
            log_evidence=zero,
            effective_share=zero + 1,
            scale=points.std(axis=0),
            step_size=zero + 0.5 / points.shape[1] ** 0.25,  # as it falls with the dimension
            log_length=zero + math.log(_FIRST_LENGTH),
            squares=zero,
            updates=zero,
        )

    def learned(
        self, gradient: Any, acceptance: Any, target_accept: float, max_leapfrogs: int
    ) -> "Run":
        """What a trajectory teaches. The target moves on with β, so no average is formed.

        Args:
            gradient: of ChEES by log T.
            acceptance: of all particles, in one number.
            target_accept, max_leapfrogs: the kernel's.
        """
        change, squares, updates = adam_step(gradient, self.squares, self.updates, _RATE_OF_LENGTHS)
        log_step = jnp.log(self.step_size) + acceptance - target_accept
        ceiling = log_step + math.log(max_leapfrogs)
        return self._replace(
            step_size=jnp.exp(log_step),
            log_length=jnp.clip(self.log_length + change, log_step, ceiling),
            squares=squares,
            updates=updates,
        )


def refuse_tempered_prior(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """A ValueError if the prior of a site does not count once, so that no draw of it is a start."""
    seeded = handlers.seed(clean(model), jax.random.key(0))
    for name, site in handlers.trace(seeded).get_trace(*args, **kwargs).items():
        if site["type"] == "sample" and not site["is_observed"] and site["scale"] is not None:
            raise ValueError(
                f"The prior of `{name}` counts {site['scale']} times (a `cold` posterior, or "
                "`numpyro.handlers.scale`), and TemperedSMC starts at draws from the prior "
                "itself. Temper the likelihood alone (`tempered`), or use another kernel."
            )


def next_inverse_temperature(log_likelihood: Any, beta: Any, effective_share: float) -> Any:
    """The β' in (β, 1] at which weights L^{β' - β} leave a share of N particles, by bisection.

    Args:
        log_likelihood: log L, shape (N,).
        beta: shape ().
        effective_share: 1/(N Σ w²) wanted, for weights w that sum to 1.
    """

    def halve(_: Any, interval: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = interval
        middle = 0.5 * (low + high)
        enough = _share(middle * log_likelihood) >= effective_share
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    whole = 1 - beta
    low, _ = jax.lax.fori_loop(0, 50, halve, (jnp.zeros_like(whole), whole))
    enough = _share(whole * log_likelihood) >= effective_share
    return jnp.where(enough, 1.0, beta + low)


def systematic(weights: Any, uniform: Any) -> Any:
    """N indices, index i about N·wᵢ times: where (k + u)/N, k = 0, ..., N - 1, fall among them.

    Args:
        weights: w, shape (N,), of sum 1.
        uniform: u, uniform on [0, 1), shape ().
    """
    count = weights.shape[0]
    places = (jnp.arange(count) + uniform) / count
    return jnp.clip(jnp.searchsorted(jnp.cumsum(weights), places, side="right"), 0, count - 1)


def reweighted(
    run: Run, beta: Any, points: Any, log_likelihood: Any, key: Any, warming: Any
) -> tuple[Run, Any]:
    """The run at β, and which particles it keeps; after the warm-up it stays as it is."""
    log_weights = (beta - run.inverse_temperature) * log_likelihood
    weights, count = jax.nn.softmax(log_weights), points.shape[0]
    share = _share(log_weights)
    mean = weights @ points
    # Few particles underestimate the variance: then the last one counts as that of five.
    known = count * share / (count * share + 5)
    variance = known * (weights @ (points - mean) ** 2) + (1 - known) * run.scale**2
    gain = jax.nn.logsumexp(log_weights) - math.log(count)
    renewed = run._replace(
        inverse_temperature=beta,
        log_evidence=run.log_evidence + gain,
        effective_share=jnp.minimum(run.effective_share, share),
        scale=jnp.sqrt(variance),
    )
    return select(warming, renewed, run), systematic(weights, jax.random.uniform(key))


def _share(log_weights: Any) -> Any:
    """1/(N Σ w²) of the weights w ∝ exp(log_weights), shape ()."""
    return 1 / (log_weights.shape[0] * jnp.sum(jax.nn.softmax(log_weights) ** 2))
