"""Noisy natural gradients: a normal q whose precision is a running mean of curvature."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from bayesnn_ppl.core.arguments import integer, near_misses, positive, readable, strict_switches
from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.inference.approximations.trained_networks.maximum_a_posteriori import MAP
from bayesnn_ppl.inference.approximations.variational.initialisation import (
    begin_target,
    check_beginning,
)
from bayesnn_ppl.inference.approximations.variational.kronecker_step import (
    begin_kronecker,
    readable_layers,
)
from bayesnn_ppl.inference.approximations.variational.natural_step import (
    NaturalStep,
    Precision,
)
from bayesnn_ppl.inference.approximations.variational.optimisation_loop import optimise
from bayesnn_ppl.inference.approximations.variational.result import (
    conclude,
    weighed_draws,
)
from bayesnn_ppl.inference.fitting.approximation import Fitted
from bayesnn_ppl.inference.training.plan import check_minibatches
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.inference.training.trainer import cosine
from bayesnn_ppl.modeling.temperature import Model
from bayesnn_ppl.posterior.posterior import Posterior

__all__ = ["NaturalGradient"]

_METHODS = ("vogn", "noisy_adam", "noisy_kfac")
_REFRESH = 10
_SIGMA = 0.01
_OPTIMISATION, _DRAWS = 2, 3  # streams of randomness


@readable
@strict_switches
@dataclass(frozen=True)
class NaturalGradient:
    r"""A normal q that follows the natural gradient of its ELBO: VOGN, noisy Adam, noisy K-FAC.

    On q = N(μ, S⁻¹) the natural gradient of the ELBO is a Newton step with a noisy weight: S moves
    towards the expected curvature of -log p̃, and μ against S⁻¹ times its gradient. S is diagonal
    in a mean field, whose likelihood's curvature is estimated by squared gradients:

        "vogn"        of each row, at its own target: Σ_i (∂ℓ_i)², a gradient for each row
        "noisy_adam"  of the minibatch, at targets drawn from the model: (Σ_i ∂ℓ̃_i)², a second
                      gradient, unbiased for the diagonal of the Fisher information

    Where the Fisher information is the curvature (generalised linear models), "noisy_adam" ends at
    the mean field of highest ELBO. "vogn" ends where s is the mean square of the rows' gradients,
    which is that only where the model fits: with residuals twice what the noise says, its
    precision is four times too large.

        "noisy_kfac"  S = A ⊗ G + prior in each layer, a matrix-variate normal with correlations
                      inside a layer: A = E[a aᵀ] of its inputs (with a one appended for the bias),
                      G = N E[g gᵀ] of the gradients at its outputs, each a running mean

    It knows dense layers and plain convolutions under normal priors; other sites, such as a noise
    scale, have a mean field by noisy Adam. g is of the Fisher information itself, with
    one backward pass for each output of a row, where the paper draws labels. And the prior is
    added to A ⊗ G in the eigenbases of both, which is exact, where the paper damps each factor,
    (A + π√γ) ⊗ (G + √γ/π), with cross terms. On one dense layer with Gaussian noise q ends at the
    posterior.

    The target is that of `Variational`, a temperature counted once: T divides the curvature
    estimate by T, not by T². Priors must treat coordinates independently.

    Args:
        model: a NumPyro model that keeps the model contract.
        method: "vogn", "noisy_adam" or "noisy_kfac".
        learning_rate: α, a share of a Newton step.
        curvature_rate: ρ, by which S, or A and G, follow what they are shown.
        momentum: β of the gradient's running mean, below 1.
        refresh: of "noisy_kfac" alone: steps from one look at A and G to the next, by default 10;
            they then move by 1 - (1 - ρ)^refresh. A look costs a backward pass for each output of
            a row, and an eigendecomposition of each factor.
        mode, start, sigma_init, schedule, steps, epochs, batch_size, draws, weigh: as in
            `Variational`; the schedule multiplies both rates.

    Raises:
        TypeError, ValueError: an argument is not what it must be, or the prior couples
            coordinates; with "noisy_kfac", a layer of another kind, or a prior that is not normal.

    References:
        Khan et al. (2018), arXiv:1806.04854 (VOGN); Zhang et al. (2018), arXiv:1712.02390 (noisy
        Adam, and algorithm 2, noisy K-FAC); Osawa et al. (2019), arXiv:1906.02506.
    """

    model: Model | None = None
    _: KW_ONLY
    method: str = "vogn"
    learning_rate: float = 0.02
    curvature_rate: float = 0.01
    momentum: float = 0.9
    refresh: int | None = None
    mode: MAP | Posterior | None = None
    start: str = "auto"
    sigma_init: float = _SIGMA
    schedule: Callable[[Any], Any] | None = cosine
    steps: int | None = None
    epochs: int | None = None
    batch_size: int | None = 128
    draws: int = 400
    weigh: bool = True

    def __post_init__(self) -> None:
        import optax

        if self.method not in _METHODS:
            raise ValueError(
                f"`method` must be one of {_METHODS}, not {self.method!r}. "
                + near_misses(str(self.method), _METHODS)
            )
        for name in ("learning_rate", "curvature_rate", "sigma_init"):
            positive(getattr(self, name), f"`{name}`")
        if self.curvature_rate > 1:
            raise ValueError(f"`curvature_rate` must be at most 1, not {self.curvature_rate}.")
        if isinstance(self.momentum, bool) or not 0 <= self.momentum < 1:
            raise ValueError(f"`momentum` must be from 0 up to below 1, not {self.momentum!r}.")
        check_beginning(self, optax.identity())
        if self.refresh is not None:
            integer(self.refresh, "`refresh`", at_least=1)
            if self.method != "noisy_kfac":
                raise ValueError(
                    f'`refresh` is that of method="noisy_kfac" and would be ignored by '
                    f'"{self.method}". Leave it out.'
                )

    def solve(self, problem: Problem) -> Fitted:
        """Maximise the ELBO, and draw from q; see `fit`."""
        if problem.summary.local:
            raise ValueError(
                f"The latent sites {list(problem.summary.local)} have one value for each row; "
                "`NaturalGradient` fits sites that all rows share. Use `Variational`."
            )
        if problem.summary.row_terms:
            raise ValueError(
                f"The density of a row has more than the site `y`: {[*problem.summary.row_terms]}. "
                "`NaturalGradient` takes the curvature of `y` alone. Use `Variational`."
            )
        # Rows are looked at one by one, whatever the minibatch.
        check_minibatches(problem.model, problem.summary, problem.x, problem.y, 1, False)
        kronecker = self.method == "noisy_kfac"
        read = readable_layers(problem) if kronecker else None
        begun = begin_target(self, problem, learn=False)
        step = NaturalStep(
            begun.target,
            len(problem.x),
            begun.batch_size,
            "noisy_adam" if kronecker else self.method,
            self.learning_rate,
            self.curvature_rate,
            self.momentum,
            self.schedule,
        )
        x, y = jnp.asarray(problem.x), jnp.asarray(problem.y)
        mean = begun.target.flatten(begun.z)
        _check_independence(step, mean, problem.key(_OPTIMISATION), x, y)
        method: Any = step
        first: Any = Precision(mean, jnp.full_like(mean, self.sigma_init**-2))
        memory: Any = (jnp.zeros_like(mean), jnp.int32(0))
        record: dict[str, Any] = {"method": self.method}
        if read is not None:
            refresh = _REFRESH if self.refresh is None else self.refresh
            method, first, memory = begin_kronecker(
                begun.z, step, read, sigma=self.sigma_init, refresh=refresh
            )
            record["layers"] = [layer.call.path for layer in method.layers]
        result = optimise(
            method,
            first,
            memory,
            problem,
            steps=begun.steps,
            batch_size=begun.batch_size,
            key=problem.key(_OPTIMISATION),
        )
        keys = jax.random.split(problem.key(_DRAWS), self.draws)
        positions, weights = weighed_draws(method, self.weigh, result.parameters, keys, x, y)
        return conclude(result, begun, positions, weights, [], record)


@partial(jax.jit, static_argnames="method")
def _products(method: StaticValue, z: Any, signs: Any, key: Any, x: Any, y: Any) -> Any:
    return [method.value.prior_product(z, vector, key, x, y) for vector in (signs, signs**2)]


def _check_independence(method: NaturalStep, z: Any, key: Any, x: Any, y: Any) -> None:
    """A diagonal matrix H has s ∘ (H s) = H 1 for all signs s, and others have not."""
    signs = jax.random.rademacher(key, z.shape, dtype=z.dtype)
    signed, plain = _products(StaticValue(method), z, signs, key, x, y)
    scale = float(jnp.abs(plain).max()) + 1e-30
    if float(jnp.abs(signs * signed - plain).max()) > 1e-3 * scale:
        raise ValueError(
            "The prior couples coordinates, as that of a learned scale and its weights does: "
            "`NaturalGradient` knows the curvature of independent ones alone. Use `Variational`, "
            "or give the scale a value."
        )
