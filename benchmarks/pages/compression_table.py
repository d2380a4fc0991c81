"""The table of compressed posteriors: what 20 draws lose, by how they are chosen."""

from typing import Any

from benchmarks.harness.tables import markdown

WAYS = ("random", "even", "predictive", "herding", "greedy", "support points")
DRAWS = 20


def compression(content: dict[str, Any]) -> str:
    """One line for each posterior.

    Args:
        content: the record of `python -m benchmarks compression`.
    """
    rows = {(row["posterior"], row["k"], row["way"]): row for row in content["rows"]}
    lines = []
    for name in dict.fromkeys(row["posterior"] for row in content["rows"]):
        found = {way: rows[name, DRAWS, way] for way in WAYS}
        lines.append([f"`{name}`", *(f"{found[way]['tv']:.4f}" for way in WAYS)])
        lines[-1] += [f"{found[way]['nll']:+.3f}" for way in ("random", "support points")]
    heads = ["posterior", *WAYS, "NLL lost: random", "support points"]
    return markdown(heads, lines)
