"""A diagnosis as text, HTML, rows of a data frame and JSON-ready values."""

import html
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bayesnn_ppl.core.arguments import html_table

if TYPE_CHECKING:
    from bayesnn_ppl.diagnostics.diagnosis.diagnosis import Diagnosis

_WIDTH = 88


def text(diagnosis: "Diagnosis") -> str:
    """The whole diagnosis in at most 88 columns."""
    lines = [_title(diagnosis), "", *judgement_lines(diagnosis), ""]
    lines += textwrap.wrap(diagnosis.verdict, _WIDTH)
    for heading, header, rows in _tables(diagnosis):
        lines += ["", heading, *_aligned(header, rows)]
    lines += ["", "Sampler"]
    pairs = [*sampler_lines(diagnosis.sampler), *_other_lines(diagnosis)]
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        lines += textwrap.wrap(
            f"  {name:<{width}}  {value}", _WIDTH, subsequent_indent=" " * (width + 4)
        )
    return "\n".join(lines)


def page(diagnosis: "Diagnosis") -> str:
    """The whole diagnosis as an HTML fragment."""
    judged = [(j.name, f"{j.status}: {j.figure}") for j in diagnosis.judgements]
    parts = [
        f"<p><strong>{html.escape(_title(diagnosis))}</strong></p>",
        html_table("What was judged", judged),
        f"<p>{html.escape(diagnosis.verdict)}</p>",
    ]
    for heading, header, rows in _tables(diagnosis):
        parts.append(html_table(heading, rows, header))
    pairs = [*sampler_lines(diagnosis.sampler), *_other_lines(diagnosis)]
    parts.append(html_table("Sampler", pairs))
    return "\n".join(parts)


def judgement_lines(diagnosis: "Diagnosis") -> list[str]:
    """The four judgements, each with its status and what it rests on."""
    lines = []
    width = max(len(judgement.status) for judgement in diagnosis.judgements)
    for judgement in diagnosis.judgements:
        head = f"  {judgement.name:<11}  {judgement.status:<{width}}  "
        lines += textwrap.wrap(head + judgement.figure, _WIDTH, subsequent_indent=" " * len(head))
    return lines


def records(diagnosis: "Diagnosis") -> list[dict[str, Any]]:
    """One flat row per function label and per layer."""
    rows = []
    for space, group in (("function", diagnosis.functions), ("weights", diagnosis.weights)):
        for name, summary in group.items():
            flat = {k: v for k, v in summary.items() if not isinstance(v, list)}
            worst = summary["worst"][0]["name"] if summary["worst"] else ""
            rows.append({"space": space, "name": name, **flat, "worst": worst})
    return rows


def plain(value: Any) -> Any:
    """Values that JSON has: NaN and infinities become None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def sampler_lines(sampler: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the sampler reports, as pairs of a name and a text."""
    lines = [("chains x draws", f"{sampler['chains']} x {sampler['recorded_draws']}")]
    if sampler["divergences"] is not None:
        each = ", ".join(map(str, sampler["divergences_per_chain"]))
        lines.append(
            (
                "divergences",
                f"{sampler['divergences']} ({_share(sampler['divergence_share'])}); "
                f"per chain {each}",
            )
        )
    if sampler["ebfmi"] is not None:
        lines.append(("E-BFMI", _each(sampler["ebfmi"], "{:.2f}")))
    if sampler["saturated_share"] is not None:
        depth = sampler["max_tree_depth"]
        lines.append(("saturated trees", f"{_share(sampler['saturated_share'])} at depth {depth}"))
    if sampler["acceptance"] is not None:
        target = sampler["target_acceptance"]
        aim = "" if target is None else f"; target {target:g}"
        lines.append(("mean acceptance", _each(sampler["acceptance"], "{:.2f}") + aim))
    if sampler["steps_per_draw"] is not None:
        lines.append(("steps a draw", _each(sampler["steps_per_draw"], "{:.0f}")))
    if sampler["step_size"] is not None:
        lines.append(("step size", _each(sampler["step_size"], "{:.2g}")))
    if sampler["lp_rhat"] is not None:
        lines.append(
            (
                "log density",
                f"R-hat {_number(sampler['lp_rhat'], 3)}, "
                f"ESS bulk {_number(sampler['lp_ess_bulk'], 0)}",
            )
        )
    for key, name in (
        ("stuck_chains", "stuck chains"),
        ("apart_chains", "chains apart"),
        ("non_finite_chains", "chains with NaN"),
    ):
        lines.append((name, ", ".join(map(str, sampler[key])) or "none"))
    if sampler["stopped_chains"]:
        each = ", ".join(f"{c} at draw {d}" for c, d in sampler["stopped_chains"].items())
        lines.append(("chains stopped", each))
    return lines


def _other_lines(diagnosis: "Diagnosis") -> list[tuple[str, str]]:
    found = diagnosis.temperatures
    return [] if found is None else [("temperatures", found.brief())]


def _title(diagnosis: "Diagnosis") -> str:
    return f"Diagnosis: {diagnosis.status}"


def _tables(diagnosis: "Diagnosis") -> list[tuple[str, list[str], list[list[str]]]]:
    low, high = (diagnosis.thresholds[k] for k in ("rhat_threshold", "rhat_limit"))
    tables = []
    shared = ["count", f"R<{low:g}", f"R<{high:g}", "max R", "bulk"]
    if diagnosis.functions:
        header = ["", *shared, "median", "tail", "median", "MCSE/sd"]
        tables.append(
            (
                "Function space (R = R-hat; smallest and median effective sample sizes)"
                + _left_out(diagnosis.functions),
                header,
                [[name, *_cells(s, True)] for name, s in diagnosis.functions.items()],
            )
        )
    if diagnosis.weights:
        tables.append(
            (
                "Weights by layer (smallest effective sample sizes)" + _left_out(diagnosis.weights),
                ["", *shared, "tail", "worst"],
                [[name, *_cells(s, False)] for name, s in diagnosis.weights.items()],
            )
        )
    return tables


def _left_out(group: Mapping[str, Mapping[str, Any]]) -> str:
    if any(s["constant"] or s["non_finite"] for s in group.values()):
        return "\n  (+n): constant or not finite, left out"
    return ""


def _cells(summary: Mapping[str, Any], function: bool) -> list[str]:
    left_out = summary["constant"] + summary["non_finite"]
    cells = [
        str(summary["judged"]) + (f" (+{left_out})" if left_out else ""),
        _share(summary["rhat_below_threshold"]),
        _share(summary["rhat_below_limit"]),
        _number(summary["rhat_max"], 3),
        _number(summary["ess_bulk_min"], 0),
    ]
    if function:
        return [
            *cells,
            _number(summary["ess_bulk_median"], 0),
            _number(summary["ess_tail_min"], 0),
            _number(summary["ess_tail_median"], 0),
            _number(summary["mcse_over_sd_max"], 3),
        ]
    worst = summary["worst"][0]["name"] if summary["worst"] else "-"
    return [*cells, _number(summary["ess_tail_min"], 0), worst]


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Numbers to the right; names to the left, the outer ones cut to keep to the width."""
    named = {0} | ({len(header) - 1} if header[-1] == "worst" else set())
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    room = _WIDTH - 2 * len(header) - sum(w for i, w in enumerate(widths) if i not in named)
    # The shorter of two names keeps its length, and the other takes what is left.
    for left, index in zip(
        range(len(named), 0, -1), sorted(named, key=widths.__getitem__), strict=True
    ):
        widths[index] = min(widths[index], max(8, room // left))
        room -= widths[index]
    lines = []
    for row in [header, *rows]:
        cells = [
            f"{_cut(cell, width):<{width}}" if i in named else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def _cut(name: str, width: int) -> str:
    """The end of a name tells more than its beginning: the index stands there."""
    return name if len(name) <= width else "…" + name[-(width - 1) :]


def _share(share: float) -> str:
    if math.isnan(share):
        return "-"
    # Rounded down: only a whole is 100 %.
    return "100%" if share == 1 else f"{math.floor(1000 * share + 1e-9) / 10:.1f}%"


def _number(value: float, digits: int) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.{digits}f}" if abs(value) < 1e7 else f"{value:.2g}"


def _each(values: Sequence[float], form: str) -> str:
    """Few chains one by one, many as their range."""
    if len(values) <= 8:
        return ", ".join("-" if math.isnan(value) else form.format(value) for value in values)
    return f"{form.format(min(values))} to {form.format(max(values))} over {len(values)} chains"
