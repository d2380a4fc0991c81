"""The zoo: ready programs, each a function that returns a model for `bayesnn_ppl.sample`.

Installed as `bayesnn_ppl.models`. It uses the library's public names only, so each file can be
copied as the start of a program of one's own.
"""

from bayesnn_ppl.models.generalised_linear import linear, logistic
from bayesnn_ppl.models.perceptron import (
    mlp,
    mlp_classification,
    mlp_regression,
    mlp_regression_small,
)

__all__ = [
    "linear",
    "logistic",
    "mlp",
    "mlp_classification",
    "mlp_regression",
    "mlp_regression_small",
]
