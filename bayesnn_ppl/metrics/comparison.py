"""The table of several posteriors scored on the same rows."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.core.arguments import html_table, readable

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Comparison"]

_HEADINGS = {
    "nll": "NLL",
    "nll_difference": "above best",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced",
    "rmse": "RMSE",
    "crps": "CRPS",
    "agreement": "agreement",
    "total_variation": "TV",
    "wasserstein": "W1",
    "log_evidence": "log evidence",
    "seconds": "seconds",
    "status": "verdict",
}


@readable
@dataclass(frozen=True, eq=False)
class Comparison:
    """What `compare` returns: one line for each posterior, the best first.

    Attributes:
        task: "regression" or "classification".
        rows: on which they were scored.
        reference: the name of the one that distances are to, or None.
        lines: name -> column -> value; the columns are those that `compare` lists, and None
            stands for what a posterior does not have.
        log_scores: name -> log score of each row, (rows,).
    """

    task: str
    rows: int
    reference: str | None
    lines: Mapping[str, Mapping[str, Any]]
    log_scores: Mapping[str, NDArray[np.float64]]

    @property
    def columns(self) -> list[str]:
        """The columns that one posterior at least has a value in."""
        names = next(iter(self.lines.values()))
        return [n for n in names if any(line[n] is not None for line in self.lines.values())]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the log scores, as plain dictionaries."""
        lines = {name: dict(line) for name, line in self.lines.items()}
        return {"task": self.task, "rows": self.rows, "reference": self.reference, "runs": lines}

    def to_json(self) -> str:
        """`to_dict` as JSON; a number that is not finite becomes null."""
        told = self.to_dict()
        for line in told["runs"].values():
            for name, value in line.items():
                if isinstance(value, float) and not math.isfinite(value):
                    line[name] = None
        return json.dumps(told, indent=2, allow_nan=False, ensure_ascii=False)

    def to_dataframe(self) -> "DataFrame":
        """A row for each posterior, the best first, and the columns that one of them has."""
        import pandas as pd

        frame = pd.DataFrame.from_dict(
            {name: dict(line) for name, line in self.lines.items()}, orient="index"
        )
        return frame[self.columns].rename_axis("run")

    def __str__(self) -> str:
        header, *body = self._cells()
        widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
        last = len(header) - 1
        lines = [
            "  ".join(
                cell.ljust(width) if i in (0, last) else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ).rstrip()
            for cells in (header, *body)
        ]
        return "\n".join([self._title(), "", *lines])

    def _repr_html_(self) -> str:
        header, *body = self._cells()
        return html_table(self._title(), body, header)

    def _figures(self) -> dict[str, Any]:
        nll = {name: line["nll"] for name, line in self.lines.items()}
        return {"task": self.task, "rows": self.rows, "nll": nll}

    def _title(self) -> str:
        words = f"{self.task.capitalize()}, {self.rows} rows; NLL in nats ± its standard error"
        return words + (f"; distances to {self.reference}" if self.reference else "")

    def _cells(self) -> list[list[str]]:
        """The header and the lines, as text; errors stand beside what they belong to."""
        shown = [n for n in self.columns if not n.endswith("_se") and n != "method"]
        header = ["", *(_HEADINGS.get(n, n.replace("_", " ").replace("ece", "ECE")) for n in shown)]
        return [header] + [
            [name, *(_cell(line, column) for column in shown)] for name, line in self.lines.items()
        ]


def _cell(line: Mapping[str, Any], column: str) -> str:
    value, error = line[column], line.get(f"{column}_se")
    if value is None or isinstance(value, str):
        return value or ""
    if column == "seconds":
        return f"{value:.1f}"
    if column == "log_evidence":
        return f"{value:.2f}"
    return f"{value:.4g}" if error is None else f"{value:.4f} ± {error:.4f}"
