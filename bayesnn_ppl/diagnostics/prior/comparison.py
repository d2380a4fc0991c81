"""Priors side by side."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesnn_ppl.core.arguments import html_table, readable
from bayesnn_ppl.core.wording import percent
from bayesnn_ppl.diagnostics.presentation import paragraph
from bayesnn_ppl.diagnostics.prior.predictive import prior_predictive
from bayesnn_ppl.diagnostics.prior.report import PriorPredictive

__all__ = ["PriorComparison", "compare_priors"]


@readable
@dataclass(frozen=True)
class PriorComparison:
    """What several priors mean at the same inputs; `print` shows it.

    Attributes:
        results: name -> `PriorPredictive`, in the order given.
    """

    results: Mapping[str, PriorPredictive]

    @property
    def verdict(self) -> str:
        """One sentence for each prior: its status, and the figure that it rests on."""
        return " ".join(f"`{name}` is {_words(found)}." for name, found in self.results.items())

    def __str__(self) -> str:
        lines = ["Priors compared", "", *paragraph(self.verdict), ""]
        rows = self._rows()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        for first, *rest in rows:
            cells = [f"{text:>{width}}" for text, width in zip(rest, widths[1:], strict=True)]
            lines.append("  ".join([f"  {first:<{widths[0]}}", *cells]).rstrip())
        return "\n".join(lines)

    def _rows(self) -> list[list[str]]:
        """The header, and a line for each figure that one prior at least has."""
        lines = [[label, *map(cell, self.results.values())] for label, cell in _ROWS.items()]
        return [["", *self.results], *(line for line in lines if {*line[1:]} != {"-"})]

    def _repr_html_(self) -> str:
        header, *rows = self._rows()
        return html_table("Priors compared", rows, header)

    def _figures(self) -> dict[str, Any]:
        return {name: found.status for name, found in self.results.items()}

    def to_dict(self) -> dict[str, Any]:
        """The verdict, and each prior's figures by its name."""
        results = {name: found.to_dict() for name, found in self.results.items()}
        return {"verdict": self.verdict, "results": results}


def compare_priors(
    models: Mapping[str, Any], x: ArrayLike, *, draws: int = 200, seed: int = 0
) -> PriorComparison:
    """Several models at the same inputs, to see what their priors mean.

    Args:
        models: name -> model, such as one network under two priors.
        x, draws, seed: see `prior_predictive`.

    Raises:
        TypeError, ValueError: no models, or as `prior_predictive`.

    Example:
        >>> import bayesnn_ppl as bnn, numpy as np
        >>> x = np.random.default_rng(0).normal(size=(20, 3))
        >>> both = bnn.diagnostics.compare_priors({
        ...     "unit": bnn.models.mlp(prior=bnn.priors.normal()),
        ...     "fan-in": bnn.models.mlp()}, x, draws=4)
    """
    if not isinstance(models, Mapping) or not models:
        raise TypeError(
            "`models` must be a mapping {name: model} with at least one model, not "
            f"{models!r}. A single model is for `prior_predictive`."
        )
    return PriorComparison(
        {
            str(name): prior_predictive(model, x, draws=draws, seed=seed)
            for name, model in models.items()
        }
    )


def _words(found: PriorPredictive) -> str:
    if found.classes is not None:
        share = percent(float(np.median(found.classes.largest)))
        return f"{found.status}: the median draw puts {share} of the inputs in one class"
    if found.scale is not None:
        share = percent(found.scale.constant_share)
        return f"{found.status}: {share} of the variance is a constant for each draw"
    return found.status


def _largest(found: PriorPredictive) -> str:
    return "-" if found.classes is None else percent(float(np.median(found.classes.largest)))


def _scale(field: str) -> Callable[[PriorPredictive], str]:
    def cell(found: PriorPredictive) -> str:
        return "-" if found.scale is None else f"{getattr(found.scale, field):.3g}"

    return cell


def _length(field: str) -> Callable[[PriorPredictive], str]:
    def cell(found: PriorPredictive) -> str:
        return "-" if found.length is None else f"{getattr(found.length, field):.3g}"

    return cell


def _worst(field: str) -> Callable[[PriorPredictive], str]:
    def cell(found: PriorPredictive) -> str:
        given = [v for layer in found.layers if (v := getattr(layer, field)) is not None]
        given = [v for v in given if math.isfinite(v)]
        return percent(max(given)) if given else "-"

    return cell


_ROWS: dict[str, Callable[[PriorPredictive], str]] = {
    "status": lambda found: found.status,
    "inputs in the largest class": _largest,
    "probability of the predicted class": lambda found: (
        "-" if found.classes is None else f"{found.classes.confidence:.2g}"
    ),
    "sd of the outputs": _scale("sd"),
    "  constants": _scale("offset_sd"),
    "  changes with the input": _scale("change_sd"),
    "noise sd": lambda found: "-" if found.noise_sd is None else f"{found.noise_sd:.3g}",
    "length-scale": _length("value"),
    "crossings between two inputs": _length("crossings"),
    "saturated tanh units, worst layer": _worst("saturated"),
    "dead relu units, worst layer": _worst("dead"),
    "inputs in common, worst layer": _worst("common"),
    "draws not finite": lambda found: str(found.broken) if found.broken else "-",
}
