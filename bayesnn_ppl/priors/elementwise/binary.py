"""Weights of ±1, discrete or relaxed."""

from dataclasses import dataclass
from typing import Any

import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.transforms import AffineTransform

from bayesnn_ppl.core.arguments import positive
from bayesnn_ppl.priors.common.base import NetworkPrior, Shapes


@dataclass(frozen=True)
class _BernoulliWeights:
    probability: float
    relaxed_temperature: float | None

    def __call__(self, shapes: Shapes, x: Any) -> dict[str, Any]:
        return {name: self._sample(name, tuple(shape)) for name, shape in shapes.items()}

    def _sample(self, name: str, shape: tuple[int, ...]) -> Any:
        if self.relaxed_temperature is None:
            # NumPyro's discrete samplers know the values 0, 1, ..., and no events.
            signs = dist.Bernoulli(probs=self.probability).expand(shape)
            bit = numpyro.sample(f"{name}_bit", signs, infer={"network_parameter": True})
            return numpyro.deterministic(name, 2.0 * bit - 1.0)
        relaxed = dist.TransformedDistribution(
            dist.RelaxedBernoulli(self.relaxed_temperature, probs=self.probability),
            AffineTransform(-1.0, 2.0, domain=constraints.unit_interval),
        )
        return numpyro.sample(name, relaxed.expand(shape).to_event())


def bernoulli_weights(
    probability: float = 0.5, *, relaxed_temperature: float | None = None
) -> NetworkPrior:
    """w = +1 with the given probability and -1 otherwise, independently.

    The latent sites are `<parameter>_bit` ~ Bernoulli, of the parameter's shape, and the
    parameters the deterministic sites 2 · bit - 1. No gradient moves a bit: `sample` takes
    `DiscreteHMCGibbs(NUTS(model))` or `MixedHMC(HMC(model))` of numpyro.infer, on networks of up
    to some hundred weights, since each bit costs an evaluation of the network a draw, and refuses
    kernels that follow gradients alone. Something must be left for the gradient to move, biases
    or a noise scale: give kernels alone this prior, in a table by name.

    With `relaxed_temperature` the parameters are latent sites on (-1, 1): 2v - 1 with v relaxed
    Bernoulli (concrete), logit v ~ Logistic(logit(probability)/t, 1/t). That has gradients, for
    variational fits of larger networks; as t → 0 it tends to ±1, with steeper gradients.

    Args:
        probability: of +1, in (0, 1).
        relaxed_temperature: t > 0; None for weights that are exactly ±1.

    Raises:
        TypeError, ValueError: a probability outside (0, 1), a temperature that is not positive.

    References:
        Maddison et al. (2017), arXiv:1611.00712; Zhou (2020), Mixed Hamiltonian Monte Carlo for
        mixed discrete and continuous variables.
    """
    probability = positive(probability, "The probability of +1")
    if probability >= 1:
        raise ValueError(f"The probability of +1 must be below 1, not {probability}.")
    if relaxed_temperature is not None:
        relaxed_temperature = positive(relaxed_temperature, "The relaxed_temperature")
    return NetworkPrior(_BernoulliWeights(probability, relaxed_temperature))
