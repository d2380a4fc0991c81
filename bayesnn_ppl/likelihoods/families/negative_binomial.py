"""Counts that vary more than their mean."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist

from bayesnn_ppl.likelihoods.common.base import as_events
from bayesnn_ppl.likelihoods.common.exposure import CountLikelihood, check_exposure_argument
from bayesnn_ppl.likelihoods.common.parameters import (
    check_outputs_argument,
    fixed_or_learned,
    sampled,
)


@dataclass(frozen=True)
class NegativeBinomial(CountLikelihood):
    """y ~ NegativeBinomial(exp(f(x)), concentration); made by `likelihoods.negative_binomial`."""

    concentration: float | dist.Distribution
    outputs: int | None = 1
    exposure: int | None = None
    task = "regression"

    def sample_parameters(self) -> dict[str, Any]:
        """Sample the site `noise_concentration`, unless the concentration is fixed."""
        return {"concentration": sampled("noise_concentration", self.concentration)}

    def distribution(self, outputs: Any, **parameters: Any) -> dist.Distribution:
        """Negative binomial with the outputs as log means; a last axis of length 1 is dropped."""
        log_mean = self.log_rates(outputs, parameters)
        concentration = parameters["concentration"]
        # In log odds, which neither a mean of 0 nor a large one makes infinite.
        odds = log_mean - jnp.log(concentration)
        return as_events(dist.NegativeBinomialLogits(concentration, odds))


def negative_binomial_likelihood(
    concentration: float | dist.Distribution | None = None,
    *,
    outputs: int | None = 1,
    exposure: int | None = None,
) -> NegativeBinomial:
    """y ~ NegativeBinomial(μ, α), μ = exp(f(x)): a Poisson whose rate is μ · Gamma(α, α).

    p(y) = Γ(y + α) / (Γ(α) y!) · (α/(α + μ))^α (μ/(α + μ))^y, for counts 0, 1, 2, … The mean is
    μ and the variance μ + μ²/α; α → ∞ is `likelihoods.poisson`. Counts are never standardised:
    load the data with `standardise="inputs"`.

    Args:
        concentration: α: a number fixes it, a distribution over the positive reals is its prior.
            By default learned with a Gamma(2, 0.1) prior (central 95 % from 2.4 to 56), as the
            site `noise_concentration`, shape ().
        outputs: as in `likelihoods.poisson`: the log means.
        exposure: as in `likelihoods.poisson`: a column of `x`, and μ = e · exp(f(x)). α stays as
            it is, so that rows differ from their rates by the same factor Gamma(α, α) whatever
            their exposure.

    Raises:
        TypeError, ValueError: a concentration that is not positive, a prior that is not over the
            positive reals, `outputs` that is not an integer of at least 1, or `exposure` that
            is not one. Negative or fractional targets, exposures that are not positive and a
            column that is not there are refused when the model meets the data.

    References:
        Hilbe (2011), Negative binomial regression, the parametrisation NB2.
    """
    if concentration is None:
        concentration = dist.Gamma(2.0, 0.1)
    return NegativeBinomial(
        fixed_or_learned(concentration, "The concentration"),
        check_outputs_argument(outputs),
        check_exposure_argument(exposure),
    )
