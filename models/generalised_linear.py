"""Linear and logistic regression, as networks without a hidden layer."""

from typing import Any

import bayesnn_ppl as bnn


def linear(*, likelihood: Any = None, prior: Any = None, temperature: float = 1.0) -> Any:
    """Bayesian linear regression: y ~ N(wᵀx + b, σ²).

    With a fixed noise scale and a normal prior its posterior is known in closed form, which makes
    it the first model to try a sampler on.

    Args:
        likelihood: default `likelihoods.gaussian()`, with a learned noise scale.
        prior: default `priors.normal(1.0)`.
        temperature: likelihood temperature.
    """
    likelihood = bnn.likelihoods.gaussian() if likelihood is None else likelihood
    return bnn.bayesian_network(
        bnn.nn.MLP((), outputs=getattr(likelihood, "outputs", None)),
        bnn.priors.normal(1.0) if prior is None else prior,
        likelihood,
        temperature=temperature,
    )


def logistic(*, classes: int = 2, prior: Any = None, temperature: float = 1.0) -> Any:
    """Bayesian multinomial logistic regression: y ~ Categorical(softmax(Wᵀx + b)).

    7 850 parameters on MNIST (784 inputs, 10 classes).

    Args:
        classes: number of labels.
        prior: default `priors.normal(1.0)`.
        temperature: likelihood temperature.
    """
    return bnn.bayesian_network(
        bnn.nn.MLP((), outputs=classes),
        bnn.priors.normal(1.0) if prior is None else prior,
        bnn.likelihoods.categorical(classes),
        temperature=temperature,
    )
