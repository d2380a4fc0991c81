"""Is the sampler as hot as it should be, layer by layer?"""

from typing import Any

from bayesnn_ppl.plots import plot_temperatures
from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.parts.svg_figures import figure

_MOST_ARRAYS = 30


def temperatures_section(subject: Subject) -> str:
    """The verdict of the temperature diagnostics, a figure of the arrays, and a table.

    A sampler with an accept step leaves its target as it is, so there is nothing to judge.
    """
    found = subject.temperatures
    run = subject.run
    asked = (
        f"Asked for: temperature {markup.number(run['posterior_temperature'], 3)} of the whole "
        f"posterior, {markup.number(run['likelihood_temperature'], 3)} of the likelihood."
    )
    if found is None:
        cold = run["posterior_temperature"] != 1 or run["likelihood_temperature"] != 1
        return markup.paragraph(asked) if cold else ""
    arrays = found.arrays[:_MOST_ARRAYS]
    names = [a.name for a in arrays]
    cut = slice(len(arrays))
    plot = plot_temperatures(
        names,
        {name: values[cut] for name, values in found.readings().items()},
        expected=found.temperature,
        tolerance=found.tolerance,
        over_time={name: values[cut] for name, values in found.over_time().items()},
    )
    rows = [
        [a.name, a.elements, *(_reading(r) for r in (a.kinetic, a.configurational)), a.status]
        for a in found.arrays
    ]
    words = f"<p>{markup.badge(found.status)}</p>" + markup.paragraph(found.verdict)
    drawn = figure(plot, f"{subject.key}-temperatures", f"Temperatures by array: {found.brief()}.")
    table = markup.folded_table(
        "Temperatures by array",
        ["array", "elements", "kinetic", "configurational", "verdict"],
        rows,
        words=(4,),
    )
    return markup.columns(words + markup.note(asked) + table, drawn)


def _reading(reading: Any) -> str:
    if reading is None:
        return "–"
    return f"{markup.number(reading.value, 3)} ({reading.lower:.3g} to {reading.upper:.3g})"
