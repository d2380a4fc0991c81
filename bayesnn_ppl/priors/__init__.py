"""Priors over network parameters.

A prior is a Distribution; a function `(name, shape) -> Distribution`, called once per parameter,
which may itself call `numpyro.sample`; a table of name patterns; or a `NetworkPrior`.
"""

from bayesnn_ppl.priors.base import NetworkPrior, Prior
from bayesnn_ppl.priors.fan_in import fan_in_normal
from bayesnn_ppl.priors.iid import normal
from bayesnn_ppl.priors.patterns import by_name

__all__ = ["NetworkPrior", "Prior", "by_name", "fan_in_normal", "normal"]
