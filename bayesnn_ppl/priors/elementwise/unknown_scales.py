"""Normal weights of an unknown scale, centred and not: what the hierarchical families share."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.util import promote_shapes, validate_sample

from bayesnn_ppl.core.arguments import positive
from bayesnn_ppl.priors.common.fitting import innermost, lower_bound

CANCELLING = "cancelling_factor"  # in the `infer` of a site


def sample_scaled(name: str, shape: tuple[int, ...], scale: Any, *, centred: bool) -> Any:
    """w ~ N(0, scale²), of the given shape, as the parameter `name`.

    Centred, `name` is the latent site. Otherwise `<name>_base` ~ N(0, 1) is, and `name` is the
    deterministic site scale · base; two more factors, -Σ log scale and +Σ log scale, turn the
    density of the base into that of w and add the Jacobian of the map. They cancel, but a
    whole-posterior temperature counts the first and leaves the second alone, as it does all
    Jacobians. So both forms are one distribution at every temperature.
    """
    if centred:
        return numpyro.sample(name, dist.Normal(0.0, scale).expand(shape).to_event())
    # Marked, because its name is not the parameter's.
    base = numpyro.sample(
        f"{name}_base",
        dist.Normal(0.0, 1.0).expand(shape).to_event(),
        infer={"network_parameter": True},
    )
    log_scales = jnp.sum(jnp.log(scale)) * (math.prod(shape) / jnp.size(scale))
    _cancelling_factor(f"{name}_scaled", -log_scales)
    # The name by which `temperature.py` knows a Jacobian.
    _cancelling_factor(f"_{name}_base_log_det", log_scales)
    return numpyro.deterministic(name, scale * base)


def _cancelling_factor(name: str, log_factor: Any) -> None:
    """One of two factors that cancel; marked, because draws from the prior need not mind them."""
    unit = dist.Unit(log_factor)
    numpyro.sample(
        name, unit, obs=unit.sample(None), infer={"is_auxiliary": True, CANCELLING: True}
    )


def site_of(group: str, name: str) -> str:
    """The site of a hyperparameter of a group; the whole network is the group ""."""
    return f"{group}.{name}" if group else name


class InverseGammaScale(dist.Distribution):
    """τ with τ² ~ InverseGamma(a, b): density 2·b^a/Γ(a) · τ^(-2a-1) · exp(-b/τ²).

    Args:
        concentration: a > 0.
        rate: b > 0.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    reparametrized_params = ["concentration", "rate"]

    def __init__(
        self, concentration: Any, rate: Any = 1.0, *, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = promote_shapes(concentration, rate)
        shape = jnp.broadcast_shapes(jnp.shape(concentration), jnp.shape(rate))
        super().__init__(shape, validate_args=validate_args)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draws of shape `sample_shape + batch_shape`."""
        shape = sample_shape + self.batch_shape
        gamma = jax.random.gamma(key, jnp.broadcast_to(self.concentration, shape))
        return jnp.sqrt(self.rate / gamma)

    @validate_sample
    def log_prob(self, value: Any) -> Any:
        """log 2 + a log b - log Γ(a) - (2a + 1) log τ - b/τ²."""
        a, b = self.concentration, self.rate
        constant = jnp.log(2.0) + a * jnp.log(b) - jax.scipy.special.gammaln(a)
        return constant - (2 * a + 1) * jnp.log(value) - b / value**2

    @property
    def mean(self) -> Any:
        """√b·Γ(a - 1/2)/Γ(a); infinite for a ≤ 1/2."""
        a = jnp.broadcast_to(self.concentration, self.batch_shape)
        lgamma = jax.scipy.special.gammaln
        finite = jnp.sqrt(self.rate) * jnp.exp(lgamma(jnp.maximum(a - 0.5, 1e-3)) - lgamma(a))
        return jnp.where(a > 0.5, finite, jnp.inf)

    @property
    def variance(self) -> Any:
        """b/(a - 1) - mean²; infinite for a ≤ 1."""
        a = jnp.broadcast_to(self.concentration, self.batch_shape)
        finite = self.rate / jnp.where(a > 1, a - 1, 1.0) - self.mean**2
        return jnp.where(a > 1, finite, jnp.inf)


def inverse_gamma_scale(concentration: float, rate: float) -> InverseGammaScale:
    """A prior of τ for `hierarchical`, with τ² ~ InverseGamma(concentration, rate).

    N(0, τ²) under it is a Student-t: 2·concentration degrees of freedom, scale
    √(rate/concentration). Weights that share τ are one multivariate t.

    Args:
        concentration: a of the density ∝ (τ²)^(-a-1) exp(-b/τ²).
        rate: b.

    Raises:
        TypeError, ValueError: not positive, finite numbers.

    References:
        Gelman (2006), Prior distributions for variance parameters in hierarchical models.
    """
    return InverseGammaScale(
        positive(concentration, "The concentration"), positive(rate, "The rate")
    )


def checked_scale_prior(found: Any) -> dist.Distribution:
    """A proper, continuous, scalar distribution on the positive reals; an error for others."""
    if not isinstance(found, dist.Distribution):
        raise TypeError(
            "The scale of a hierarchical prior must be a NumPyro distribution over the positive "
            f"reals, such as HalfNormal(1.0), not {found!r}."
        )
    if found.batch_shape or found.event_shape:
        raise ValueError(
            "The prior of a scale must be one of a single number, with batch_shape () and "
            f"event_shape (), not {found.batch_shape} and {found.event_shape}: `over` says how "
            "many scales there are."
        )
    kind = type(innermost(found)).__name__
    bound = None if found.support.is_discrete else lower_bound(found)
    if isinstance(innermost(found), dist.ImproperUniform):
        raise ValueError(
            f"The prior of the scale is improper ({kind}), and so would the prior of the weights "
            "be: use a wide proper one such as HalfCauchy(10.0)."
        )
    if bound is None or bound < 0:
        raise ValueError(
            f"The prior of the scale, {kind}, has the support {found.support}: a scale is a "
            "positive real number. Use HalfNormal, HalfCauchy, Gamma, LogNormal or "
            "`inverse_gamma_scale`."
        )
    return found


def checked_site_name(name: Any) -> str:
    """The name of a site within the network's, or an error that says what is wrong with it."""
    if not isinstance(name, str) or not name or "/" in name or "." in name:
        raise ValueError(
            f"The `name` of a prior's sites must be a non-empty string without '/' and '.', "
            f"not {name!r}."
        )
    return name
