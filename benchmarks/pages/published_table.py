"""The table of bde's published figures: measured here and as published, side by side."""

from collections.abc import Callable
from statistics import mean, stdev
from typing import Any

from benchmarks.harness.tables import markdown

NAMES = {
    "linear": "least squares",
    "catboost": "CatBoost",
    "ensemble": "deep ensemble",
    "longer_ensemble": "deep ensemble, trained longer",
    "tabpfn": "TabPFN v2",
    "bde": "bde",
    "mile": "`mile`",
    "longer_mile": "`mile`, ten times the steps of sampling",
}


def published_table(content: dict[str, Any]) -> str:
    """One line for each set and contender; scores over seeds with their standard deviation.

    Args:
        content: the record of `python -m benchmarks published_tables`.
    """
    lines = []
    for name, published in content["published"].items():
        for contender, shown in NAMES.items():
            rows = [
                row
                for row in content["rows"]
                if (row["data"], row["rows"], row["contender"]) == (name, "test", contender)
            ]
            theirs = published.get(contender)
            if rows or theirs is not None:
                figures = _of_seeds(rows) + _as_published(theirs or {})
                lines.append([f"{name}, {shown}", *figures])
    heads = [
        "set, contender", "seeds", "RMSE", "NLL", "NLL of the mixture", "seconds (compilation)",
        "CPU seconds", "published RMSE", "NLL", "seconds, ten cores",
    ]  # fmt: skip
    return markdown(heads, lines)


def _of_seeds(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return ["none", "", "", "", "", ""]
    found = {name: [row[name] for row in rows if row.get(name) is not None] for name in _SHOWN}
    seconds = _time(mean(found["seconds"])) if found["seconds"] else ""
    if found["compile"]:
        seconds += f" ({_time(mean(found['compile']))})"
    cores = _time(mean(found["cpu_seconds"])) if found["cpu_seconds"] else ""
    scores = [_spread(found[name]) for name in ("rmse", "nll", "nll_mixture")]
    return [", ".join(str(row["seed"]) for row in rows), *scores, seconds, cores]


def _as_published(one: dict[str, Any]) -> list[str]:
    shown: list[tuple[str, Callable[[float], str]]] = [
        ("rmse", "{:.4f}".format),
        ("nll", "{:.4f}".format),
        ("seconds", _time),
    ]
    return ["" if one.get(name) is None else text(one[name]) for name, text in shown]


def _time(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds < 10 else f"{seconds:.0f}"


def _spread(values: list[float]) -> str:
    if not values:
        return ""
    spread = f" ± {stdev(values):.4f}" if len(values) > 1 else ""
    return f"{mean(values):.4f}{spread}"


_SHOWN = ("rmse", "nll", "nll_mixture", "seconds", "compile", "cpu_seconds")
