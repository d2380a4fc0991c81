"""The model contract, and the pieces that a Bayesian neural network is written with.

A model is a NumPyro program `model(x, y=None, *, batch_size=None)`: `x` has leading axis N;
one plate `"data"` of size N with `subsample_size=batch_size`; one observed site `"y"`.
`bayesian_network` builds such a program; a hand-written one is as good.

Two temperatures, never one word for both:

* `tempered(T)` scales the likelihood:       target ∝ p(D|θ)^{1/T} p(θ);
* `cold(model, T)` scales the whole density:  target ∝ [p(D|θ) p(θ)]^{1/T}.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpyro
from jax.typing import ArrayLike
from numpyro.distributions import Unit
from numpyro.primitives import Messenger

from bayesnn_ppl.arguments import positive
from bayesnn_ppl.likelihoods.base import Likelihood
from bayesnn_ppl.priors.base import NetworkPrior, Prior, checked_prior
from bayesnn_ppl.priors.patterns import by_name

__all__ = [
    "BayesianNetwork",
    "ColdModel",
    "Model",
    "bayesian_network",
    "cold",
    "minibatch",
    "random_network",
    "tempered",
]

type Model = Callable[..., Any]


def _positive_temperature(temperature: float, where: str) -> float:
    try:
        return positive(temperature, f"The temperature of {where}")
    except ValueError as error:
        raise ValueError(
            f"{error} T = 1 is the Bayes posterior, T < 1 a cold one; for T -> 0 look for a mode."
        ) from None


class _Tempering(Messenger):
    """Scales log densities by 1/T, but never the Jacobian of a constrained site.

    NumPyro adds that Jacobian as a factor `_<site>_log_det` from inside the program, so that a
    plain `handlers.scale` would temper it too, and the result would not be the density of
    [p(D|θ) p(θ)]^{1/T} under any parametrisation.
    """

    key: str  # where the temperature is recorded on the site
    observed_only: bool

    def __init__(self, fn: Model | None, temperature: float) -> None:
        self.temperature = temperature
        self._latents: set[str] = set()
        super().__init__(fn)

    def __enter__(self) -> Any:
        self._latents.clear()
        return super().__enter__()

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample" or self.temperature == 1.0:
            return
        if not msg["is_observed"]:
            self._latents.add(msg["name"])
            if self.observed_only:
                return
        elif isinstance(msg["fn"], Unit) and self._is_jacobian(msg["name"]):
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

    def _is_jacobian(self, name: str) -> bool:
        return name.endswith("_log_det") and any(
            name.endswith(f"_{latent}_log_det") for latent in self._latents
        )


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
        ValueError: T is not positive and finite, or (when the program runs) an observed site
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
        super().__init__(None, _positive_temperature(temperature, "`tempered`"))


class _Cold(_Tempering):
    key = "posterior_temperature"
    observed_only = False


@dataclass(frozen=True)
class ColdModel:
    """A program whose whole log density counts with weight 1/T; made by `cold`."""

    model: Model
    temperature: float

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _Cold(self.model, self.temperature)(*args, **kwargs)


def cold(model: Model, temperature: float) -> ColdModel:
    """Temper the whole posterior of a program: target ∝ [p(D|θ) p(θ)]^{1/T}.

    The densities of the program's own sites are scaled; the Jacobians of the maps to
    unconstrained space keep weight 1. With T ≠ 1 and latent sites besides the network's
    parameters (a noise scale, a hierarchical scale) the result therefore depends on how the
    program is parametrised; `sample` warns when that is so.

    Args:
        model: a NumPyro program.
        temperature: T > 0; below 1 is "cold" in the sense of Wenzel et al. (2020).

    Raises:
        ValueError: T is not positive and finite, or the model is already cold, or (when the
            program runs) its likelihood is already tempered.

    References:
        Wenzel et al. (2020), arXiv:2002.02405, eq. 1.
    """
    temperature = _positive_temperature(temperature, "`cold`")
    if isinstance(model, ColdModel):
        raise ValueError(
            f"The model is already cold, with T = {model.temperature}. Temper once: "
            f"`cold(model, {model.temperature * temperature})` has the product."
        )
    if isinstance(model, BayesianNetwork) and model.temperature != 1.0:
        raise ValueError(
            f"The model's likelihood is already tempered with T = {model.temperature}. Use either "
            "`temperature=` (likelihood) or `cold(model, T)` (whole posterior), once."
        )
    return ColdModel(model, temperature)


def minibatch(x: ArrayLike, y: ArrayLike | None = None) -> tuple[Any, Any]:
    """The rows of `x` and `y` that the enclosing plate `"data"` has chosen.

    Without `subsample_size` these are all rows, at no cost.

    Args:
        x: shape (N, ...).
        y: shape (N, ...), or None when the program predicts.

    Returns:
        `(x, y)`, each with leading axis B, the plate's subsample size.
    """

    def rows(array: ArrayLike) -> Any:
        return numpyro.subsample(array, event_dim=jax.numpy.ndim(array) - 1)

    return rows(x), None if y is None else rows(y)


def random_network(
    name: str, network: Any, prior: Prior, x: Any, **apply_options: Any
) -> Callable[..., Any]:
    """Sample all parameters of a Flax network from their prior, and return the network.

    The same as `random_flax_module(name, network, prior, x)` or, for an NNX module,
    `random_nnx_module(name, network, prior)`, but with the prior checked: a parameter without a
    prior, a prior without a parameter and an event shape that does not fit are errors that
    name the parameter, where NumPyro would leave it a constant.

    Args:
        name: prefix of the sites: parameter `Dense_0.kernel` is the site `name/Dense_0.kernel`.
        network: a Flax Linen module, or an instance of a Flax NNX module.
        prior: a Distribution; a function `(name, shape) -> Distribution`; a table
            `{pattern: either}` (see `priors.by_name`); or a `priors.NetworkPrior`.
        x: an input with leading axis ≥ 1, to find the parameters' shapes by.
        **apply_options: passed to a Linen module's `init` and `apply`.

    Raises:
        TypeError: `network` is not a Flax module, or `prior` none of the forms above.
        ValueError: prior and parameters do not match, or the network keeps state other than
            parameters (batch statistics, dropout keys), which MCMC would leave frozen.
    """
    from flax import linen, nnx
    from numpyro.contrib.module import random_flax_module, random_nnx_module

    if isinstance(network, linen.Module):
        shapes = _linen_shapes(network, x, apply_options)
        if isinstance(prior, NetworkPrior):
            values = _sample_network_prior(name, prior, shapes, x)
            return lambda *args, **kwargs: network.apply({"params": values}, *args, **kwargs)
        return random_flax_module(name, network, checked_prior(prior, shapes), x, **apply_options)
    if isinstance(network, nnx.Module):
        shapes = _nnx_shapes(network)
        if isinstance(prior, NetworkPrior):
            values = _sample_network_prior(name, prior, shapes, x)
            definition, state = nnx.split(network)
            nnx.replace_by_pure_dict(state, values)
            return nnx.merge(definition, state, copy=True)
        return random_nnx_module(name, network, checked_prior(prior, shapes))
    raise TypeError(
        f"The network must be a Flax Linen module or an instance of a Flax NNX module, not "
        f"{type(network).__name__}. A plain function has no parameters to put a prior on: sample "
        "them in a NumPyro program of your own."
    )


def _flatten(tree: Mapping[Any, Any], prefix: str = "") -> dict[str, tuple[int, ...]]:
    flat: dict[str, tuple[int, ...]] = {}
    for key, value in tree.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        flat |= _flatten(value, name) if isinstance(value, Mapping) else {name: value.shape}
    return flat


def _linen_shapes(network: Any, x: Any, options: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    variables = jax.eval_shape(
        lambda key, inputs: network.init(key, inputs, **options), jax.random.key(0), x
    )
    state = sorted(set(variables) - {"params"})
    if state:
        raise ValueError(
            f"The network {type(network).__name__} keeps state besides its parameters: {state}. "
            "MCMC would leave it frozen at its first value. Batch statistics also break the "
            "independence of the observations: use filter or layer normalisation instead."
        )
    if not variables.get("params"):
        raise ValueError(f"The network {type(network).__name__} has no parameters.")
    return _flatten(variables["params"])


def _nnx_shapes(network: Any) -> dict[str, tuple[int, ...]]:
    from flax import nnx

    _, *states = nnx.split(network, nnx.Param, nnx.Not(nnx.Param))
    params, other = states
    state = sorted(_flatten(nnx.to_pure_dict(other)))
    if state:
        raise ValueError(
            f"The network {type(network).__name__} keeps state besides its parameters: {state}. "
            "MCMC would leave it frozen at its first value: build it without batch statistics "
            "and without dropout."
        )
    shapes = _flatten(nnx.to_pure_dict(params))
    if not shapes:
        raise ValueError(f"The network {type(network).__name__} has no parameters.")
    return shapes


def _sample_network_prior(
    name: str, prior: NetworkPrior, shapes: dict[str, tuple[int, ...]], x: Any
) -> dict[Any, Any]:
    with numpyro.handlers.scope(prefix=name):
        values = prior.sample_checked(shapes, x)
    tree: dict[Any, Any] = {}
    for dotted, value in values.items():
        keys: list[Any] = [int(key) if key.isdigit() else key for key in dotted.split(".")]
        *path, leaf = keys
        node = tree
        for key in path:
            node = node.setdefault(key, {})
        node[leaf] = value
    return tree


@dataclass(frozen=True)
class BayesianNetwork:
    """The program that `bayesian_network` builds: a value, equal to another of equal parts."""

    network: Any
    prior: Prior
    likelihood: Likelihood
    temperature: float = 1.0
    name: str = "net"

    def __call__(self, x: Any, y: Any = None, *, batch_size: int | None = None) -> None:
        """Run the program on x (N, ...) and, to observe, y (N, ...)."""
        net = random_network(self.name, self.network, self.prior, x[:1])
        parameters = self.likelihood.sample_parameters()
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = minibatch(x, y)
            observed = self.likelihood.distribution(net(x), **parameters)
            with tempered(self.temperature):
                numpyro.sample("y", observed, obs=y)


def bayesian_network(
    network: Any,
    prior: Prior,
    likelihood: Likelihood,
    *,
    temperature: float = 1.0,
    name: str = "net",
) -> BayesianNetwork:
    """A Bayesian neural network as a NumPyro program `model(x, y=None, *, batch_size=None)`.

    Args:
        network: a Flax Linen module, or an instance of a Flax NNX module, mapping (N, ...) to
            (N, likelihood.outputs).
        prior: see `random_network`.
        likelihood: one of `bayesnn_ppl.likelihoods`.
        temperature: likelihood temperature T > 0, see `tempered`.
        name: prefix of the network's sites.

    Raises:
        TypeError, ValueError: an argument is not what it must be. The prior is held against the
            parameters when the program first runs, since only then their shapes are known.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> model = bnn.bayesian_network(
        ...     bnn.nn.MLP((50,), outputs=1), bnn.priors.fan_in_normal(),
        ...     bnn.likelihoods.gaussian())
    """
    if not isinstance(likelihood, Likelihood):
        hint = (
            " Call it: `likelihoods.gaussian()`, not `likelihoods.gaussian`."
            if callable(likelihood)
            else ""
        )
        raise TypeError(
            f"The likelihood must come from `bayesnn_ppl.likelihoods`, not {likelihood!r}.{hint}"
        )
    if isinstance(network, type):
        raise TypeError(
            f"The network must be an instance: `{network.__name__}(...)`, "
            f"not the class `{network.__name__}`."
        )
    if not isinstance(name, str) or not name or "/" in name or "." in name:
        raise ValueError(
            f"The network's name must be a non-empty string without '/' and '.', not {name!r}."
        )
    temperature = _positive_temperature(temperature, "the likelihood")
    if isinstance(prior, Mapping):
        prior = by_name(prior)
    return BayesianNetwork(network, prior, likelihood, temperature, name)
