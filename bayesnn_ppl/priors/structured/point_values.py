"""Parameters of a network that are no random variables: known values, or ones that are fitted."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro

from bayesnn_ppl.core.arguments import near_misses, positive
from bayesnn_ppl.priors.common.base import NetworkPrior, Shapes
from bayesnn_ppl.priors.common.scaling import inputs_of


@dataclass(frozen=True, eq=False)
class _Fixed:
    values: Mapping[str, np.ndarray]

    def __call__(self, shapes: Shapes, x: Any) -> dict[str, Any]:
        found = {}
        for name, shape in shapes.items():
            value = self.values.get(name)
            if value is None:
                raise ValueError(
                    f"`fixed` was given no value for `{name}` of shape {tuple(shape)}. "
                    + near_misses(name, self.values)
                )
            if value.shape != tuple(shape):
                raise ValueError(
                    f"The value of `{name}` has shape {value.shape}, but the network's parameter "
                    f"has shape {tuple(shape)}: it is of another network, or of other inputs."
                )
            found[name] = jnp.asarray(value, jnp.result_type(float))
        return found


def fixed(values: Any, *, network: str = "net") -> NetworkPrior:
    """w = w₀: parameters that keep known values, such as those of a trained network.

    In a table by name this makes a partially stochastic network, p(w_S | y) ∝ p(y | w_S, w₀) p(w_S)
    over the others alone. The values are no sites: they are not among a posterior's draws, and its
    predictions take them from the model. A kernel on all rows computes what depends on them and the
    inputs alone once for a trajectory, one on minibatches once for each of these.

    Args:
        values: a network's parameters, as Flax has them (nested, or `{"params": ...}`, or an NNX
            state as a pure dictionary) or under dotted names; or what `fit` found with `MAP` or,
            for the parameters of `learned`, with `EmpiricalBayes`. Those that other patterns of the
            table take are left out.
        network: the name that `bayesian_network` gave the network of a fit.

    Raises:
        TypeError: not one of these.
        ValueError: there are no values, one is not finite, or a fit has several draws; or, when the
            model runs, a parameter has no value, or one of another shape.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> data = bnn.data.load("diabetes")
        >>> model = bnn.models.mlp(hidden=(5,))
        >>> trained = bnn.fit(bnn.approximations.MAP(model), *data.train, progress=False)
        >>> last_layer = bnn.bayesian_network(
        ...     model.network,
        ...     {"Dense_0.*": bnn.priors.fixed(trained), "*": bnn.priors.fan_in_normal()},
        ...     model.likelihood)

    References:
        Sharma et al. (2023), Do Bayesian neural networks need to be fully stochastic?,
        arXiv:2211.06291.
    """
    if hasattr(values, "draws") and hasattr(values, "provenance"):
        flat = _of_fit(values, f"{network}/")
    elif isinstance(values, Mapping):
        flat = _flat(values.get("params", values))
    else:
        raise TypeError(
            "`fixed` takes the parameters of a network, a mapping of names to arrays or to further "
            f"mappings, or what `fit` found, not {type(values).__name__}."
        )
    if not flat:
        raise ValueError("`fixed` was given no values.")
    for name, value in flat.items():
        if not np.isfinite(value).all():
            raise ValueError(f"The value of `{name}` is not finite everywhere.")
    return NetworkPrior(_Fixed(flat))


def _of_fit(found: Any, prefix: str) -> dict[str, np.ndarray]:
    """The one value of each weight that was sampled, and what was learned besides."""
    record = found.provenance.get("approximation") or {}
    values = {name: np.asarray(value) for name, value in record.get("learned", {}).items()}
    if not values:
        samples = found.samples()
        draws = {len(value) for value in samples.values()}
        if draws != {1}:
            raise ValueError(
                "`fixed` takes one value for each parameter, and this posterior has several draws. "
                "Fit with `approximations.MAP`, or give the values of one draw."
            )
        values = {name: np.asarray(value[0]) for name, value in samples.items()}
    mine = {n.removeprefix(prefix): a for n, a in values.items() if n.startswith(prefix)}
    if not mine:
        raise ValueError(
            f"The fit has no network `{prefix[:-1]}`: it found {', '.join(list(values)[:5])}. Give "
            "the name as `network=`."
        )
    return mine


def _flat(tree: Mapping[Any, Any], prefix: str = "") -> dict[str, np.ndarray]:
    flat: dict[str, np.ndarray] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = np.asarray(value)
    return flat


@dataclass(frozen=True)
class _Learned:
    scale: float

    def __call__(self, shapes: Shapes, x: Any) -> dict[str, Any]:
        def start(name: str, shape: tuple[int, ...], key: Any) -> Any:
            if len(shape) < 2:
                return jnp.zeros(shape)
            return self.scale * jax.random.normal(key, shape) / inputs_of(name, shape) ** 0.5

        return {n: numpyro.param(n, partial(start, n, tuple(s))) for n, s in shapes.items()}


def learned(scale: float = 1.0) -> NetworkPrior:
    r"""Parameters without a prior, fitted with the posterior of the others.

    In a table by name, with `approximations.EmpiricalBayes`, which maximises

        E_q[log p(y | x, w_S, w_D)] - KL(q(w_S) ‖ p(w_S))

    in q and in these, w_D. They have no uncertainty and no penalty. `fixed` then takes what was
    found, for `sample`, which fits nothing and refuses a model with such parameters.

    Args:
        scale: kernels start at N(0, scale²/fan-in), other parameters at 0.

    Raises:
        TypeError, ValueError: `scale` is not a positive and finite number.

    References:
        Sharma et al. (2023), arXiv:2211.06291, section 5.
    """
    return NetworkPrior(_Learned(positive(scale, "`scale` of `learned`")))
