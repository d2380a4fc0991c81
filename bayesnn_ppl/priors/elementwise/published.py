"""The priors of published systems, under their names."""

import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import positive
from bayesnn_ppl.priors.common.base import ParameterPrior
from bayesnn_ppl.priors.elementwise.fan_in import he_normal
from bayesnn_ppl.priors.elementwise.iid import normal


def bnn_hmc(weight_decay: float) -> ParameterPrior:
    """bnn_hmc's prior: N(0, 1/weight_decay) on every parameter, biases and norms included.

    Args:
        weight_decay: its flag of that name: 5 for CIFAR-10, 40 for IMDB.

    Raises:
        TypeError, ValueError: not a positive, finite number.

    References:
        Izmailov et al. (2021), arXiv:2104.14421, and its code.
    """
    return normal(variance=1 / positive(weight_decay, "The weight_decay"))


def cold_posterior_bnn(factory: str = "default") -> ParameterPrior:
    """The priors of cold_posterior_bnn, by the name of its prior factory.

    "default": kernels N(0, 2/fan-in), embeddings N(0, 0.5²), and Cauchy(0, 1) for biases and the
    gains, shifts and thresholds of filter response norms. Keras's LSTM has two kernels, of the
    inputs and of the state, each with its own fan-in; `nn.LSTM` has one, with the sum of both.
    "gaussian": N(0, 1) on every parameter.

    Raises:
        ValueError: another name.

    References:
        Wenzel et al. (2020), arXiv:2002.02405; `core/priorfactory.py` of its code.
    """
    if factory == "gaussian":
        return normal(1.0)
    if factory != "default":
        raise ValueError(f'The factory must be "default" or "gaussian", not {factory!r}.')
    return _default


def _default(name: str, shape: tuple[int, ...]) -> dist.Distribution:
    if name.rsplit(".", 1)[-1] == "embedding":
        return dist.Normal(0.0, 0.5)
    return dist.Cauchy(0.0, 1.0) if len(shape) < 2 else he_normal()(name, shape)
