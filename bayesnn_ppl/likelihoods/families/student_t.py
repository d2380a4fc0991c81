"""Student-t noise: outliers lose their influence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.likelihoods.common.location_scale import LocationScale
from bayesnn_ppl.likelihoods.common.parameters import checked_scale, fixed_or_learned, sampled


@dataclass(frozen=True)
class StudentT(LocationScale):
    """y ~ StudentT(df, f(x), scale); made by `likelihoods.student_t`."""

    df: float | dist.Distribution = 4.0

    def sample_parameters(self) -> dict[str, Any]:
        """Sample the sites `noise_scale` and `noise_df`, unless they are fixed."""
        return super().sample_parameters() | {"df": sampled("noise_df", self.df)}

    def noise(self, centre: Any, **parameters: Any) -> dist.Distribution:
        """Student-t around the centre."""
        return dist.StudentT(parameters["df"], centre, parameters["scale"])


@strict_switches
def student_t_likelihood(
    df: float | dist.Distribution = 4.0,
    scale: float | Sequence[float] | dist.Distribution | None = None,
    *,
    outputs: int | None = 1,
    per_output: bool = False,
) -> StudentT:
    """y ~ StudentT(ν, f(x), σ), density ∝ (1/σ) [1 + (y − f(x))²/(νσ²)]^{−(ν+1)/2}.

    The force of a residual r is (ν + 1) r / (νσ² + r²): at most (ν + 1) / (2√ν σ), at r = √ν σ,
    and falling to 0 beyond, so that one wild target moves the mean function by a bounded amount.

    Predictions have a mean where ν > 1 and a variance, σ² ν/(ν − 2), where ν > 2. Draws with a
    smaller ν make them infinite or NaN, as they are; quantiles and the log density always exist.

    Args:
        df: the degrees of freedom ν: a number fixes them; a distribution over the positive reals
            is their prior, and the site `noise_df`, shape (), is sampled. `dist.Gamma(2.0, 0.1)`
            is Juárez and Steel's; shifted by 2 the variance exists:
            `dist.TransformedDistribution(dist.Gamma(2.0, 0.1), AffineTransform(2.0, 1.0,
            domain=constraints.positive))`.
        scale: σ, in the units of `y`, as in `likelihoods.gaussian`: by default learned with a
            HalfNormal(1) prior, as the site `noise_scale`.
        outputs, per_output: as in `likelihoods.gaussian`; the degrees of freedom are those of all
            outputs.

    Raises:
        TypeError, ValueError: as `likelihoods.gaussian`, for the degrees of freedom too.

    References:
        Lange, Little and Taylor (1989), Robust statistical modeling using the t distribution,
        Journal of the American Statistical Association 84(408). Juárez and Steel (2010),
        Model-based clustering of non-Gaussian panel data, Journal of Business & Economic
        Statistics 28(1), for the prior.
    """
    scale, scales = checked_scale(scale, outputs, per_output=per_output)
    return StudentT(scale, outputs, scales, fixed_or_learned(df, "The degrees of freedom"))
