"""The zoo: functions that return ready models for `bayesnn_ppl.sample`.

Installed as `bayesnn_ppl.models`. It uses the library's public names only, so each file can be
copied as the start of a model of one's own.
"""

from bayesnn_ppl.models.convolutional import cifar_alexnet, lenet, medmnist_lenet
from bayesnn_ppl.models.generalised_linear import linear, logistic
from bayesnn_ppl.models.perceptron import (
    mlp,
    mlp_classification,
    mlp_regression,
    mlp_regression_small,
    uci_mlp,
)
from bayesnn_ppl.models.residual import resnet20_frn
from bayesnn_ppl.models.sequences import cnn_lstm, transformer

__all__ = [
    "cifar_alexnet",
    "cnn_lstm",
    "lenet",
    "linear",
    "logistic",
    "medmnist_lenet",
    "mlp",
    "mlp_classification",
    "mlp_regression",
    "mlp_regression_small",
    "resnet20_frn",
    "transformer",
    "uci_mlp",
]
