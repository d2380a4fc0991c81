"""What is written down about a run, so that it can be judged and repeated."""

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from numpyro.infer.mcmc import MCMCKernel

import bayesnn_ppl
from bayesnn_ppl.core.arguments import natural
from bayesnn_ppl.core.arrays import data_hash
from bayesnn_ppl.core.identity import describe
from bayesnn_ppl.data.new_inputs import input_range, target_range
from bayesnn_ppl.inference.runtime.keep import Keep, Probe
from bayesnn_ppl.modeling.contract import ModelSummary

__all__ = ["describe_common", "kept", "kernel_settings", "made_elsewhere", "versions_here"]

_PACKAGES = ("numpyro", "jax", "jaxlib", "flax", "numpy", "xarray")


def kept(keep: Keep, probe: Probe | None) -> dict[str, Any]:
    """What is kept of the draws."""
    return {
        "keep": {
            "weights": keep.weights,
            "every": keep.every,
            "bfloat16": keep.bfloat16,
            "probe_rows": 0 if probe is None else len(probe.x),
            "probe_sha256": None if probe is None else probe.sha256(),
            **({"groups": list(keep.groups)} if keep.groups else {}),
        },
        "every": {"posterior": keep.every},
    }


def describe_common(
    model: Any,
    summary: ModelSummary,
    x: np.ndarray,
    y: np.ndarray,
    mesh: Mesh,
    *,
    arrangement: str | int,
    float64: bool,
    run: Mapping[str, Any],
) -> dict[str, Any]:
    """What is written down about a run of chains and about a fit, as JSON-ready values."""
    devices = list(mesh.devices.flat)
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions_here(),
        **run,
        "prng": str(jax.random.key_impl(jax.random.key(0))),
        "precision": "float64" if float64 else "float32",
        "matmul_precision": jax.config.jax_default_matmul_precision,
        "devices": {
            "platform": devices[0].platform,
            "kind": devices[0].device_kind,
            "mesh": dict(zip(mesh.axis_names, mesh.devices.shape, strict=True)),
            "chains_of_one_device": arrangement,
            "cores": _cores(),
        },
        "model": describe(model),
        "observed": summary.observed,
        "latents": list(summary.latents),
        "parameters": natural(summary.parameters),
        "likelihood_temperature": summary.likelihood_temperature,
        "posterior_temperature": summary.posterior_temperature,
        "local": list(summary.local),
        "weighted": summary.weighted,
        "row_terms": list(summary.row_terms),
        "rows": x.shape[0],
        "input_shape": list(x.shape[1:]),
        "input_dtype": str(x.dtype),
        "input_range": input_range(x),
        "target_range": None if summary.discrete else target_range(y),
        "data_sha256": data_hash(x, y),
    }


def kernel_settings(kernel: Any) -> dict[str, Any]:
    """The kernel's plain attributes, step size, tree depth, ..., and those of one inside it."""
    settings: dict[str, Any] = {}
    for name, value in vars(kernel).items():
        if isinstance(value, bool | int | float | str):
            settings[name.lstrip("_")] = value
        elif isinstance(value, tuple) and all(isinstance(item, int | float) for item in value):
            settings[name.lstrip("_")] = list(value)  # as JSON gives it back
        elif isinstance(value, MCMCKernel):
            settings[name.lstrip("_")] = {"kernel": type(value).__name__, **kernel_settings(value)}
    return settings | getattr(kernel, "recorded_settings", {})


def versions_here() -> dict[str, str]:
    """Package -> version, as a run is made here."""
    return {
        "bayesnn_ppl": bayesnn_ppl.__version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
    }


def _cores() -> int:
    """Cores that XLA shares the sums of large products among, whose rounding depends on it."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return int(os.environ.get("NPROC") or here or 1)


def made_elsewhere(run: Mapping[str, Any]) -> str | None:
    """What of a run's making is another here, so that its bits cannot be repeated; None if nothing.

    Gradients of 50 hidden units at 2 000 rows have other last bits with 1, 2, 4 and 8 cores.

    Args:
        run: its provenance.
    """
    before, now = run["versions"], versions_here()
    changed = [
        (f"{name} {before[name]}", f"{name} {now[name]}")
        for name in ("bayesnn_ppl", "numpyro", "jax", "jaxlib", "flax")
        if before.get(name) not in (None, now[name])
    ]
    cores = run["devices"].get("cores")  # of older runs it is not known
    if run["devices"]["platform"] == "cpu" and cores not in (None, _cores()):
        changed.append((f"{cores} processor cores", f"{_cores()} processor cores"))
    if not changed:
        return None
    old, new = (" and ".join(words) for words in zip(*changed, strict=True))
    return (
        f"The run was begun with {old}, and is resumed with {new}. New draws follow the same "
        "distribution, but differ in their last bits from those of a run that was never ended."
    )
