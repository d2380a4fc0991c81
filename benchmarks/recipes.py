"""What came of every recipe at a scale, with the published figures beside it.

    bayesnn study every-recipe --scale cpu            # hours; resumable, cell by cell
    python -m benchmarks.recipes runs/study-every-recipe-cpu [MORE ...] [--out benchmarks/results]

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
    """A table of scores, and one of the published figures."""
    lines = ["| recipe | chains x draws | verdict | scores | s |", "|---|---|---|---|---|"]
    for name, one in sorted(records.items()):
        scores = ", ".join(f"{SCORES[n]} {v:.3f}" for n, v in one["scores"].items())
        drawn = f"{one['chains']} x {one['draws']}"
        verdict, seconds = one["verdict"], f"{one['seconds']:,}".replace(",", " ")
        lines.append(f"| `{name}` | {drawn} | {verdict} | {scores} | {seconds} |")
    lines += ["", "| recipe | | published | here | what differs |", "|---|---|---|---|---|"]
    for name, one in sorted(records.items()):
        for number, figure in enumerate(one["published"]):
            error = "" if not figure["error"] else f" ± {figure['error']:g}"
            here = "-" if figure["here"] is None else f"{figure['here']:.3f}"
            what = SCORES.get(figure["metric"], figure["metric"])
            note = one["note"] if number == 0 else ""
            first = f"`{name}`" if number == 0 else ""
            lines.append(f"| {first} | {what} | {figure['published']:g}{error} | {here} | {note} |")
    return "\n".join(lines)


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


if __name__ == "__main__":
    main()
