"""What is written down about a fit."""

import dataclasses
from typing import Any

from jax.sharding import Mesh

from bayesnn_ppl.core.identity import describe
from bayesnn_ppl.inference.fitting.problem import Fitted, Problem
from bayesnn_ppl.inference.runtime.keep import Keep, Probe
from bayesnn_ppl.inference.runtime.provenance import describe_common, kept
from bayesnn_ppl.modeling.contract import inspect_model

__all__ = ["describe_fit"]


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
    described = describe_common(
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
