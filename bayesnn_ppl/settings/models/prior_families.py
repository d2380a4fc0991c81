"""`--prior`: families of priors by name, each of one variance, so that only the shape differs."""

import math
from typing import Any

__all__ = ["FAMILIES", "prior_of"]

FAMILIES = ("normal", "mixture", "logistic", "laplace", "student-t", "cauchy", "hierarchical")
_DEGREES_OF_FREEDOM = 4.0
_QUARTILE = 0.6744897501960817  # of N(0, 1)


def prior_of(family: str, variance: float) -> Any:
    """The prior of a family with mean 0 and a variance v, on every parameter.

    normal: N(0, v). mixture: 3/4 N(0, s²) + 1/4 N(0, 25 s²) with 7 s² = v. logistic: scale
    √(3v)/π. laplace: scale √(v/2). student-t: 4 degrees of freedom, scale √(v/2). cauchy: scale
    0.6745 √v, so that its quartiles are those of N(0, v). hierarchical: N(0, τ²) with a
    τ ~ HalfNormal(√v) for each layer, so that E τ² = v.

    Args:
        family: one of `FAMILIES`.
        variance: v, positive.

    References:
        Fortuin et al. (2022), arXiv:2102.06571; Izmailov et al. (2021), arXiv:2104.14421, section
        7, whose mixture has other shares.
    """
    import numpyro.distributions as dist

    import bayesnn_ppl as bnn

    sd, priors = math.sqrt(variance), bnn.priors
    match family:
        case "normal":
            return priors.normal(variance=variance)
        case "mixture":
            narrow = sd / math.sqrt(7)
            return priors.normal_mixture((0.75, 0.25), (narrow, 5 * narrow))
        case "logistic":
            return priors.logistic(math.sqrt(3) * sd / math.pi)
        case "laplace":
            return priors.laplace(sd / math.sqrt(2))
        case "student-t":
            scale = sd * math.sqrt(1 - 2 / _DEGREES_OF_FREEDOM)
            return priors.student_t(_DEGREES_OF_FREEDOM, scale)
        case "cauchy":
            return priors.cauchy(_QUARTILE * sd)
        case "hierarchical":
            return priors.hierarchical(dist.HalfNormal(sd), over="layer")
    raise ValueError(f"There is no family of priors `{family}`. Known are {', '.join(FAMILIES)}.")
