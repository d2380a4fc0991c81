"""A `Calibration`, here `found`, in words: verdict, report as text and HTML, caption."""

import html
import math
import textwrap
from collections.abc import Sequence
from typing import Any

from bayesnn_ppl.calibration.judging import QuantityCalibration
from bayesnn_ppl.core.arguments import html_table
from bayesnn_ppl.diagnostics.convergence.rank_uniformity import smallest_effects

_WIDTH = 88
_MOST_NAMES = 4


def verdict(found: Any) -> str:
    """What was found, what it means, and what to do."""
    unjudged = [q for q in found.quantities if q.status == "not judged"]
    said = [_unjudged(found, unjudged)] if unjudged else []
    return " ".join([_finding(found), *said, *_remarks(found)])


def _finding(found: Any) -> str:
    judged = [q for q in found.quantities if q.test is not None]
    wrong = sorted(
        (q for q in judged if q.status != "calibrated"),
        key=lambda q: (q.density, -max(abs(q.test.z_shift), abs(q.test.z_spread))),
    )
    if not judged:
        return "No quantity could be judged."
    if not wrong:
        smallest = min(q.among for q in judged)
        shift, spread = smallest_effects(
            found.replications - found.failed, smallest, found.false_alarm / len(judged)
        )
        return (
            f"No departure from calibration in {len(judged)} quantities "
            f"({_equals(found.p_value)}). In {found.replications} replications a mean that is off "
            f"by {shift:.2f} posterior sd, or a posterior sd that is {100 * (1 - spread):.0f} % "
            "too small, would be found with probability 0.8; smaller errors may be missed."
        )
    parts = [_one(q) for q in wrong[:_MOST_NAMES]]
    rest = len(wrong) - len(parts)
    more = f"; and {rest} more" if rest else ""
    lead = {
        "too narrow": "The draws are too narrow",
        "too wide": "The draws are too wide",
        "shifted": "The draws are shifted",
    }.get(found.status, "The draws are not those of the posterior")
    return f"{lead} ({_equals(found.p_value)}). {'; '.join(parts)}{more}."


def _one(quantity: QuantityCalibration) -> str:
    """What is wrong with one quantity."""
    test, name = quantity.test, quantity.name
    assert test is not None
    if quantity.density:
        where = {
            "log likelihood": ("fit the data better", "fit the data worse"),
            "log prior": ("lie where the prior is higher", "lie where the prior is lower"),
        }.get(name, ("lie where the density is higher", "lie where the density is lower"))
        if quantity.status == "not calibrated":
            return f"`{name}` has ranks that are not uniform"
        narrow = quantity.status == "too narrow"
        return f"`{name}`: draws {where[0 if narrow else 1]} than the parameters that made the data"
    if quantity.status == "shifted":
        side = "high" if test.shift > 0 else "low"
        # Nearly all ranks the least, or the greatest: how far off is then not known.
        ends = (quantity.ranks == 0).mean(), (quantity.ranks == quantity.among).mean()
        more = " or more" if max(ends) > 0.9 else ""
        return f"`{name}` is too {side}, by {abs(test.shift):.2g} posterior sd{more}"
    if quantity.status in ("too narrow", "too wide"):
        low, high = test.spread_range
        ratio = test.spread
        times = f"{100 * ratio:.0f} %" if ratio < 10 else f"{ratio:.0f} times"
        return (
            f"`{name}` has {times} of the right sd ({low:.2f} to {high:.2f} at two standard errors)"
        )
    return f"`{name}` has ranks that are not uniform"


def _unjudged(found: Any, quantities: Sequence[QuantityCalibration]) -> str:
    names = _listing([q.name for q in quantities])
    broken = [q for q in quantities if q.failed > 0.1 * (found.replications - found.failed)]
    if broken:
        return (
            f"{_listing([q.name for q in broken])}: not finite in up to "
            f"{max(q.failed for q in broken)} replications, and not judged."
        )
    if found.record["independent"]:
        return f"{names}: there are too few draws to rank among, so they are not judged."
    smallest = max(min(q.ess_low for q in quantities), 0.1)
    factor = max(2, math.ceil(16 / smallest))
    return (
        f"{names}: not judged. In one replication of ten the draws are worth {smallest:.0f} "
        "independent ones or fewer, and slow mixing alone would make the ranks look too narrow. "
        f"Give about {factor} times as many `draws`, or as much `thinning`."
    )


def _remarks(found: Any) -> list[str]:
    record, words = found.record, []
    for key, what in (
        ("likelihood_temperature", "the likelihood"),
        ("posterior_temperature", "the whole posterior"),
    ):
        if record.get(key, 1.0) != 1.0:
            words.append(
                f"The method tempers {what}, T = {record[key]:g}: that target is another one "
                "than the posterior, by design, and calibration compares with the posterior."
            )
    if record.get("divergent_replications", 0) > 0.1 * found.replications:
        words.append(f"{record['divergent_replications']} replications have divergences.")
    if record.get("stopped_replications", 0):
        words.append(
            f"In {record['stopped_replications']} replications a chain stopped at a draw that was "
            "not finite."
        )
    if found.failed:
        words.append(f"{found.failed} of {found.replications} replications gave no draws.")
    if record.get("around_ess") is not None and record["around_ess"] < found.replications:
        words.append(
            f"The parameters around the data are worth {record['around_ess']:.0f} independent "
            f"draws, fewer than the {found.replications} replications, so p-values may be too "
            "small. Give a longer run with `around=`."
        )
    if found.interrupted:
        words.append(
            f"Interrupted: {found.replications} of {record['replications']} replications are done."
        )
    return words


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_MOST_NAMES])
    rest = len(names) - _MOST_NAMES
    return shown + (f" and {rest} more" if rest > 0 else "")


def _p(value: float) -> str:
    if math.isnan(value):
        return "-"
    if value < 1e-12:
        return "< 1e-12"
    return f"{value:.2g}" if value >= 1e-4 else f"{value:.0e}"


def _equals(value: float) -> str:
    return f"p {_p(value)}" if value < 1e-12 else f"p = {_p(value)}"


def title(found: Any) -> str:
    """The status in a line."""
    return f"Calibration: {found.status}"


def _subject(found: Any) -> str:
    record = found.record
    where = "around the data at hand" if record.get("around_data") else "from the prior"
    return f"{record['method']}, {found.replications} replications {where}"


_HEADER = ["", "status", "p", "shift", "sd ratio", "ESS", "ranks among"]


def _rows(found: Any) -> list[list[str]]:
    rows = []
    for q in found.quantities:
        shift = spread = "-"
        if q.test is not None and not q.density:
            shift, spread = f"{q.test.shift:+.2f}", f"{min(q.test.spread, 99):.2f}"
        ess = "-" if math.isnan(q.ess) else f"{q.ess:.0f}"
        rows.append([q.name, q.status, _p(q.p_value), shift, spread, ess, str(q.among or "-")])
    return rows


_NOTE = (
    "p: three tests of uniform ranks, one false-alarm budget over all quantities (Holm). shift: "
    "how far draws lie too high, in posterior sd. sd ratio: sd of the draws over the right one."
)


def text(found: Any) -> str:
    """The whole report in at most 88 columns, the verdict first."""
    rows = [_HEADER, *_rows(found)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
    widths[0] = min(widths[0], max(12, _WIDTH - 2 * len(_HEADER) - sum(widths[1:])))
    lines = [title(found), "", *textwrap.wrap(found.verdict, _WIDTH), "", _subject(found)]
    for row in rows:
        name = row[0] if len(row[0]) <= widths[0] else "…" + row[0][-(widths[0] - 1) :]
        cells = [f"{name:<{widths[0]}}", f"{row[1]:<{widths[1]}}"]
        cells += [f"{cell:>{w}}" for cell, w in zip(row[2:], widths[2:], strict=True)]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join([*lines, "", *textwrap.wrap(_NOTE, _WIDTH)])


def page(found: Any) -> str:
    """The whole report as an HTML fragment."""
    return (
        f"<p><strong>{html.escape(title(found))}</strong></p><p>{html.escape(found.verdict)}</p>"
        f"{html_table(_subject(found), _rows(found), _HEADER)}<p>{html.escape(_NOTE)}</p>"
    )


def short(quantity: QuantityCalibration) -> str:
    """Status and p-value for a panel of the figure."""
    return f"{quantity.status}, {_equals(quantity.p_value)}"


def caption(found: Any, shown: int, judged: int) -> str:
    """What the figure shows, for a reader who has nothing else."""
    which = "" if shown == judged else f" The {shown} of {judged} with the smallest p-values."
    return (
        f"{_subject(found)}.{which} Left: ranks of the true value among posterior draws; flat is "
        "right, a trough means draws too narrow, a hump too wide, a slope shifted (of log "
        "densities: ranks at 0 too narrow, at 1 too wide). Right: "
        "distribution function of the ranks minus the uniform one. Grey: what right draws stay "
        f"within, everywhere and in all panels, with probability {1 - found.false_alarm:g} or more."
    )
