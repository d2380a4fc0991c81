"""The table of conformal intervals: how many targets are inside."""

from collections.abc import Mapping
from typing import Any

from benchmarks.harness.tables import markdown


def conformal_coverage(content: Mapping[str, Any]) -> str:
    """Per cent of targets inside 90 % intervals, and the width of some."""
    kinds = ("own", "quantile", "residual", "scaled residual")
    header = ["Set", "Noise", "own", "`Quantile()`", "`Residual()`", "`Residual(scaled=True)`"]
    rows = [
        [name, model.removeprefix("noise ")]
        + [f"{100 * shares[kind]['coverage']:.1f}" for kind in kinds]
        + [f"{shares[kind]['width']:.3g}" for kind in kinds[:2]]
        for name, models in content["summary"].items()
        for model, shares in models.items()
    ]
    return markdown([*header, "width, own", "width, `Quantile()`"], rows)
