"""What `evaluate` and `compare` return: scores by name, and a line of them for each posterior."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.core.arguments import html_table, readable
from bayesnn_ppl.core.wording import json_text
from bayesnn_ppl.metrics.class_scores import ClassScore, class_lines

if TYPE_CHECKING:
    from pandas import DataFrame

_MEANING = {
    "rmse": "root mean squared error of the predictive mean",
    "nll_mixture": "-log density of a row, mixture over draws, nats",
    "nll_moment_matched": "-log density of a Gaussian of equal moments, nats",
    "crps": "continuous ranked probability score",
    "aurc": "risk of the most certain rows, mean over coverages",
    "excess_aurc": "aurc minus that of rows ordered by their loss",
    "accuracy": "share of right labels",
    "base_rate": "share of the most frequent label",
    "balanced_accuracy": "mean over classes of the share of right labels",
    "nll": "-log of the averaged probability, nats",
    "brier": "squared error summed over classes, 0 to 2",
    "ece_bnn_hmc": "calibration error, 20 equal-mass bins",
    "ece_tfp": "calibration error, 10 equal-width bins",
    "ece_bnn_priors": "calibration error, 30 equal-width bins",
    "entropy": "mean predictive entropy, nats",
    "mutual_information": "mean label-parameter information, nats",
    "reference_agreement": "share of rows labelled as by the reference",
    "reference_total_variation": "mean distance of class probabilities, 0 to 1",
    "reference_mean_difference": "mean |difference| of the predictive means",
    "reference_wasserstein": "mean distance of the predictive distributions",
    "auroc": "chance that an outlier scores above an inlier",
    "aupr": "average precision, positive class out",
    "fpr_at_95_tpr": "inliers called out where 95 % of outliers are",
    "mean_in": "mean score of the inliers",
    "mean_out": "mean score of the outliers",
}
# Of scores that are named by their level too.
_OF_LEVEL = {
    "coverage": "share of targets inside the central {} % interval",
    "width": "mean width of the central {} % interval",
    "conformal_coverage": "share of targets inside the conformal {} % interval",
    "conformal_width": "mean width of the conformal {} % interval",
    "set_coverage": "share of labels in the conformal {} % set",
    "set_size": "mean number of classes in the conformal {} % set",
}

_HEADINGS = {
    "nll": "NLL",
    "nll_difference": "above best",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced",
    "rmse": "RMSE",
    "crps": "CRPS",
    "aurc": "AURC",
    "agreement": "agreement",
    "total_variation": "TV",
    "wasserstein": "W1",
    "conformal_width_90": "90 % width",
    "conformal_coverage_90": "coverage",
    "set_size_90": "90 % set",
    "set_coverage_90": "coverage",
    "log_evidence": "log evidence",
    "seconds": "seconds",
    "status": "verdict",
}


@readable
@dataclass(frozen=True)
class Evaluation(Mapping[str, float]):
    """Scores by name, a read-only mapping that prints as a table.

    `task` is "regression" or "classification", `rows` the number of rows scored, `by_class` the
    recall and precision of each class, `partial` the number of rows with a censored or masked
    target.
    """

    task: str
    rows: int
    scores: Mapping[str, float]
    by_class: tuple[ClassScore, ...] = ()
    partial: int = 0

    def __getitem__(self, name: str) -> float:
        return self.scores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def __str__(self) -> str:
        values = {name: f"{value:.4f}" for name, value in self.scores.items()}
        width, value_width = max(map(len, values)), max(map(len, values.values()))
        lines = [f"{n:<{width}}  {v:>{value_width}}  {self.meaning(n)}" for n, v in values.items()]
        lines += class_lines(self.by_class) if self.by_class else []
        return "\n  ".join([self._title(), *lines])

    def _title(self) -> str:
        title = f"{self.task.capitalize()}, {self.rows} rows"
        return title if not self.partial else f"{title}, {self.partial} censored or masked"

    def _figures(self) -> dict[str, Any]:
        return {"task": self.task, "rows": self.rows, **dict(islice(self.scores.items(), 4))}

    def _repr_html_(self) -> str:
        rows = [(name, f"{value:.4f}", self.meaning(name)) for name, value in self.scores.items()]
        return html_table(self._title(), rows)

    def meaning(self, name: str) -> str:
        """What a score is, in a few words."""
        kind, _, level = name.rpartition("_")
        return _OF_LEVEL[kind].format(level) if kind in _OF_LEVEL else _MEANING[name]

    def to_dict(self) -> dict[str, Any]:
        """Task, number of rows and scores in one flat dictionary, and those of each class."""
        told: dict[str, Any] = {"task": self.task, "rows": self.rows, **self.scores}
        if self.partial:
            told["partial"] = self.partial
        if self.by_class:
            told["by_class"] = [one._asdict() for one in self.by_class]
        return told

    def to_json(self) -> str:
        """`to_dict` as JSON; a score that is not finite becomes null."""
        return json_text(self.to_dict())


@readable
@dataclass(frozen=True, eq=False)
class Comparison:
    """What `compare` returns: one line for each posterior, the best first.

    Attributes:
        task: "regression" or "classification".
        rows: on which they were scored.
        reference: the name of the one that distances are to, or None.
        lines: name -> column -> value; the columns are those that `compare` lists, and None
            means that a posterior does not have it.
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
        return json_text(self.to_dict())

    def to_dataframe(self) -> "DataFrame":
        """A row for each posterior, the best first, and the columns that one of them has."""
        import pandas as pd

        frame = pd.DataFrame.from_dict(
            {name: dict(line) for name, line in self.lines.items()}, orient="index"
        )
        return frame[self.columns].rename_axis("run")

    def __str__(self) -> str:
        columns = list(zip(*self._cells(), strict=True))
        padded = []
        for i, column in enumerate(columns):
            width, words = max(map(len, column)), i in (0, len(columns) - 1)
            padded.append([cell.ljust(width) if words else cell.rjust(width) for cell in column])
        lines = ["  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]
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
        """The header and the lines, as text; each error follows its score."""
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
