"""The diagnosis of a run: its verdict, and what it rests on as text, tables and JSON."""

import html
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bayesnn_ppl.core.arguments import html_table, readable
from bayesnn_ppl.core.wording import plain
from bayesnn_ppl.diagnostics.diagnosis.judgements.common import Judgement, Status
from bayesnn_ppl.diagnostics.presentation import WIDTH, cut, paragraph, value_lines
from bayesnn_ppl.diagnostics.temperature.readings import Thermometry

if TYPE_CHECKING:
    import pandas

__all__ = ["Diagnosis", "judgement_lines", "sampler_lines"]


@readable
@dataclass(frozen=True)
class Diagnosis:
    """Convergence in function space, in the weights by layer, and of the sampler.

    Attributes:
        status: that of the worst judgement. "converged": all four passed. "approximate": right
            within the errors that the precision states. "doubtful": signs of a bias. "not judged":
            something was not examined. "not converged".
        judgements: mixing, exploration, exactness and precision, in this order.
        verdict: the reasons and what to do next, in sentences, the worst first.
        functions: function label -> summary; empty when no functions were given.
        weights: layer -> summary.
        sampler: statistics per chain and the chains that are stuck or differ from the rest.
        starts: how widely the chains started compared with the posterior: `status`, `median` ratio
            of variances and a `sentence`; empty where the starts are not known.
        thresholds: the numbers the verdict rests on.
        temperatures: those of a sampler without an accept step, or None where none were read.

    A summary holds counts (`elements`, `judged`, `constant`, `non_finite`), the shares
    `rhat_below_threshold`, `rhat_below_limit` and `ess_above_limit`, `rhat_max`, `ess_bulk_min`,
    `ess_bulk_median`, `ess_tail_min`, `ess_tail_median`, `mcse_over_sd_max`, and the names of the
    elements with the largest R-hat (`worst`) and the smallest effective sample size (`fewest`).
    Those of functions hold the largest Monte Carlo errors too (`mean_error`, `spread_error` and
    `quantile_error`, as in `precision.Precision`) and the output with the heaviest tail.
    """

    status: Status
    judgements: tuple[Judgement, ...]
    verdict: str
    functions: Mapping[str, Mapping[str, Any]]
    weights: Mapping[str, Mapping[str, Any]]
    sampler: Mapping[str, Any]
    starts: Mapping[str, Any]
    thresholds: Mapping[str, float]
    temperatures: Thermometry | None = None

    @property
    def converged(self) -> bool:
        """Whether the status is "converged"."""
        return self.status == "converged"

    def __str__(self) -> str:
        return _text(self)

    def _repr_html_(self) -> str:
        return _page(self)

    def _figures(self) -> dict[str, Any]:
        return {"status": self.status, **{j.name: j.status for j in self.judgements}}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain dictionaries, lists and numbers."""
        return {"converged": self.converged, **asdict(self)}

    def to_json(self) -> str:
        """`to_dict` as JSON; NaN and infinities become null."""
        return json.dumps(plain(self.to_dict()), indent=2, allow_nan=False)

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row per function label and per layer, the columns those of a summary."""
        import pandas

        return pandas.DataFrame(_records(self))


def _text(diagnosis: Diagnosis) -> str:
    """The whole diagnosis in at most 88 columns."""
    lines = [_title(diagnosis), "", *judgement_lines(diagnosis), ""]
    lines += paragraph(diagnosis.verdict)
    for heading, header, rows in _tables(diagnosis):
        lines += ["", heading, *_aligned(header, rows)]
    lines += ["", "Sampler"]
    lines += value_lines([*sampler_lines(diagnosis.sampler), *_other_lines(diagnosis)])
    return "\n".join(lines)


def _page(diagnosis: Diagnosis) -> str:
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


def judgement_lines(diagnosis: Diagnosis) -> list[str]:
    """The four judgements, each with its status and what it rests on."""
    lines = []
    width = max(len(judgement.status) for judgement in diagnosis.judgements)
    for judgement in diagnosis.judgements:
        head = f"  {judgement.name:<11}  {judgement.status:<{width}}  "
        lines += textwrap.wrap(head + judgement.figure, WIDTH, subsequent_indent=" " * len(head))
    return lines


def _records(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """One flat row per function label and per layer."""
    rows = []
    for space, group in (("function", diagnosis.functions), ("weights", diagnosis.weights)):
        for name, summary in group.items():
            flat = {k: v for k, v in summary.items() if not isinstance(v, list)}
            worst = summary["worst"][0]["name"] if summary["worst"] else ""
            rows.append({"space": space, "name": name, **flat, "worst": worst})
    return rows


def sampler_lines(sampler: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the sampler reports, as pairs of a name and a text."""
    lines = [("chains x draws", f"{sampler['chains']} x {sampler['recorded_draws']}")]
    if sampler["divergences"] is not None:
        each = _each(sampler["divergences_per_chain"], "{}")
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
        if key == "apart_chains" and sampler.get("superchains") is not None:
            continue  # not looked at: chains are many and short
        lines.append((name, ", ".join(map(str, sampler[key])) or "none"))
    if sampler["stopped_chains"]:
        each = ", ".join(f"{c} at draw {d}" for c, d in sampler["stopped_chains"].items())
        lines.append(("chains stopped", each))
    return lines


def _other_lines(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    found = diagnosis.temperatures
    return [] if found is None else [("temperatures", found.brief())]


def _title(diagnosis: Diagnosis) -> str:
    return f"Diagnosis: {diagnosis.status}"


def _tables(diagnosis: Diagnosis) -> list[tuple[str, list[str], list[list[str]]]]:
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
    room = WIDTH - 2 * len(header) - sum(w for i, w in enumerate(widths) if i not in named)
    # The shorter of two names keeps its length, and the other takes what is left.
    for left, index in zip(
        range(len(named), 0, -1), sorted(named, key=widths.__getitem__), strict=True
    ):
        widths[index] = min(widths[index], max(8, room // left))
        room -= widths[index]
    lines = []
    for row in [header, *rows]:
        cells = [
            f"{cut(cell, width):<{width}}" if i in named else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


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
