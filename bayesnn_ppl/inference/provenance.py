"""What is written down about a run, so that it can be judged and repeated."""

import importlib.metadata
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import jax
import numpy as np
from numpyro.infer.mcmc import MCMCKernel

import bayesnn_ppl
from bayesnn_ppl.arrays import data_hash
from bayesnn_ppl.identity import describe
from bayesnn_ppl.inference.contract import ModelSummary
from bayesnn_ppl.inference.traced import Settings

__all__ = ["describe_run"]

_PACKAGES = ("numpyro", "jax", "jaxlib", "flax", "numpy", "xarray")


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
    model = kernel.model
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    devices = list(settings.mesh.devices.flat)
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "bayesnn_ppl": bayesnn_ppl.__version__,
            "python": platform.python_version(),
            **versions,
        },
        **run,
        "prng": str(jax.random.key_impl(jax.random.key(0))),
        "precision": "float64" if settings.float64 else "float32",
        "matmul_precision": jax.config.jax_default_matmul_precision,
        "devices": {
            "platform": devices[0].platform,
            "kind": devices[0].device_kind,
            "mesh": dict(zip(settings.mesh.axis_names, settings.mesh.devices.shape, strict=True)),
            "chains_of_one_device": settings.arrangement,
        },
        "kernel": type(kernel).__name__,
        "kernel_settings": _kernel_settings(kernel),
        "model": describe(model),
        "observed": summary.observed,
        "latents": list(summary.latents),
        "parameters": sorted(summary.parameters),
        "likelihood_temperature": summary.likelihood_temperature,
        "posterior_temperature": summary.posterior_temperature,
        "local": list(summary.local),
        "rows": x.shape[0],
        "input_shape": list(x.shape[1:]),
        "data_sha256": data_hash(x, y),
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
