"""Counts whose variance is their mean."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist

from bayesnn_ppl.likelihoods.common.base import as_events
from bayesnn_ppl.likelihoods.common.exposure import CountLikelihood, check_exposure_argument
from bayesnn_ppl.likelihoods.common.parameters import check_outputs_argument


@dataclass(frozen=True)
class PoissonLikelihood(CountLikelihood):
    """y ~ Poisson(exp(f(x))); made by `likelihoods.poisson`."""

    outputs: int | None = 1
    exposure: int | None = None
    task = "regression"

    def distribution(self, outputs: Any, **parameters: Any) -> dist.Distribution:
        """Poisson with the outputs as log rates; a last axis of length 1 is dropped."""
        return as_events(dist.Poisson(jnp.exp(self.log_rates(outputs, parameters))))


def poisson_likelihood(
    *, outputs: int | None = 1, exposure: int | None = None
) -> PoissonLikelihood:
    """y ~ Poisson(λ), λ = exp(f(x)): p(y) = λ^y e^{−λ} / y!, for counts from 0 on.

    Mean and variance are λ; counts that vary more need `likelihoods.negative_binomial`. Counts
    are never standardised: load the data with `standardise="inputs"`.

    Args:
        outputs: outputs per row, the log rates: 1 for `y` of shape (N,), D for (N, D), None to
            take the network's output as it is, for example an image of counts (N, H, W).
        exposure: the column of `x` (negative: from the end) that holds what a count is taken
            over, e > 0: a time at risk, an area, a number of people. Then λ = e · exp(f(x)), and
            the network sees the other columns alone. It stays in its own units: rates per unit
            are predicted by rows with 1 there.

    Raises:
        TypeError, ValueError: `outputs` is not an integer of at least 1, or `exposure` is not
            one. Negative or fractional targets, exposures that are not positive and a column that
            is not there are refused when the model meets the data.

    References:
        McCullagh and Nelder (1989), Generalized linear models, chapter 6.
    """
    return PoissonLikelihood(check_outputs_argument(outputs), check_exposure_argument(exposure))
