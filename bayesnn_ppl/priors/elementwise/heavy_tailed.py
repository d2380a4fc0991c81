"""Independent weights with heavier tails than the normal: Laplace, logistic, Student-t, Cauchy."""

from dataclasses import dataclass

import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import positive, strict_switches
from bayesnn_ppl.priors.common.scaling import ScaledPrior, checked_scales


class _Laplace(ScaledPrior):
    def distribution(self, scale: float) -> dist.Distribution:
        return dist.Laplace(0.0, scale)


class _Logistic(ScaledPrior):
    def distribution(self, scale: float) -> dist.Distribution:
        return dist.Logistic(0.0, scale)


class _Cauchy(ScaledPrior):
    def distribution(self, scale: float) -> dist.Distribution:
        return dist.Cauchy(0.0, scale)


@dataclass(frozen=True)
class _StudentT(ScaledPrior):
    degrees_of_freedom: float

    def distribution(self, scale: float) -> dist.Distribution:
        return dist.StudentT(self.degrees_of_freedom, 0.0, scale)


@strict_switches
def laplace(
    scale: float = 1.0, *, bias_scale: float | None = None, fan_in: bool = False
) -> _Laplace:
    """w ~ Laplace(0, scale): density exp(-|w|/scale)/(2·scale), variance 2·scale².

    The mode of a posterior under it has weights that are exactly zero; its draws have none.

    Args:
        scale: of parameters with two axes or more.
        bias_scale: of the others; None for `scale`.
        fan_in: divide the scale of a kernel by √fan-in, as `fan_in_normal` does.

    Raises:
        TypeError, ValueError: a scale that is not a positive, finite number.

    References:
        Tibshirani (1996); Kabán (2007), On Bayesian classification with Laplace priors.
    """
    return _Laplace(*checked_scales(scale, bias_scale), fan_in)


@strict_switches
def logistic(
    scale: float = 1.0, *, bias_scale: float | None = None, fan_in: bool = False
) -> _Logistic:
    """w ~ Logistic(0, scale): density sech²(w/(2·scale))/(4·scale), variance π²scale²/3.

    Args:
        scale: of parameters with two axes or more.
        bias_scale: of the others; None for `scale`.
        fan_in: divide the scale of a kernel by √fan-in, as `fan_in_normal` does.

    Raises:
        TypeError, ValueError: a scale that is not a positive, finite number.

    References:
        Fortuin et al. (2022), arXiv:2102.06571, on tails between normal and Laplace.
    """
    return _Logistic(*checked_scales(scale, bias_scale), fan_in)


@strict_switches
def student_t(
    degrees_of_freedom: float,
    scale: float = 1.0,
    *,
    bias_scale: float | None = None,
    fan_in: bool = False,
) -> _StudentT:
    """w ~ t_ν(0, scale): density ∝ (1 + w²/(ν·scale²))^(-(ν+1)/2).

    It is N(0, τ²) with τ² ~ InverseGamma(ν/2, ν·scale²/2), which
    `hierarchical(inverse_gamma_scale(...), over="weight")` writes out. The variance is
    scale²·ν/(ν - 2) for ν > 2 and infinite below.

    Args:
        degrees_of_freedom: ν > 0; 1 is Cauchy, ∞ normal.
        scale: of parameters with two axes or more.
        bias_scale: of the others; None for `scale`.
        fan_in: divide the scale of a kernel by √fan-in, as `fan_in_normal` does.

    Raises:
        TypeError, ValueError: degrees of freedom or a scale that is not a positive, finite number.

    References:
        Neal (1996), Bayesian Learning for Neural Networks, section 2.2.
    """
    return _StudentT(
        *checked_scales(scale, bias_scale),
        fan_in,
        positive(degrees_of_freedom, "The prior's degrees_of_freedom"),
    )


@strict_switches
def cauchy(scale: float = 1.0, *, bias_scale: float | None = None, fan_in: bool = False) -> _Cauchy:
    """w ~ Cauchy(0, scale): density 1/(π·scale·(1 + w²/scale²)), without mean or variance.

    Sums of Cauchy weights grow with their number and not with its root: with `fan_in` the scale
    of a function still grows as √fan-in.

    Args:
        scale: of parameters with two axes or more.
        bias_scale: of the others; None for `scale`.
        fan_in: divide the scale of a kernel by √fan-in, as `fan_in_normal` does.

    Raises:
        TypeError, ValueError: a scale that is not a positive, finite number.

    References:
        Neal (1996), Bayesian Learning for Neural Networks, section 2.2.
    """
    return _Cauchy(*checked_scales(scale, bias_scale), fan_in)
