"""Variational inference: the member of a family of distributions that is nearest the posterior."""

import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import autoguide

from bayesnn_ppl.core.arguments import (
    integer,
    natural,
    near_misses,
    positive,
    readable,
    strict_switches,
)
from bayesnn_ppl.inference.approximations.trained_networks.maximum_a_posteriori import MAP
from bayesnn_ppl.inference.approximations.variational.guides.autoguide_family import (
    Guided,
    make_guide,
)
from bayesnn_ppl.inference.approximations.variational.guides.choices import (
    check_guide,
    has_flow,
    has_scale,
)
from bayesnn_ppl.inference.approximations.variational.guides.laplace_guide import laplace_draws
from bayesnn_ppl.inference.approximations.variational.guides.mean_field import MeanField
from bayesnn_ppl.inference.approximations.variational.initialisation import (
    Begun,
    begin_target,
    check_beginning,
)
from bayesnn_ppl.inference.approximations.variational.optimisation_loop import (
    GradientMethod,
    optimise,
)
from bayesnn_ppl.inference.approximations.variational.result import (
    conclude,
    weighed_draws,
)
from bayesnn_ppl.inference.fitting.approximation import Finding, Fitted
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.inference.training.trainer import cosine
from bayesnn_ppl.modeling.temperature import Model
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.storage import variable_names

__all__ = ["Variational"]

ESTIMATORS = ("reparameterised", "local", "flipout")
_SIGMA = 0.01
_FLOW_CLIP = 10.0  # of the loss per row
# Streams of randomness of one fit.
_OPTIMISATION, _DRAWS = 2, 3


@readable
@strict_switches
@dataclass(frozen=True)
class Variational:
    r"""The q of a family with the highest evidence lower bound.

        ELBO(q) = E_q[log p(y | x, θ)] - KL(q ‖ p) = log p(y | x) - KL(q ‖ p(θ | y, x))

    maximised with reparameterised draws of q. On a minibatch of B of N rows the log likelihood
    counts N/B times and the KL once, which is unbiased.

    **Temperatures.** q approximates the density that the model states, its temperature once.
    With `tempered(T)` that is p(y|θ)^{1/T} p(θ), and T · ELBO = E_q[log p(y|θ)] - T · KL(q ‖ p):
    T multiplies the KL. With `cold(model, T)` it is [p(y|θ) p(θ)]^{1/T}, and
    T · ELBO = E_q[log p(y, θ)] + T · H[q]: T multiplies the entropy of q alone, which on a normal
    posterior divides all its variances by 1/T. At T ≠ 1 the ELBO bounds the log normaliser of that
    density and is not a bound of an evidence.

    A mean field is too narrow where the posterior is correlated: of a normal posterior of
    precision Λ it has the variances 1/Λ_jj. It costs a gradient a step, a full covariance d²
    besides. `pareto_k` of the record tells how far q is from the posterior: above 0.7 its draws
    cannot be reweighted to it.

    Args:
        model: a NumPyro model that keeps the model contract, of continuous sites.
        guide: "normal" (mean field), "multivariate_normal", "low_rank", "iaf", "bnaf" (flows,
            begun narrow around the start), "dais", "laplace" (a mode in unconstrained coordinates
            and its curvature); an AutoGuide of NumPyro, class or instance of this model;
            `inverse_cdf(...)`; or a mapping from patterns on names of sites (`"Dense_0.*"`) to
            these, the first that matches counts, each group independent of the others.
        estimator: of the mean field's gradient, "reparameterised", or drawn for each row: "local"
            (local reparameterisation of dense layers, Flipout elsewhere) or "flipout".
        mode: means begin at this `MAP()`, or at the first draw of this posterior of the same
            network.
        start: without `mode`, where means begin: "auto", "network" or "prior", see
            `TrainingSettings`.
        sigma_init: first standard deviation, by default 0.01; narrow, because a network of noisy
            weights says nothing to begin with.
        rank: of "low_rank", by default √d.
        learning_rate: of Adam, by default 3e-3; gradients of flows are clipped to a norm of 10.
        optimiser: an optax transformation in its place.
        schedule: factor of the updates as a function of the fraction done; None for none.
        steps, epochs: how many, one or the other; by default 10 000 steps.
        batch_size: rows of a minibatch; None, or more than there are, for all.
        particles: draws of q for a step.
        renyi_alpha: maximise Rényi's bound of this α ≠ 1 in place of the ELBO, with two particles
            at least; of minibatches it is a biased estimate.
        draws: of q, for the posterior.
        weigh: whether the draws' importance ratios are taken: ELBO and Pareto k of the record.
            That is a pass over the data for each draw.

    Raises:
        TypeError, ValueError: an argument is not what it must be.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> data = bnn.data.load("diabetes")
        >>> q = bnn.approximations.Variational(bnn.models.linear(), steps=500, draws=100)
        >>> posterior = bnn.fit(q, *data.train, progress=False)
        >>> posterior.draws["noise_scale"].shape
        (1, 100)

    References:
        Graves (2011); Blundell et al. (2015), arXiv:1505.05424; Kucukelbir et al. (2017),
        arXiv:1603.00788; Yao et al. (2018), arXiv:1802.02538 (Pareto k).
    """

    model: Model | None = None
    _: KW_ONLY
    guide: Any = "normal"
    estimator: str = "reparameterised"
    mode: MAP | Posterior | None = None
    start: str = "auto"
    sigma_init: float | None = None
    rank: int | None = None
    learning_rate: float | None = None
    optimiser: Any = None
    schedule: Callable[[Any], Any] | None = cosine
    steps: int | None = None
    epochs: int | None = None
    batch_size: int | None = 128
    particles: int = 1
    renyi_alpha: float | None = None
    draws: int = 400
    weigh: bool = True

    def __post_init__(self) -> None:
        check_guide(self.guide)
        if self.estimator not in ESTIMATORS:
            raise ValueError(
                f"`estimator` must be one of {ESTIMATORS}, not {self.estimator!r}. "
                + near_misses(str(self.estimator), ESTIMATORS)
            )
        if self.estimator != "reparameterised" and self.guide != "normal":
            raise ValueError(
                f'estimator="{self.estimator}" draws the weights of a mean field row by row; it is '
                'for guide="normal". Leave it out.'
            )
        if self.estimator != "reparameterised" and self.renyi_alpha is not None:
            raise ValueError(
                f'estimator="{self.estimator}" never draws all weights at once, so it has no '
                'importance weights for Rényi\'s bound. Use estimator="reparameterised".'
            )
        check_beginning(self, self._optimiser())
        self._check_start()
        integer(self.particles, "`particles`", at_least=1)
        if self.rank is not None:
            integer(self.rank, "`rank`", at_least=1)
            groups = self.guide.values() if isinstance(self.guide, Mapping) else (self.guide,)
            low = (autoguide.AutoLowRankMultivariateNormal, "low_rank")
            if not any(part == low[1] or part is low[0] for part in groups):
                raise ValueError('`rank` is that of guide="low_rank"; leave it out.')
        _check_alpha(self.renyi_alpha, self.particles)

    def _check_start(self) -> None:
        if self.sigma_init is not None:
            positive(self.sigma_init, "`sigma_init`")
        if isinstance(self.guide, autoguide.AutoGuide) and (
            self.mode is not None or self.sigma_init is not None or self.start != "auto"
        ):
            raise ValueError(
                "`mode`, `start` and `sigma_init` would be ignored: the guide that you built has "
                "its own `init_loc_fn` and first scale. Give the class in its place."
            )
        if self.sigma_init is not None and not has_scale(self.guide):
            raise ValueError(
                f"The guide {self.guide!r} has no first standard deviation, and `sigma_init` would "
                "be ignored. Leave it out."
            )

    def _optimiser(self) -> Any:
        if self.optimiser is not None:
            if self.learning_rate is not None:
                raise ValueError(
                    "`learning_rate` is that of Adam and would be ignored with an `optimiser` "
                    "of your own: give that optimiser its own."
                )
            return self.optimiser
        import optax

        rate = 3e-3 if self.learning_rate is None else self.learning_rate
        adam = optax.adam(positive(rate, "`learning_rate`"))
        if has_flow(self.guide):
            # One outlying draw moves a flow so far that the next draws lie farther out still.
            return optax.chain(optax.clip_by_global_norm(_FLOW_CLIP), adam)
        return adam

    def solve(self, problem: Problem) -> Fitted:
        """Maximise the bound, and draw from q; see `fit`."""
        return self._fitted(problem, begin_target(self, problem, learn=False))[0]

    def _fitted(self, problem: Problem, begun: Begun) -> tuple[Fitted, Mapping[str, Any]]:
        """What was found, and the values of the parameters that the model has of its own."""
        record: dict[str, Any] = {}
        family = self._family(problem, begun)
        optimiser = self._optimiser()
        first = family.begin(begun.z, begun.psi, problem.x, problem.y)
        if self.estimator != "reparameterised":
            record["layers_by_row"] = self._layers(family, first, problem)
        method = GradientMethod(family, optimiser, self.schedule)
        result = optimise(
            method,
            first,
            optimiser.init(first),
            problem,
            steps=begun.steps,
            batch_size=begun.batch_size,
            key=problem.key(_OPTIMISATION),
        )
        positions, log_weights, found = self._draw(family, result.parameters, problem)
        fitted = conclude(result, begun, positions, log_weights, found, record)
        return fitted, family.target.learned_values(result.parameters.psi)

    def _family(self, problem: Problem, begun: Begun) -> MeanField | Guided:
        sigma = _SIGMA if self.sigma_init is None else float(self.sigma_init)
        target, rows, batch_size = begun.target, len(problem.x), begun.batch_size
        alpha = None if self.renyi_alpha == 1 else self.renyi_alpha
        if self.guide == "normal":
            return MeanField(target, rows, batch_size, self.estimator, self.particles, alpha, sigma)
        guide = make_guide(
            self.guide, begun.target, begun.z, problem.x, problem.y, sigma, self.rank
        )
        placed = not isinstance(self.guide, autoguide.AutoGuide)
        bare = Guided(target, guide, rows, batch_size, self.particles, alpha, placed)
        return replace(bare, parameters=bare.constraints(problem.x, problem.y))

    def _layers(self, family: Any, first: Any, problem: Problem) -> list[str]:
        names = family.layers_by_row(first, problem.x, problem.y)
        if not names:
            raise ValueError(
                f'estimator="{self.estimator}" found no layer: it knows Dense and Conv layers of '
                "Flax Linen networks whose kernels are latent sites themselves. Use "
                'estimator="reparameterised".'
            )
        return natural(variable_names(names).values())

    def _draw(
        self, family: Any, parameters: Any, problem: Problem
    ) -> tuple[dict[str, np.ndarray], np.ndarray | None, list[Finding]]:
        key = problem.key(_DRAWS)
        x, y = jnp.asarray(problem.x), jnp.asarray(problem.y)
        if isinstance(family, Guided) and family.is_laplace:
            values = family.guide._unpack_latent(parameters.q[f"{family.guide.prefix}_loc"])
            vectors, ratios, found = laplace_draws(
                family.target,
                family.target.flatten(values),
                parameters.psi,
                x,
                y,
                draws=self.draws,
                seed=key,
            )
            z = jax.vmap(family.target.unflatten)(jnp.asarray(vectors, jnp.result_type(float)))
            positions = {name: np.asarray(value) for name, value in z.items()}
            return positions, ratios if self.weigh else None, found
        keys = jax.random.split(key, self.draws)
        positions, weights = weighed_draws(family, self.weigh, parameters, keys, x, y)
        return positions, weights, []


def _check_alpha(alpha: Any, particles: int) -> None:
    if alpha is None:
        return
    if isinstance(alpha, bool) or not isinstance(alpha, numbers.Real):
        raise TypeError(f"`renyi_alpha` must be a number or None, not {alpha!r}.")
    if not (math.isfinite(alpha) and float(alpha) >= 0):
        raise ValueError(
            f"`renyi_alpha` must be finite and at least 0, not {alpha}: below 0 nothing is bounded."
        )
    if alpha != 1 and particles < 2:
        raise ValueError(
            "Of one particle Rényi's bound is the ELBO whatever α: give particles=2 or more."
        )
