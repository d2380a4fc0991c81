"""The results of a study: one table, means with standard errors, and figures."""

import io
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.experiments.running import result_file
from bayesnn_ppl.experiments.study import Study
from bayesnn_ppl.storage.files import write_bytes

__all__ = ["Point", "Results", "read_results"]

_FORMATS = ("pdf", "png")
# Names of metrics, as an axis says them.
_LABELS = {
    "nll": "NLL [nats]",
    "nll_mixture": "NLL [nats]",
    "rmse": "RMSE",
    "brier": "Brier score",
    "auroc": "AUROC",
    "ece_bnn_hmc": "ECE",
    "reference_agreement": "agreement with HMC",
    "reference_total_variation": "total variation from HMC",
}


@dataclass(frozen=True)
class Point:
    """The cells of one place of an arm, over seeds.

    Attributes:
        arm, x: which.
        mean: of the metric over the seeds that have it.
        error: standard error of that mean; NaN for a single seed.
        seeds: how many have it.
    """

    arm: str
    x: float | None
    mean: float
    error: float
    seeds: int


@dataclass(frozen=True)
class Results:
    """What is there of a study.

    Attributes:
        study: which.
        scale: of its cells.
        table: a pandas data frame, a row for each cell with a result, or as many as its protocol
            makes: `cell`, `arm`, `recipe`, `scale`, `x`, `seed`, `settings` as JSON, a column for
            each figure, and `seconds`, those of the whole cell.
        missing: cells without a result.
    """

    study: Study
    scale: str
    table: Any
    missing: int

    def points(self, metric: str) -> list[Point]:
        """Mean and standard error over seeds for each place of each arm.

        Rows of one cell at one place, such as kinds of corruption of one severity, are averaged
        first: they share a training, and are not repetitions of it.

        Raises:
            ValueError: no cell has that metric.
        """
        if metric not in self.table:
            numbers = [c for c in self.table if self.table[c].dtype.kind == "f"]
            raise ValueError(
                f"No cell of the study `{self.study.name}` has `{metric}`. They have "
                f"{', '.join(numbers) or 'nothing yet'}."
            )
        found = []
        for arm in self.study.arms:
            own = self.table[self.table["arm"] == arm.name]
            for x in own["x"].unique():
                here = own[own["x"].isna() if np.isnan(x) else own["x"] == x]
                values = here.dropna(subset=[metric]).groupby("cell")[metric].mean().to_numpy(float)
                if not values.size:
                    continue
                error = math.nan
                if values.size > 1 and np.isfinite(values).all():
                    error = float(values.std(ddof=1) / math.sqrt(values.size))
                found.append(
                    Point(
                        arm=arm.name,
                        x=None if np.isnan(x) else float(x),
                        mean=float(values.mean()),
                        error=error,
                        seeds=values.size,
                    )
                )
        return found

    def write(self, folder: Path) -> list[Path]:
        """Write `results.parquet` and a figure of each metric as PDF and PNG; returns the paths.

        Raises:
            ImportError: pyarrow is not installed.
        """
        buffer = io.BytesIO()
        self.table.to_parquet(buffer, index=False)
        paths = [folder / "results.parquet"]
        write_bytes(paths[0], buffer.getvalue())
        for metric in self.study.metrics:
            if metric in self.table and any(math.isfinite(p.mean) for p in self.points(metric)):
                figure = self.figure(metric)
                for ending in _FORMATS:
                    paths.append(folder / "figures" / f"{metric}.{ending}")
                    paths[-1].parent.mkdir(exist_ok=True)
                    picture = io.BytesIO()
                    figure.savefig(picture, format=ending)
                    write_bytes(paths[-1], picture.getvalue())
        return paths

    def figure(self, metric: str) -> Any:
        """The metric of each arm with its standard errors; see `plots.plot_study`.

        Means that are not finite, such as the NLL of a label of probability 0, cannot be drawn; the
        title says how many were left out.
        """
        from bayesnn_ppl.plots import plot_study

        curves: dict[str, list[Point]] = {}
        left_out = 0
        for point in self.points(metric):
            if math.isfinite(point.mean):
                curves.setdefault(point.arm, []).append(point)
            else:
                left_out += 1
        placed = any(point.x is not None for points in curves.values() for point in points)
        return plot_study(
            {
                arm: np.array([(math.nan if p.x is None else p.x, p.mean, p.error) for p in points])
                for arm, points in curves.items()
            },
            x_label=self.study.x if placed else "",
            y_label=_LABELS.get(metric, metric.replace("_", " ")),
            caption=f"Scale {self.scale}: {self.study.scales[self.scale]['note']}",
            title=self.study.title + (f" ({left_out} not finite, left out)" if left_out else ""),
            logarithmic=self.study.logarithmic,
        )


def read_results(study: Study, scale: str, folder: Path) -> Results:
    """The results that a study has so far.

    Args:
        study: of `load_study`.
        scale: one of `SCALES`.
        folder: of `run_study`.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    cells, missing = study.cells(scale), 0
    for cell in cells:
        path = result_file(folder, cell)
        if path.is_file():
            result = json.loads(path.read_text(encoding="utf-8"))
            rows += _rows(cell.key, result, study.metrics)
        else:
            missing += 1
    first = ["cell", "arm", "recipe", "scale", "x", "seed", "settings"]
    table = pd.DataFrame(rows, columns=None if rows else first)
    table["x"] = table["x"].astype(float)
    names = [name for name in table if name not in (*first, "seconds")]
    last = ["seconds"] if rows else []
    return Results(study, scale, table[[*first, *names, *last]], missing)


def _rows(key: str, result: Mapping[str, Any], metrics: Collection[str]) -> list[dict[str, Any]]:
    """The rows of a cell; figures named `places` are a row each, at an x of its own.

    JSON has no infinity, so a metric which is not finite was stored as null; one that a row
    does not have at all is missing.
    """
    figures = dict(result["figures"])
    rows = figures.pop("places", [{}])
    settings = dict(result["settings"])
    if result.get("protocol"):
        settings["protocol"] = result["protocol"]
    own = {name: result[name] for name in ("arm", "recipe", "scale", "x", "seed", "seconds")}
    shared = {"cell": key, **own, "settings": json.dumps(settings, sort_keys=True)}
    return [
        shared
        | {
            name: math.inf if value is None and name in metrics else _number(value)
            for name, value in {**figures, **row}.items()
        }
        for row in rows
    ]


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int | float) else value
