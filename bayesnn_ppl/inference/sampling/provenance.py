"""What is written down about a run of chains."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpyro.infer.mcmc import MCMCKernel

from bayesnn_ppl.inference.contract import ModelSummary
from bayesnn_ppl.inference.kernels.common.model_kernel import has_accept_step
from bayesnn_ppl.inference.runtime.provenance import describe_common
from bayesnn_ppl.inference.sampling.traced_functions import Settings

__all__ = ["describe_run"]


def describe_run(
    settings: Settings,
    summary: ModelSummary,
    x: np.ndarray,
    y: np.ndarray,
    *,
    run: Mapping[str, Any],
) -> dict[str, Any]:
    """The provenance of a run, as JSON-ready values."""
    kernel = settings.kernel
    described = describe_common(
        kernel.model,
        summary,
        x,
        y,
        settings.mesh,
        arrangement=settings.arrangement,
        float64=settings.float64,
        run=run,
    )
    return described | {
        "kernel": type(kernel).__name__,
        "kernel_settings": _kernel_settings(kernel),
        "accept_step": has_accept_step(kernel),
    }


def _kernel_settings(kernel: Any) -> dict[str, Any]:
    """The kernel's plain attributes, step size, tree depth, ..., and those of one inside it."""
    settings: dict[str, Any] = {}
    for name, value in vars(kernel).items():
        if isinstance(value, bool | int | float | str):
            settings[name.lstrip("_")] = value
        elif isinstance(value, tuple) and all(isinstance(item, int | float) for item in value):
            settings[name.lstrip("_")] = list(value)  # as JSON gives it back
        elif isinstance(value, MCMCKernel):
            settings[name.lstrip("_")] = {"kernel": type(value).__name__, **_kernel_settings(value)}
    return settings | getattr(kernel, "recorded_settings", {})
