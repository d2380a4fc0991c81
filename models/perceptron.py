"""Multilayer perceptrons: the general one, and those of bnn_hmc to the parameter."""

from typing import Any

import bayesnn_ppl as bnn


def mlp(
    *,
    hidden: int | tuple[int, ...] = (50, 50),
    likelihood: Any = None,
    prior: Any = None,
    activation: str = "tanh",
    temperature: float = 1.0,
) -> Any:
    """A multilayer perceptron with any likelihood.

    Args:
        hidden: widths of the hidden layers; a number is that of a single one.
        likelihood: default `likelihoods.gaussian()`, with a learned noise scale.
        prior: default `priors.fan_in_normal()`, which keeps the functions' size as width grows.
        activation: see `nn.MLP`.
        temperature: likelihood temperature.
    """
    likelihood = bnn.likelihoods.gaussian() if likelihood is None else likelihood
    widths = (hidden,) if isinstance(hidden, int) else tuple(hidden)
    # `bayesian_network` says what is wrong with what has no outputs.
    outputs = getattr(likelihood, "outputs", None)
    return bnn.bayesian_network(
        bnn.nn.MLP(widths, outputs=outputs, activation=activation),
        bnn.priors.fan_in_normal() if prior is None else prior,
        likelihood,
        temperature=temperature,
    )


def mlp_regression(*, prior: Any = None, temperature: float = 1.0) -> Any:
    """Two relu layers of 100 to (μ, σ), bnn_hmc's `mlp_regression`: 11 202 parameters at d = 8.

    Args:
        prior: default `priors.normal(1.0)` on every parameter, as there.
        temperature: likelihood temperature.
    """
    return _published((100, 100), bnn.likelihoods.heteroscedastic(), prior, temperature)


def mlp_regression_small(*, prior: Any = None, temperature: float = 1.0) -> Any:
    """One relu layer of 50 to (μ, σ), bnn_hmc's `mlp_regression_small`: 552 parameters at d = 8.

    Args:
        prior: default `priors.normal(1.0)`; the UCI runs use `priors.normal(variance=1 / 30)`.
        temperature: likelihood temperature.
    """
    return _published((50,), bnn.likelihoods.heteroscedastic(), prior, temperature)


def uci_mlp(*, prior: Any = None, temperature: float = 1.0) -> Any:
    """One relu layer of 50 to (μ, σ), of the 2021 NeurIPS competition: 552 parameters at d = 8.

    `mlp_regression_small` with the competition's prior.

    Args:
        prior: default `priors.normal(variance=1 / 30)` on every parameter, as there.
        temperature: likelihood temperature.
    """
    prior = bnn.priors.normal(variance=1 / 30) if prior is None else prior
    return mlp_regression_small(prior=prior, temperature=temperature)


def mlp_classification(*, classes: int = 10, prior: Any = None, temperature: float = 1.0) -> Any:
    """Two relu layers of 256, bnn_hmc's `mlp_classification`: 269 322 parameters on MNIST.

    Args:
        classes: number of labels.
        prior: default `priors.normal(1.0)` on every parameter, as there.
        temperature: likelihood temperature.
    """
    return _published((256, 256), bnn.likelihoods.categorical(classes), prior, temperature)


def _published(hidden: tuple[int, ...], likelihood: Any, prior: Any, temperature: float) -> Any:
    prior = bnn.priors.normal(1.0) if prior is None else prior
    return mlp(
        hidden=hidden,
        likelihood=likelihood,
        prior=prior,
        activation="relu",
        temperature=temperature,
    )
