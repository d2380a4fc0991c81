"""The results of every recipe at a scale, with the published figures.

    bayesnn study every-recipe --scale cpu            # hours; resumable, cell by cell
    python -m benchmarks recipes runs/study-every-recipe-cpu [MORE ...] [--out benchmarks/results]

Reads the finished cells of studies whose arms are recipes, adds them to `recipes-SCALE.json`, and
prints that as Markdown. A recipe that is there already is replaced.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import markdown

SCORES = {
    "accuracy": "accuracy",
    "rmse": "RMSE",
    "nll": "NLL",
    "nll_mixture": "NLL",
    "reference_agreement": "agreement",
    "reference_total_variation": "total variation",
}


def finished(folder: Path) -> Iterator[dict[str, Any]]:
    """A record of each cell with a result."""
    for path in sorted(folder.glob("cells/*/result.json")):
        cell = json.loads(path.read_text())
        recipe = json.loads((path.parent / "run" / "recipe.json").read_text())
        figures = cell["figures"]
        yield {
            "recipe": cell["recipe"],
            "scale": cell["scale"],
            "seed": cell["seed"],
            "settings": {k: v for k, v in cell["settings"].items() if k != "seed"},
            "seconds": round(cell["seconds"]),
            "data": recipe["data"],
            "note": recipe["note"],
            "rows": figures["rows"],
            "verdict": figures["verdict"],
            "chains": figures["chains"],
            "draws": figures["draws"],
            "scores": {name: figures[name] for name in SCORES if name in figures},
            "published": recipe["published"],
        }


def table(records: dict[str, Any]) -> str:
    """One row a recipe: its result, the published figures in parentheses, what differs."""
    lines = []
    for name, one in sorted(records.items()):
        published = {figure["metric"]: figure for figure in one["published"]}
        scores = ", ".join(
            f"{SCORES[metric]} {_score(one['scores'].get(metric), published.get(metric))}"
            for metric in SCORES
            if metric in one["scores"] or metric in published
        )
        row = (
            f"`{name}`",
            one["data"],
            f"{one['chains']} x {one['draws']}",
            one["verdict"],
            scores,
            f"{one['seconds']:,}".replace(",", " "),
            one["note"],
        )
        lines.append(row)
    header = "recipe, data, chains x draws, verdict, scores (published), s, what differs"
    return markdown(header.split(", "), lines)


def _score(here: float | None, published: dict[str, Any] | None) -> str:
    """The figure, and the published one, in whose units it is repeated where they differ."""
    figure = "-" if here is None else f"{here:.3f}"
    if published is None:
        return figure
    error = f" ± {published['error']:g}" if published["error"] else ""
    in_its_units = published["here"]
    if here is not None and in_its_units is not None and abs(in_its_units - here) > 1e-6:
        figure += f", in units of the standardised target {in_its_units:.3f}"
    return f"{figure} ({published['published']:g}{error})"


def main(*folders: Path, scale: str = "cpu", out: Path = RESULTS) -> None:
    """Add what is finished, and print everything.

    Args:
        folders: of studies.
    """
    record = Record(out / f"recipes-{scale}.json")
    for folder in folders:
        for cell in finished(folder):
            if cell["scale"] == scale:
                record[cell["recipe"]] = cell
    print(table(record.rows))
    hours = sum(one["seconds"] for one in record.rows.values()) / 3600
    print(f"\n{len(record.rows)} recipes, {hours:.1f} hours.")
