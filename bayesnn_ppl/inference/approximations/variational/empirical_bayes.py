"""Empirical Bayes: parameters of the prior that make the data most likely."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpyro import handlers
from numpyro.infer import autoguide

from bayesnn_ppl.core.arguments import readable, strict_switches
from bayesnn_ppl.inference.approximations.variational.initialisation import begin_target
from bayesnn_ppl.inference.approximations.variational.variational import Variational
from bayesnn_ppl.inference.fitting.approximation import Fitted
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.modeling.temperature import Model

__all__ = ["EmpiricalBayes", "WithParameters"]


@dataclass(frozen=True)
class WithParameters:
    """A model whose `numpyro.param` sites have the values given."""

    model: Model
    values: Mapping[str, Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return handlers.substitute(self.model, data=dict(self.values))(*args, **kwargs)


@readable
@strict_switches
@dataclass(frozen=True)
class EmpiricalBayes(Variational):
    r"""Variational inference that fits the model's own parameters ψ together with q.

        ψ*, q* = argmax_{ψ, q}  E_q[log p(y | x, θ)] - KL(q ‖ p(θ; ψ))

    Where the family of q holds the posterior, the maximum over q is log p(y | x; ψ) and ψ* is that
    of type-II maximum likelihood. Elsewhere the bound's slack depends on ψ, and ψ* leans to where q
    fits well: a mean field prefers narrow priors. Predictions are those of the model at ψ*; their
    uncertainty about ψ is left out. Where ψ has a prior of its own, make it a latent site instead.

    ψ are the `numpyro.param` sites of the model, of priors (`priors.learned_normal`,
    `priors.learned`) or of the likelihood; parameters of a guide are not among them. The record has
    them as `learned`.

    The arguments are those of `Variational`; the optimiser is that of ψ and q alike.

    Raises:
        TypeError, ValueError: an argument is not what it must be, the guide is a point, or the
            model has no such site.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> data = bnn.data.load("diabetes")
        >>> model = bnn.models.mlp(hidden=(5,), prior=bnn.priors.learned_normal(over="layer"))
        >>> found = bnn.fit(
        ...     bnn.approximations.EmpiricalBayes(model, steps=200), *data.train, progress=False)
        >>> sorted(found.provenance["approximation"]["learned"])
        ['net/Dense_0.learned_scale', 'net/Dense_1.learned_scale']

    References:
        MacKay (1992), Bayesian interpolation; Robbins (1956).
    """

    fits_parameters: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = (self.guide, type(self.guide))
        if self.guide == "laplace" or autoguide.AutoLaplaceApproximation in kinds:
            raise ValueError(
                'guide="laplace" is a point while it is fitted, and a point has no evidence: the '
                "joint mode of weights and their scale lies at 0. Use another guide."
            )

    def solve(self, problem: Problem) -> Fitted:
        """Maximise the bound in q and ψ, and draw from q; see `fit`."""
        fitted, values = self._fitted(problem, begin_target(self, problem, learn=True))
        arrays = {name: np.asarray(value) for name, value in values.items()}
        learned = {name: a.tolist() for name, a in arrays.items()}
        return replace(
            fitted,
            record={**fitted.record, "learned": learned},
            model=WithParameters(problem.model, arrays),
        )
