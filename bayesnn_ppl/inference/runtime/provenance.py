"""What is written down about a run, so that it can be judged and repeated."""

import dataclasses
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
from bayesnn_ppl.inference.contract import ModelSummary, inspect_model
from bayesnn_ppl.inference.fitting.problem import Fitted, Problem
from bayesnn_ppl.inference.kernels.common.model_kernel import has_accept_step
from bayesnn_ppl.inference.runtime.keep import Keep, Probe
from bayesnn_ppl.inference.sampling.traced_functions import Settings

__all__ = ["describe_fit", "describe_run", "kept", "made_elsewhere", "versions_here"]

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
    described = _describe(
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


def describe_fit(
    approximation: Any,
    problem: Problem,
    fitted: Fitted | None,
    *,
    keep: Keep,
    probe: Probe | None,
    standardisation: Any,
    mesh: Mesh,
    **happened: Any,
) -> dict[str, Any]:
    """The provenance of a fit, of which nothing is known yet where `fitted` is None.

    A reader finds the method where a run has its kernel, and what the method found under
    "approximation".
    """
    shape = (0, 0) if fitted is None else next(iter(fitted.positions.values())).shape[:2]
    summary = problem.summary
    model = problem.model if fitted is None else fitted.opened_with(problem)
    if model is not problem.model:
        summary = inspect_model(model, problem.x, problem.y, all_rows=False)
    described = _describe(
        model,
        summary,
        problem.x,
        problem.y,
        mesh,
        arrangement="map",
        float64=problem.float64,
        run={
            "warmup": 0,
            "draws": shape[1],
            "draws_requested": shape[1],
            "chains": shape[0],
            "thinning": 1,
            "seed": problem.seed,
            "start": "trained",
            "interrupted": fitted is not None and fitted.interrupted,
            "ended": {"by": "fit"},
            "standardisation": None if standardisation is None else standardisation.to_dict(),
            **kept(keep, probe),
            **happened,
        },
    )
    settings = {
        field.name: getattr(approximation, field.name)
        for field in dataclasses.fields(approximation)
        if field.name != "model"
    }
    found = None
    if fitted is not None:
        findings = [{"kind": f.kind, "sentence": f.sentence} for f in fitted.findings]
        found = {**fitted.record, "findings": findings}
    return described | {
        "kernel": type(approximation).__name__,
        "kernel_settings": {
            name: value if isinstance(value, bool | int | float | str) else describe(value)
            for name, value in settings.items()
            if value is not None
        },
        "approximation": found,
    }


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


def _describe(
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
        "rows": x.shape[0],
        "input_shape": list(x.shape[1:]),
        "input_dtype": str(x.dtype),
        "input_range": input_range(x),
        "target_range": None if summary.discrete else target_range(y),
        "data_sha256": data_hash(x, y),
    }


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
    """What of a run's making is another here, so that its bits cannot be had; None if nothing.

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
