"""The two temperatures, never one word for both.

* `tempered(T)` scales the likelihood:       target ∝ p(D|θ)^{1/T} p(θ);
* `cold(model, T)` scales the whole density:  target ∝ [p(D|θ) p(θ)]^{1/T}.
"""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpyro.distributions import Unit
from numpyro.primitives import Messenger

from bayesnn_ppl.core.arguments import natural, positive
from bayesnn_ppl.modeling.row_terms import is_by_row

__all__ = [
    "JACOBIAN",
    "ColdModel",
    "Model",
    "SiteWeights",
    "cold",
    "positive_temperature",
    "tempered",
    "warn_of_cold_latents",
]

type Model = Callable[..., Any]


def positive_temperature(temperature: float, where: str) -> float:
    """`temperature` as a float; TypeError or ValueError unless positive and finite."""
    try:
        return positive(temperature, f"The temperature of {where}")
    except ValueError as error:
        raise ValueError(
            f"{error} T = 1 is the Bayes posterior, T < 1 a cold one; for T -> 0 look for a mode."
        ) from None


JACOBIAN = re.compile(r"(?:^|/)_(.+)_log_det$")


class _JacobianAware(Messenger):
    """Knows the Jacobians of constrained sites from the model's own factors.

    NumPyro adds a Jacobian as a factor `_<site>_log_det` from inside the model, so that a plain
    `handlers.scale` would temper it too, and the result would not be the density of
    [p(D|θ) p(θ)]^{1/T} under any parametrisation.
    """

    def __init__(self, fn: Model | None) -> None:
        self._latents: set[str] = set()
        super().__init__(fn)

    def __enter__(self) -> Any:
        self._latents.clear()
        return super().__enter__()

    def _is_jacobian(self, msg: dict[str, Any]) -> bool:
        """Scopes inside this handler put their prefix before the factor's name, and scopes
        outside it put theirs before the latent's name within.
        """
        if not msg["is_observed"] or not isinstance(msg["fn"], Unit):
            return False
        found = JACOBIAN.search(msg["name"])
        return found is not None and any(
            found[1] == latent or found[1].endswith(f"/{latent}") for latent in self._latents
        )


class _Tempering(_JacobianAware):
    """Scales log densities by 1/T, but never the Jacobian of a constrained site."""

    key: str  # where the temperature is recorded on the site
    observed_only: bool

    def __init__(self, fn: Model | None, temperature: float) -> None:
        self.temperature = temperature
        super().__init__(fn)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample" or self.temperature == 1.0:
            return
        if not msg["is_observed"]:
            self._latents.add(msg["name"])
            if self.observed_only:
                return
        elif self._is_jacobian(msg):
            return
        for other, words in _OTHER_TEMPERATURES.items():
            if other in msg["infer"] and msg["is_observed"]:
                raise ValueError(
                    f"The site `{msg['name']}` is tempered twice: {words} already applies to it, "
                    "and two temperatures on one likelihood multiply without a trace. Use either "
                    "`tempered(T)` (likelihood) or `cold(model, T)` (whole posterior), once."
                )
        msg["infer"][self.key] = self.temperature
        scale = 1.0 / self.temperature
        msg["scale"] = scale if msg["scale"] is None else scale * msg["scale"]


_OTHER_TEMPERATURES = {
    "likelihood_temperature": "a likelihood temperature, `tempered`,",
    "posterior_temperature": "a whole-posterior temperature, `cold`,",
}


class tempered(_Tempering):  # noqa: N801 - a context manager, named as numpyro's handlers are
    """Temper the likelihood: observed sites inside count with weight 1/T.

    log target = (1/T) log p(y|x, θ) + log p(θ) + const.

    Latent sites inside the block are left alone. Note that with a learned scale σ the term
    −log σ is tempered too: p(y|θ)^{1/T} is not a Gaussian with standard deviation σ√T.

    Args:
        temperature: T > 0; 1 is Bayes.

    Raises:
        ValueError: T is not positive and finite, or (when the model runs) an observed site
            already has a temperature.

    Example:
        >>> import numpyro, numpyro.distributions as dist, bayesnn_ppl as bnn
        >>> def model(x, y=None, *, batch_size=None):
        ...     slope = numpyro.sample("slope", dist.Normal(0, 1))
        ...     with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        ...         x, y = bnn.minibatch(x, y)
        ...         with bnn.tempered(0.5):
        ...             numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)
    """

    key = "likelihood_temperature"
    observed_only = True

    def __init__(self, temperature: float) -> None:
        super().__init__(None, positive_temperature(temperature, "`tempered`"))


class _Cold(_Tempering):
    key = "posterior_temperature"
    observed_only = False


class SiteWeights(_JacobianAware):
    """The model with weights on its log densities, for a sampler that sees a few rows at a time.

    Args:
        model: the NumPyro model, given the rows of a minibatch as its data.
        data: weight of the sites inside the plate "data", such as N/B.
        share: weight of all others, 1 unless several minibatches are added up.
        temperature: T of a target exp(-U/T), by which Jacobians count in U, in addition to their
            share.

    Raises:
        ValueError: (when the model runs) a site is tempered by `cold` or `tempered`, and T is
            not 1.
    """

    def __init__(
        self, model: Model, *, data: float, share: float = 1.0, temperature: Any = 1.0
    ) -> None:
        self.data, self.share, self.temperature = data, share, temperature
        self._tempered = not (isinstance(temperature, float) and temperature == 1.0)
        self.rowwise: set[str] = set()  # the sites inside the plate "data", once it has run
        super().__init__(model)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample":
            return
        for key, words in _OTHER_TEMPERATURES.items() if self._tempered else ():
            if key in msg["infer"]:
                raise ValueError(
                    f"The site `{msg['name']}` has {words} and the kernel has a temperature of its "
                    "own: two temperatures multiply without a trace. Give the kernel the "
                    "temperature, and a model without one, or the other way round."
                )
        if not msg["is_observed"]:
            self._latents.add(msg["name"])
        weight: Any = self.share
        if self._is_jacobian(msg):
            weight = self.share * self.temperature
        elif is_by_row(msg):
            weight = self.data
            self.rowwise.add(msg["name"])
        if isinstance(weight, float) and weight == 1.0:
            return
        msg["scale"] = weight if msg["scale"] is None else weight * msg["scale"]


@dataclass(frozen=True)
class ColdModel:
    """A model whose whole log density counts with weight 1/T; made by `cold`."""

    model: Model
    temperature: float

    def __repr__(self) -> str:
        return f"cold({self.model!r}, {self.temperature:g})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _Cold(self.model, self.temperature)(*args, **kwargs)


def cold(model: Model, temperature: float) -> ColdModel:
    """Temper the whole posterior of a model: target ∝ [p(D|θ) p(θ)]^{1/T}.

    The densities of the model's own sites are scaled; the Jacobians of the maps to
    unconstrained space keep weight 1. With T ≠ 1 and latent sites besides the network's
    parameters (a noise scale, a hierarchical scale) the result therefore depends on how the
    model is parametrised; `sample` warns when that is so.

    Args:
        model: a NumPyro model.
        temperature: T > 0; below 1 is "cold" in the sense of Wenzel et al. (2020).

    Raises:
        ValueError: T is not positive and finite, or the model is already cold, or (when the
            model runs) its likelihood is already tempered.

    References:
        Wenzel et al. (2020), arXiv:2002.02405, eq. 1.
    """
    temperature = positive_temperature(temperature, "`cold`")
    if isinstance(model, ColdModel):
        raise ValueError(
            f"The model is already cold, with T = {model.temperature}. Temper once: "
            f"`cold(model, {model.temperature * temperature})` has the product."
        )
    return ColdModel(model, temperature)


def warn_of_cold_latents(summary: Any) -> None:
    """Warn where a posterior temperature depends on the parametrisation; of a `ModelSummary`."""
    # Integers are what they are in any parametrisation.
    others = natural(set(summary.latents) - summary.parameters - set(summary.discrete_latents))
    if summary.posterior_temperature != 1.0 and others:
        warnings.warn(
            f"The posterior at temperature {summary.posterior_temperature} depends on how the "
            "model is parametrised, because it has latent sites besides network parameters: "
            f"{others}. Fix them, or temper the likelihood alone with `tempered(T)`.",
            stacklevel=3,
        )
