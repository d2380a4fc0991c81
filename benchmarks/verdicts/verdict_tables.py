"""The tables of error rates, in Markdown."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.harness.tables import markdown

__all__ = ["AMPLE", "Rates", "rates", "tables"]

type Row = Mapping[str, Any]

AMPLE = 4  # times the draws needed
_TITLES = {
    "seen": "Four chains or more, which together have been in every mode",
    "biased": "Kernels whose spreads are off by 5 to 20 %",
    "few": "Fewer than four chains, or starts closer together than draws",
    "unseen": "Modes that no chain has been in",
    "fitted": "Approximations",
}


class Rates(NamedTuple):
    """Runs of one row and group.

    Attributes:
        runs, wrong: how many there are, and how many of them are wrong.
        false: called converged though wrong.
        called: called converged, right or wrong.
        withheld: right, and not called converged.
    """

    runs: int
    wrong: int
    false: int
    called: int
    withheld: int


def rates(row: Row, group: str) -> Rates:
    """Of a row's runs of one group."""
    counts = row["counts"].get(group, {})
    right, wrong = (sum(pair[truth] for pair in counts.values()) for truth in (0, 1))
    passed, false = counts.get("converged", (0, 0))
    return Rates(right + wrong, wrong, false, passed + false, right - passed)


def interval(count: int, total: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a share."""
    from scipy.stats import beta

    low = float(beta.ppf(0.025, count, total - count + 1)) if count else 0.0
    high = float(beta.ppf(0.975, count + 1, total - count)) if count < total else 1.0
    return low, high


def _share(count: int, total: int) -> str:
    if not total:
        return ""
    low, high = interval(count, total)
    return f"{_percent(count / total)} ({_percent(low)}–{_percent(high)})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if 0 < share < 0.0995 else f"{100 * share:.0f}"


def tables(rows: Mapping[str, Row], before: Mapping[str, Row] | None = None) -> str:
    """One table for each group, and one of what is withheld with enough draws.

    Args:
        rows: row name -> counts.
        before: the same of an older verdict, for a column of its false "converged".
    """
    before = before or {}
    parts = []
    for group, title in _TITLES.items():
        chosen = {name: row for name, row in rows.items() if rates(row, group).runs}
        if chosen:
            parts.append(f"### {title}\n\n{_of_group(chosen, group, before)}")
    parts.append(f"### Withheld though right, with four times the draws needed\n\n{_ample(rows)}")
    return "\n\n".join(parts) + "\n"


def _of_group(rows: Mapping[str, Row], group: str, before: Mapping[str, Row]) -> str:
    heads = ["Situation", "Chains × draws", "Runs", "Wrong", 'False "converged", %']
    few = group == "few"
    last = '"Converged", %' if few else "Withheld though right, %"
    heads += ["Before, %", last] if before else [last]
    lines = []
    for name, row in rows.items():
        found = rates(row, group)
        cells = [
            name,
            f"{row['chains']} × {row['draws']}",
            found.runs,
            found.wrong,
            _share(found.false, found.runs),
        ]
        if before:
            old = rates(before[name], group) if name in before else None
            cells.append(_percent(old.false / old.runs) if old and old.runs else "")
        right = found.runs - found.wrong
        cells.append(_share(found.called, found.runs) if few else _share(found.withheld, right))
        lines.append(cells)
    return markdown(heads, lines)


def _ample(rows: Mapping[str, Row]) -> str:
    heads = ["Situation", "Draws needed", "Draws", "Right", "Withheld, %", "By"]
    lines = []
    for name, row in rows.items():
        needed = row.get("draws_needed")
        found = rates(row, "seen")
        right = found.runs - found.wrong
        if needed is None or row["draws"] < AMPLE * needed or not right:
            continue
        by = ", ".join(f"{part} {count}" for part, count in row.get("withheld_by", {}).items())
        short = name.removesuffix(", ample")
        lines.append([short, needed, row["draws"], right, _share(found.withheld, right), by])
    return markdown(heads, lines)
