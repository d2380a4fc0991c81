"""What came of every recipe at a scale, with the published figures beside it.

    bayesnn study every-recipe --scale cpu            # hours; resumable, cell by cell
    python -m benchmarks recipes runs/study-every-recipe-cpu [MORE ...] [--out benchmarks/results]

Reads the finished cells of studies whose arms are recipes, adds them to `recipes-SCALE.json`, and
prints that as Markdown. A recipe that is there already is replaced.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def markdown(records: dict[str, Any]) -> str:
    """One row a recipe: what came of it, the published figures in parentheses, what differs."""
    lines = [
        "| recipe | data | chains x draws | verdict | scores (published) | s | what differs |",
        "|---|---|---|---|---|---|---|",
    ]
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
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


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


def main() -> None:
    """Add what is finished, and print everything."""
    parser = argparse.ArgumentParser(description="The recipes' results, recorded.")
    parser.add_argument("folders", nargs="*", type=Path, help="of studies")
    parser.add_argument("--scale", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    path = options.out / f"recipes-{options.scale}.json"
    records = json.loads(path.read_text()) if path.exists() else {}
    for folder in options.folders:
        for record in finished(folder):
            if record["scale"] == options.scale:
                records[record["recipe"]] = record
    path.write_text(json.dumps(dict(sorted(records.items())), indent=1) + "\n")
    print(markdown(records))
    hours = sum(one["seconds"] for one in records.values()) / 3600
    print(f"\n{len(records)} recipes, {hours:.1f} hours.")
