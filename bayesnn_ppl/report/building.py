"""From posteriors to one page of HTML that stands alone."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import bayesnn_ppl
from bayesnn_ppl.core.arguments import integer, readable
from bayesnn_ppl.metrics.conformal_scores import pair
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.sections.baselines import baselines_section
from bayesnn_ppl.report.sections.chains import chains_section, energy_section
from bayesnn_ppl.report.sections.comparison import comparison_section
from bayesnn_ppl.report.sections.fitted_functions import fitted_functions_section
from bayesnn_ppl.report.sections.functions import functions_section, weights_section
from bayesnn_ppl.report.sections.predictions import predictions_section, scores_section
from bayesnn_ppl.report.sections.provenance import (
    fit_section,
    provenance_section,
    sampler_section,
)
from bayesnn_ppl.report.sections.referral import referral_section
from bayesnn_ppl.report.sections.temperatures import temperatures_section
from bayesnn_ppl.report.sections.training_rows import (
    leave_one_out_section,
    predictive_check_section,
    prior_sensitivity_section,
)
from bayesnn_ppl.report.sections.verdict import overview_section, verdict_section

_FOLDER = Path(__file__).parent
_GRADIENTS = 400

# In the order of a reader's questions: title, what makes it, whether two can stand side by side.
_SECTIONS: dict[str, tuple[str, Callable[[Subject], str], bool]] = {
    "verdict": ("Verdict", verdict_section, False),
    "fitted": ("Fitted functions", fitted_functions_section, False),
    "predictions": ("Predictions and calibration", predictions_section, False),
    "scores": ("Scores", scores_section, True),
    "baselines": ("Compared with simple methods", baselines_section, True),
    "referral": ("Referring uncertain rows", referral_section, False),
    "training-rows": ("Posterior predictive check", predictive_check_section, False),
    "leave-one-out": ("Leave-one-out and LOO-PIT", leave_one_out_section, False),
    "sensitivity": ("Sensitivity to prior and likelihood", prior_sensitivity_section, False),
    "functions": ("Convergence of the functions", functions_section, True),
    "sampler": (
        "Sampler",
        lambda s: sampler_section(s) + ("" if s.fitted else energy_section(s)),
        True,
    ),
    "fit": ("Fit", fit_section, True),
    "chains": ("Chains", chains_section, False),
    "temperatures": ("Temperatures", temperatures_section, False),
    "weights": ("Convergence of the weights", weights_section, False),
    "provenance": ("Provenance", provenance_section, False),
}


@readable
@dataclass(frozen=True)
class Page:
    """A report.

    Attributes:
        html: the whole page; it asks for nothing outside itself.
        statuses: name of each run -> its verdict in a word.
    """

    html: str
    statuses: Mapping[str, str]

    def _figures(self) -> dict[str, Any]:
        return {**self.statuses, "size": f"{len(self.html) / 1000:.0f} kB"}

    def _repr_html_(self) -> str:
        # A document of its own: neither its styles nor its scripts reach the notebook.
        return (
            '<iframe sandbox="allow-scripts" style="width: 100%; height: 40em; border: 0" '
            f'title="Report" srcdoc="{markup.text(self.html)}"></iframe>'
        )

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, in place of an earlier one.

        Raises:
            FileNotFoundError: its folder does not exist.
        """
        path = Path(path)
        if not path.parent.is_dir():
            raise FileNotFoundError(f"The folder `{path.parent}` does not exist. Make it first.")
        path.write_text(self.html, encoding="utf-8")
        return path


def page(
    posteriors: Any,
    x: Any = None,
    y: Any = None,
    *,
    train: tuple[Any, Any] | None = None,
    reference: str | None = None,
    calibration: Any = None,
    gradients: int = _GRADIENTS,
    words: Mapping[str, Mapping[str, Any]] | None = None,
) -> Page:
    """The report of one posterior, or of several side by side.

    Verdict first, with model and data in a sentence; then the fitted functions (curve, surface or
    partial dependence), predictions, scores, baselines and referral, the posterior predictive
    check, leave-one-out and LOO-PIT, sensitivity to the prior, convergence, chains, temperatures
    of samplers without an accept step, and the provenance with what repeats the run. One file of
    HTML without outside parts: readable without scripts, printable, light and dark.

    Args:
        posteriors: a `Posterior` of `sample` or `fit`, or name -> posterior.
        x: held-out inputs, leading axis N, as the model was given them. Without x and y, the
            probe inputs that the runs kept; a run without them is judged by its weights alone.
        y: their targets.
        train: the training rows `(x, y)`, for baselines and the configurational temperature.
        reference: name of the posterior that the others are compared with.
        calibration: rows `(x, y)` that trained nothing and are not those of `x`. With them the
            coverage and width of the conformal intervals are compared with the posterior's own; of
            labels the page has those of conformal sets.
        gradients: at how many draws the configurational temperature is read, each a pass over
            the training rows; 0 for none.
        words: name -> what is known besides: `command` that repeats the run, `data`, `target`,
            `classes`.

    Returns:
        A `Page`; `page.save("report.html")` writes it.

    Raises:
        ValueError: there is no posterior, an unknown reference, `x` comes without `y`, a
            posterior holds nothing to judge, or calibration rows are refused by
            `metrics.evaluate`.
        TypeError: something that is not a posterior, or a calibration that is not rows.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> data = bnn.data.load("diabetes")
        >>> fit = bnn.fit(bnn.approximations.MAP(bnn.models.linear(), epochs=5), *data.train)
        >>> bnn.report.page(fit, *data.test).statuses.keys()
        dict_keys(['run'])
    """
    named = {"run": posteriors} if isinstance(posteriors, Posterior) else dict(posteriors)
    if not named:
        raise ValueError("There is no posterior to report on.")
    for name, posterior in named.items():
        if not isinstance(posterior, Posterior):
            raise TypeError(
                f"`posteriors[{name!r}]` is {type(posterior).__name__}, but a report is about what "
                "`sample`, `fit` or `load` returned."
            )
    if (x is None) != (y is None):
        raise ValueError(
            "Give `x` and `y` both, or neither to judge at the probe inputs of the runs."
        )
    if reference is not None and reference not in named:
        raise ValueError(f"`reference` is {reference!r}, which is not one of {', '.join(named)}.")
    gradients = integer(gradients, "`gradients`", at_least=0)
    subjects = []
    for index, (name, posterior) in enumerate(named.items()):
        able = posterior.model is not None and posterior.has_weights
        rows = {"x": x, "y": y} if able and x is not None else {}
        more: dict[str, Any] = {
            "train": None if train is None else tuple(train),  # a `Split` unpacks to its two
            "gradients": gradients,
            "calibration": None if calibration is None else pair(calibration),
            "words": (words or {}).get(name, {}),
        }
        subjects.append(Subject(name, f"run{index}", posterior, **more, **rows))
    return built(subjects, reference=reference)


def built(subjects: list[Subject], *, reference: str | None = None, script: str = "") -> Page:
    """A page of one subject or several, with a script besides that of every page."""
    for subject in subjects:
        if subject.calibration is not None:
            _ = subject.scores  # its rows are refused before the page is computed
    parts: list[tuple[str, str, str, bool]] = []  # identifier, title, body, half as wide
    single = len(subjects) == 1
    if not single:
        parts.append(("overview", "Side by side", overview_section(subjects), False))
    for name, (title, made, half) in _SECTIONS.items():
        bodies = [(s, made(s)) for s in subjects]
        if any(body for _, body in bodies):
            parts.append((name, title, _beside(bodies, name), half and single))
        if name == "verdict" and not single:
            body = comparison_section(subjects, reference)
            parts.append(("comparison", "The same rows", body, False))
    contents = [(name, title) for name, title, *_ in parts]
    if remarks := [remark for s in subjects for remark in s.remarks]:
        words = "".join(map(markup.paragraph, remarks))
        parts.append(("remarks", "What could not be shown", words, False))
    title = ", ".join(s.name for s in subjects[:3]) + (" and more" if len(subjects) > 3 else "")
    about = [s.words["data"] for s in subjects if s.words.get("data")]
    return Page(
        document(
            f"Report: {title}",
            "".join(markup.section(*part) for part in _paired(parts)),
            contents=contents,
            subtitle=" · ".join(dict.fromkeys(about)),
            script=script,
        ),
        {s.name: s.diagnosis.status for s in subjects},
    )


def _paired(parts: list[tuple[str, str, str, bool]]) -> list[tuple[str, str, str, bool]]:
    """The parts, where one half as wide without a neighbour becomes whole."""
    found, left = [], False  # is the left half of a line taken?
    for index, part in enumerate(parts):
        beside = left or (index + 1 < len(parts) and parts[index + 1][3])
        left = part[3] and beside and not left
        found.append((*part[:3], part[3] and beside))
    return found


def document(
    title: str,
    body: str,
    *,
    contents: list[tuple[str, str]] | None = None,
    subtitle: str = "",
    script: str = "",
    style: str = "",
) -> str:
    """A whole page with the library's style sheet and script, and those given, inside it.

    `contents` has the identifier and title of each section; titles are plain text, `body` is HTML.
    """
    links = "".join(
        f'<li><a href="#{name}">{markup.text(words)}</a></li>' for name, words in contents or []
    )
    return Template(assets("page.html")).substitute(
        title=markup.text(title),
        subtitle=f"<p class=subtitle>{markup.text(subtitle)}</p>" if subtitle else "",
        style=assets("page.css") + style,
        contents=f'<nav aria-label="Contents"><ol>{links}</ol></nav>' if links else "",
        body=body,
        script=assets("page.js") + script,
        version=markup.text(bayesnn_ppl.__version__),
    )


def assets(name: str) -> str:
    """A file of this package, without the blank space that indents it."""
    return re.sub(r"\n\s+", "\n", (_FOLDER / name).read_text(encoding="utf-8"))


def _beside(bodies: list[tuple[Subject, str]], name: str) -> str:
    """The bodies of several runs in columns, each under the name of its run."""
    if len(bodies) == 1:
        return bodies[0][1]
    columns = "".join(
        f'<article aria-label="{markup.text(s.name)}"><h3 class="run">{markup.text(s.name)}</h3>'
        f"{body or markup.note('Nothing to show for this run.')}</article>"
        for s, body in bodies
    )
    kind = "runs wide-runs" if name == "provenance" else "runs"
    return f'<div class="{kind}">{columns}</div>'
