"""The model contract, and the model that `bayesian_network` builds.

A model is a function of NumPyro, `model(x, y=None, *, batch_size=None)`: `x` has leading axis N;
one plate `"data"` of size N with `subsample_size=batch_size`; one observed site `"y"`.
`bayesian_network` builds such a model; a hand-written one works equally well.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import numpyro
from jax.typing import ArrayLike

from bayesnn_ppl.core.identity import describe
from bayesnn_ppl.likelihoods.common.base import Likelihood
from bayesnn_ppl.modeling.dropout_layers import live_dropout
from bayesnn_ppl.modeling.random_networks import random_network
from bayesnn_ppl.modeling.temperature import ColdModel, positive_temperature, tempered
from bayesnn_ppl.modeling.training_noise import training_key
from bayesnn_ppl.priors.common.base import Prior
from bayesnn_ppl.priors.common.patterns import by_name

__all__ = ["BayesianNetwork", "bayesian_network", "check_inputs", "minibatch"]


def minibatch(x: ArrayLike, y: ArrayLike | None = None) -> tuple[Any, Any]:
    """The rows of `x` and `y` that the enclosing plate `"data"` has chosen.

    Without `subsample_size` these are all rows, at no cost.

    Args:
        x: shape (N, ...).
        y: shape (N, ...), or None when the model predicts.

    Returns:
        `(x, y)`, each with leading axis B, the plate's subsample size.
    """

    def rows(array: ArrayLike) -> Any:
        return numpyro.subsample(array, event_dim=jax.numpy.ndim(array) - 1)

    return rows(x), None if y is None else rows(y)


@dataclass(frozen=True)
class BayesianNetwork:
    """The model that `bayesian_network` builds: a value, equal to another of equal parts."""

    network: Any
    prior: Prior
    likelihood: Likelihood
    temperature: float = 1.0
    name: str = "net"

    def __repr__(self) -> str:
        return describe(self)

    def check_inputs(self, x: np.ndarray) -> None:
        """Raise ValueError unless all rows of `x` can be inputs of the likelihood."""
        self.likelihood.check_inputs(x)

    def __call__(self, x: Any, y: Any = None, *, batch_size: int | None = None) -> None:
        """Run the model on x (N, ...) and, to observe, y (N, ...)."""
        likelihood = self.likelihood
        key = training_key() if likelihood.noisy and y is not None else None
        layers_key, inputs_key = (None, None) if key is None else jax.random.split(key)
        seen, _ = likelihood.split_inputs(x[:1])
        with live_dropout(likelihood.dropout, layers_key):
            net = random_network(self.name, self.network, self.prior, seen)
            parameters = likelihood.sample_parameters()
            with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
                x, y = minibatch(x, y)
                seen, known = likelihood.split_inputs(x)
                if inputs_key is not None:
                    seen = likelihood.training_inputs(seen, inputs_key)
                outputs = _one_row_each(net(seen), seen.shape[0])
                observed = likelihood.distribution(outputs, **parameters, **known)
                with tempered(self.temperature):
                    numpyro.sample("y", observed, obs=y)


def _one_row_each(outputs: Any, rows: int) -> Any:
    """The network's outputs, if they are one array with one row for each input."""
    if not hasattr(outputs, "shape"):
        count = f" of {len(outputs)}" if hasattr(outputs, "__len__") else ""
        raise ValueError(
            f"The network returns a {type(outputs).__name__}{count}, but a likelihood needs one "
            "array (rows, outputs). Join several outputs inside the network, "
            "`jnp.concatenate([a, b], axis=-1)`, or write the model by hand and give each "
            "output its part of the distribution."
        )
    if outputs.shape[:1] != (rows,):
        raise ValueError(
            f"The network returns shape {tuple(outputs.shape)} for {rows} rows of inputs, and "
            "NumPyro would repeat it for each of them. It must keep the rows as the first axis: "
            "(rows, outputs)."
        )
    return outputs


def bayesian_network(
    network: Any,
    prior: Prior,
    likelihood: Likelihood,
    *,
    temperature: float = 1.0,
    name: str = "net",
) -> BayesianNetwork:
    """A Bayesian neural network as a NumPyro model `model(x, y=None, *, batch_size=None)`.

    Args:
        network: a module mapping (N, ...) to (N, likelihood.outputs): of Flax Linen or, as an
            instance or what builds one, of Flax NNX or Equinox (see `random_network`).
        prior: see `random_network`.
        likelihood: one of `bayesnn_ppl.likelihoods`.
        temperature: likelihood temperature T > 0, see `tempered`.
        name: prefix of the network's sites.

    Raises:
        TypeError, ValueError: an argument is not what it must be. The prior is checked against the
            parameters when the model first runs, since only then their shapes are known.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> model = bnn.bayesian_network(
        ...     bnn.nn.MLP((50,), outputs=1), bnn.priors.fan_in_normal(),
        ...     bnn.likelihoods.gaussian())
    """
    from bayesnn_ppl.nn.equinox_modules import as_flax

    if not isinstance(likelihood, Likelihood):
        hint = ""
        if callable(likelihood):
            hint = " Call it: `likelihoods.gaussian()`, not `likelihoods.gaussian`."
        elif isinstance(likelihood, str):
            hint = " A name is not a likelihood: `likelihoods.gaussian()` makes one."
        raise TypeError(
            f"The likelihood must come from `bayesnn_ppl.likelihoods`, not {likelihood!r}.{hint}"
        )
    if isinstance(network, type):
        _check_class(network)
    if not isinstance(name, str) or not name or "/" in name or "." in name:
        raise ValueError(
            f"The network's name must be a non-empty string without '/' and '.', not {name!r}."
        )
    temperature = positive_temperature(temperature, "the likelihood")
    if isinstance(prior, Mapping):
        prior = by_name(prior)
    return BayesianNetwork(as_flax(network), prior, likelihood, temperature, name)


def _check_class(network: type) -> None:
    """Refuse a class, unless it is one of Flax NNX that `rngs` alone make a module of."""
    from flax import nnx

    from bayesnn_ppl.nn.equinox_modules import builds_equinox
    from bayesnn_ppl.nn.nnx_modules import builds_module

    if builds_module(network) or builds_equinox(network):
        return
    name = network.__name__
    if issubclass(network, nnx.Module):
        raise TypeError(
            f"The class `{name}` is not built from `rngs` alone. Give the function that builds it, "
            f"`lambda rngs: {name}(..., rngs=rngs)`, or an instance, `{name}(...)`, which cannot "
            'draw other initial weights (`init="network"`).'
        )
    raise TypeError(f"The network must be an instance: `{name}(...)`, not the class `{name}`.")


def check_inputs(model: Any, x: np.ndarray) -> None:
    """Raise ValueError where the model itself says that rows of `x` cannot be its inputs."""
    while isinstance(model, ColdModel):
        model = model.model
    check = getattr(model, "check_inputs", None)
    if check is not None:
        check(x)
