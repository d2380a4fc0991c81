"""First of all: may this posterior be believed, and what is to be done?"""

from typing import Any

from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.description import run_sentence
from bayesnn_ppl.report.parts.subject import Subject

_LONG = 500  # letters of a verdict


def verdict_section(subject: Subject) -> str:
    """The status with its reasons, model and data, the judgements, and the first numbers."""
    diagnosis, judgements = subject.diagnosis, ""
    if not subject.fitted:
        judgements = markup.table(
            "What was judged",
            ["question", "answer", "what it rests on"],
            [[j.name, j.status, j.figure] for j in diagnosis.judgements],
            words=(1, 2),
        )
    words = (
        f'<p class="status">{markup.badge(diagnosis.status)}</p>\n'
        + markup.paragraph(diagnosis.verdict, "verdict")
        + markup.paragraph(_described(subject), "model")
    )
    first = markup.definitions(headline(subject).items())
    if len(diagnosis.verdict) > _LONG:  # the numbers fill what is left beside it
        return markup.columns(words, judgements + first)
    return markup.columns(words, judgements) + first


def _described(subject: Subject) -> str:
    targets = None if subject.targets is None else len(subject.targets)
    return run_sentence(subject.run, held_out=targets)


def headline(subject: Subject) -> dict[str, str]:
    """The numbers that one asks for first, as words."""
    run, diagnosis = subject.run, subject.diagnosis
    found: dict[str, str] = {"method": str(run.get("kernel"))}
    if subject.fitted:
        found["fits × draws"] = f"{run['chains']} × {run['draws']}"
    else:
        found["chains × draws"] = f"{run['chains']} × {run['draws']}, after {run['warmup']}"
        found |= _convergence(diagnosis)
    if subject.scores is not None:
        found |= {_SCORES[n]: markup.number(v) for n, v in subject.scores.items() if n in _SCORES}
    seconds = run.get("seconds", {}).get("total")
    if seconds is not None:
        found["time"] = f"{markup.number(float(seconds), 3)} s"
    return found


_SCORES = {
    "rmse": "RMSE",
    "nll_mixture": "NLL",
    "coverage_90": "inside 90 % intervals",
    "accuracy": "accuracy",
    "base_rate": "share of the most frequent label",
    "balanced_accuracy": "balanced accuracy",
    "nll": "NLL",
    "ece_bnn_hmc": "calibration error",
}


def _convergence(diagnosis: Any) -> dict[str, str]:
    functions = list(diagnosis.functions.values())
    found = {}
    if functions:
        worst = max(s["rhat_max"] for s in functions)
        least = min(min(s["ess_bulk_min"], s["ess_tail_min"]) for s in functions)
        found["largest R-hat of a function output"] = markup.number(worst)
        found["smallest effective sample size"] = markup.number(float(least), 3)
    if diagnosis.sampler["divergences"] is not None:
        found["divergences"] = str(diagnosis.sampler["divergences"])
    return found


def overview_section(subjects: list[Subject]) -> str:
    """Several runs side by side, a line each."""
    lines = {s.name: {"verdict": s.diagnosis.status} | headline(s) for s in subjects}
    columns = list(dict.fromkeys(name for line in lines.values() for name in line))
    return markup.table(
        "The runs of this page",
        ["run", *columns],
        [[name, *(line.get(c, "–") for c in columns)] for name, line in lines.items()],
        words=(1, 2),
    )
