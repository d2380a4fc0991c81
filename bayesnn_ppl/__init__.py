"""Bayesian neural networks as NumPyro models.

A Bayesian neural network is a plain NumPyro model; every inference method takes any NumPyro
model; every result is one `Posterior`. Four verbs: `sample`, `fit`, `predict`, `diagnose`.

The names below are imported when they are first used, so that `import bayesnn_ppl` (and with
it `bayesnn --help`) costs next to nothing.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from bayesnn_ppl.core.compilation_cache import keep_compiled_programs

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bayesnn_ppl import (
        conformal,
        data,
        diagnostics,
        distributed,
        likelihoods,
        metrics,
        models,
        nn,
        plots,
        priors,
        references,
        report,
        sklearn,
    )
    from bayesnn_ppl.calibration import Calibration, calibrate
    from bayesnn_ppl.core.mesh import device_mesh
    from bayesnn_ppl.inference import (
        approximations,
        kernels,
        schedules,
    )
    from bayesnn_ppl.inference.fitting.fitter import fit
    from bayesnn_ppl.inference.kernels.stochastic_gradient import (
        gradient_estimators as gradients,
    )
    from bayesnn_ppl.inference.kernels.stochastic_gradient import (
        preconditioners,
    )
    from bayesnn_ppl.inference.microcanonical_ensembles import mile
    from bayesnn_ppl.inference.resuming import extend, resume
    from bayesnn_ppl.inference.runtime.keep import Keep
    from bayesnn_ppl.inference.sampling.run import Progress
    from bayesnn_ppl.inference.sampling.sampler import sample
    from bayesnn_ppl.inference.sampling.tensorboard import TensorBoard
    from bayesnn_ppl.inference.step_size_search.search import find_step_size
    from bayesnn_ppl.likelihoods import augmentations
    from bayesnn_ppl.modeling.bayesian_networks import bayesian_network, minibatch
    from bayesnn_ppl.modeling.random_networks import random_network
    from bayesnn_ppl.modeling.temperature import cold, tempered
    from bayesnn_ppl.modeling.training_noise import training_key
    from bayesnn_ppl.posterior.posterior import Posterior, Prediction, load

_FUNCTIONS = {
    "bayesian_network": "modeling.bayesian_networks",
    "cold": "modeling.temperature",
    "minibatch": "modeling.bayesian_networks",
    "random_network": "modeling.random_networks",
    "tempered": "modeling.temperature",
    "training_key": "modeling.training_noise",
    "device_mesh": "core.mesh",
    "Posterior": "posterior.posterior",
    "Prediction": "posterior.prediction",
    "load": "posterior.posterior",
    "Keep": "inference.runtime.keep",
    "Progress": "inference.sampling.run",
    "TensorBoard": "inference.sampling.tensorboard",
    "extend": "inference.resuming",
    "find_step_size": "inference.step_size_search.search",
    "fit": "inference.fitting.fitter",
    "mile": "inference.microcanonical_ensembles",
    "resume": "inference.resuming",
    "sample": "inference.sampling.sampler",
    "Calibration": "calibration",
    "calibrate": "calibration",
}
_MODULES = {
    "approximations": "inference.approximations",
    "augmentations": "likelihoods.augmentations",
    "conformal": "conformal",
    "data": "data",
    "diagnostics": "diagnostics",
    "distributed": "distributed",
    "gradients": "inference.kernels.stochastic_gradient.gradient_estimators",
    "kernels": "inference.kernels",
    "likelihoods": "likelihoods",
    "metrics": "metrics",
    "models": "models",
    "nn": "nn",
    "plots": "plots",
    "preconditioners": "inference.kernels.stochastic_gradient.preconditioners",
    "priors": "priors",
    "references": "references",
    "report": "report",
    "schedules": "inference.schedules",
    "sklearn": "sklearn",
}

__all__ = [
    "Calibration",
    "Keep",
    "Posterior",
    "Prediction",
    "Progress",
    "TensorBoard",
    "approximations",
    "augmentations",
    "bayesian_network",
    "calibrate",
    "cold",
    "conformal",
    "data",
    "device_mesh",
    "diagnostics",
    "distributed",
    "extend",
    "find_step_size",
    "fit",
    "gradients",
    "kernels",
    "likelihoods",
    "load",
    "metrics",
    "mile",
    "minibatch",
    "models",
    "nn",
    "plots",
    "preconditioners",
    "priors",
    "random_network",
    "references",
    "report",
    "resume",
    "sample",
    "schedules",
    "sklearn",
    "tempered",
    "training_key",
]


if "ipykernel" in sys.modules:  # a notebook compiles the same programs each time it is opened
    keep_compiled_programs()


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        value = getattr(importlib.import_module(f"{__name__}.{_FUNCTIONS[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
