"""A mean field of any univariate family, reparameterised by its inverse distribution function."""

import inspect
import numbers
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to
from numpyro.infer.autoguide import AutoNormal

__all__ = ["InverseCDF", "inverse_cdf"]


class _ByQuantile(dist.Distribution):
    """`base`, drawn as F⁻¹(u) with u uniform, so that draws have gradients in its parameters."""

    pytree_data_fields = ("base",)

    def __init__(self, base: Any, *, validate_args: bool | None = None) -> None:
        self.base = base
        super().__init__(base.batch_shape, base.event_shape, validate_args=validate_args)

    @property
    def support(self) -> Any:
        return self.base.support

    @property
    def has_rsample(self) -> bool:
        return True

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        if not _has_quantile(self.base):
            return self.base.sample(key, sample_shape)
        shape = sample_shape + self.batch_shape
        dtype = jnp.result_type(float)
        # Open at both ends: F⁻¹ is infinite there.
        edge = jnp.finfo(dtype).eps
        uniform = jax.random.uniform(key, shape, dtype, minval=edge, maxval=1.0 - edge)
        return self.base.icdf(uniform)

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        return self.base.log_prob(value)


def _has_quantile(fn: Any) -> bool:
    """NumPyro takes some inverse cdfs, Student's t, from a package that need not be there."""
    try:
        jax.eval_shape(fn.icdf, 0.5)
    except ImportError:
        return False
    return True


class QuantileGuide(AutoNormal):
    """`AutoNormal` with another family in place of the normal; `InverseCDF` builds it."""

    def __init__(self, model: Any, family: "InverseCDF", **options: Any) -> None:
        self._family = family
        super().__init__(model, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        if self.prototype_trace is None:
            self._setup_prototype(*args, **kwargs)
        plates = self._create_plates(*args, **kwargs)
        result = {}
        for name, site in self.prototype_trace.items():
            if site["type"] != "sample" or site["is_observed"]:
                continue
            event_dim, start = self._event_dims[name], self._init_locs[name]
            with ExitStack() as stack:
                for frame in site["cond_indep_stack"]:
                    stack.enter_context(plates[frame.name])

                def parameter(what: str, value: Any, constraint: Any) -> Any:
                    return numpyro.param(
                        f"{name}_{self.prefix}_{what}",  # noqa: B023 - called at once
                        jnp.broadcast_to(value, jnp.shape(start)),  # noqa: B023
                        constraint=constraint,
                        event_dim=event_dim,  # noqa: B023
                    )

                scale = parameter("scale", self._init_scale, self.scale_constraint)
                fn = self._family.distribution(
                    parameter("loc", start, constraints.real), scale, parameter
                )
                value = _ByQuantile(fn).to_event(event_dim)
                support = site["fn"].support
                if not _is_real(support):
                    value = dist.TransformedDistribution(value, biject_to(support))
                result[name] = numpyro.sample(name, value)
        return result


def _is_real(support: Any) -> bool:
    return support is constraints.real or (
        isinstance(support, constraints.independent) and support.base_constraint is constraints.real
    )


@dataclass(frozen=True)
class InverseCDF:
    """A guide for `Variational`; made by `inverse_cdf`."""

    family: type
    learned: tuple[str, ...]
    settings: tuple[tuple[str, float], ...]

    def build(self, model: Any, **options: Any) -> QuantileGuide:
        """The guide of a model; options are those of `AutoNormal`."""
        return QuantileGuide(model, self, **options)

    def distribution(self, loc: Any, scale: Any, parameter: Any) -> Any:
        """The family at a location and a scale; `parameter` declares one that is fitted."""
        settings: dict[str, Any] = dict(self.settings)
        for name in self.learned:
            constraint = self.family.arg_constraints[name]  # type: ignore[attr-defined]
            settings[name] = parameter(name, settings[name], constraint)
        return self.family(loc=loc, scale=scale, **settings)


def inverse_cdf(family: Any, *, learned: tuple[str, ...] = (), **settings: float) -> InverseCDF:
    r"""A mean field of any family of the real line with a location, a scale and an inverse cdf.

        z_j = F⁻¹(u_j; m_j, s_j, ...),   u_j ~ U(0, 1)

    has gradients in the parameters wherever F⁻¹ has, so the bound of any such q is maximised as
    that of a normal is: Laplace, logistic, Student-t, Cauchy, Gumbel, ... Sites that are not on
    the real line have this distribution in their unconstrained coordinate. `sigma_init` of
    `Variational` is the first scale s, whatever standard deviation that is.

    NumPyro takes the inverse cdf of Student's t from tensorflow_probability. Without that package
    the same distribution is drawn by NumPyro's own sampler, a normal over the root of a gamma,
    whose gradients in location, scale and degrees of freedom are as accurate.

    Args:
        family: a class of NumPyro distributions, such as `dist.Laplace`.
        learned: names among `settings` that are fitted, each coordinate with its own.
        **settings: the family's other parameters, such as `df=5.0`.

    Raises:
        TypeError: `family` is not a class of distributions, or a setting no number.
        ValueError: it lacks a location, a scale or an inverse cdf, is not on the real line, or a
            parameter is missing, unknown, or out of its bounds.

    Example:
        >>> import numpyro.distributions as dist, bayesnn_ppl as bnn
        >>> guide = bnn.approximations.inverse_cdf(dist.StudentT, df=5.0)
        >>> q = bnn.approximations.Variational(bnn.models.mlp(hidden=(5,)), guide=guide)

    References:
        Devroye (1986), Non-Uniform Random Variate Generation, chapter 2; Kingma and Welling
        (2014), arXiv:1312.6114, section 2.4 (the inverse cdf as a reparameterisation).
    """
    if not (inspect.isclass(family) and issubclass(family, dist.Distribution)):
        raise TypeError(
            "`inverse_cdf` takes a class of NumPyro distributions, such as `dist.Laplace`, not "
            f"{family!r}."
        )
    kind: Any = family
    name, known = kind.__name__, kind.arg_constraints
    if not {"loc", "scale"} <= set(known) or kind.icdf is dist.Distribution.icdf:
        raise ValueError(
            f"{name} cannot be a mean field: it needs parameters `loc` and `scale` and an inverse "
            "cdf, as Laplace, Logistic, StudentT, Cauchy, Gumbel and SoftLaplace have."
        )
    others = set(known) - {"loc", "scale"}
    unknown = sorted(set(settings) - others | set(learned) - set(settings))
    if unknown:
        raise ValueError(
            f"{name} has no settings {unknown}, or they are to be learned and have no first value. "
            f"Besides `loc` and `scale` it has {sorted(others)}."
        )
    for setting, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(f"`{setting}` of {name} must be a number, not {value!r}.")
        if not bool(known[setting](float(value))):
            raise ValueError(f"`{setting}` = {value} of {name} must be {known[setting]}.")
    try:
        fn: Any = kind(loc=0.0, scale=1.0, **settings)
    except TypeError as error:
        raise ValueError(
            f"{name} has parameters {sorted(others)} besides `loc` and `scale`: give them all. "
            f"NumPyro says: {error}"
        ) from error
    if not _has_quantile(fn) and not fn.has_rsample:
        raise ValueError(
            f"NumPyro's inverse cdf of {name} needs the package tensorflow_probability, which is "
            "not installed. Install it, or choose another family."
        )
    if not _is_real(fn.support):
        raise ValueError(
            f"The support of {name} is {fn.support}, but coordinates of q are on the real line."
        )
    values: Mapping[str, float] = {key: float(value) for key, value in settings.items()}
    return InverseCDF(family, tuple(learned), tuple(sorted(values.items())))
