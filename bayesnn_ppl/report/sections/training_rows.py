"""What the training rows say: predictive check, leave-one-out, sensitivity to the prior."""

import logging
import warnings
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesnn_ppl.metrics import LeaveOneOut, loo, loo_pit
from bayesnn_ppl.plots import plot_pit, plot_posterior_predictive
from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.parts.svg_figures import figure

_MOST_CLASSES = 20
_MOST_LISTED = 20
_SENSITIVE = 0.05  # of Kallioinen et al. (2024)


def predictive_check_section(subject: Subject) -> str:
    """Targets of the training rows compared with data sets that draws of the posterior make."""
    if subject.training is None:
        return ""
    tree = subject.training.tree
    observed = np.asarray(tree["observed_data"]["y"].values)
    sampled = np.asarray(tree["posterior_predictive"]["y"].values)
    sampled = sampled.reshape(-1, *sampled.shape[2:])
    if tree["posterior_predictive"].attrs["labels"]:
        return _classes(subject, observed, sampled)
    if observed.ndim != 1:
        return markup.note("There are several outputs a row, so they are not drawn together.")
    if not np.isfinite(sampled).all():
        return markup.note("Some predictive samples are not finite, so nothing is drawn.")
    rows = []
    for name, statistic in (
        ("mean", lambda a: a.mean(-1)),
        ("standard deviation", lambda a: a.std(-1)),
        ("smallest", lambda a: a.min(-1)),
        ("largest", lambda a: a.max(-1)),
    ):
        found, made = float(statistic(observed)), statistic(sampled)
        low, high = np.quantile(made, [0.05, 0.95])
        share = float((made > found).mean() + 0.5 * (made == found).mean())
        values = [markup.number(float(v)) for v in (found, low, high)]
        rows.append([name, *values, markup.share(share)])
    header = ["of all targets", "observed", "5 %", "95 %", "draws above"]
    words = (
        "If the model could have made these data, the curve of the observed targets runs among the "
        "others, and few of the shares below are near 0 or 100 %. The rows were learned from, so "
        "only a gross misfit shows."
    )
    drawn = figure(
        plot_posterior_predictive(observed, sampled, subject.unit),
        f"{subject.key}-predictive-check",
        "Distribution functions of the observed targets and of data sets made by the posterior.",
        words,
    )
    caption = "Statistics of the data, and of data sets that draws of the posterior made"
    return f'<div class="figures">{drawn}</div>' + markup.table(caption, header, rows)


def _classes(subject: Subject, observed: NDArray, sampled: NDArray) -> str:
    classes = int(max(observed.max(), sampled.max())) + 1
    if classes > _MOST_CLASSES:
        return ""
    names = subject.words.get("classes") or [str(k) for k in range(classes)]
    made = sampled.reshape(len(sampled), -1)
    rows = []
    for k in range(classes):
        low, high = np.quantile((made == k).sum(axis=1), [0.05, 0.95])
        count = int((observed == k).sum())
        inside = "inside" if low <= count <= high else "outside"
        ends = (markup.number(float(end)) for end in (low, high))
        rows.append([names[k], count, *ends, inside])
    caption = "Rows of each class, and in data sets that draws of the posterior made"
    return markup.table(caption, ["class", "observed", "5 %", "95 %", "interval"], rows, words=(4,))


def leave_one_out_section(subject: Subject) -> str:
    """Scores of each training row given the others, and whether predictions are calibrated."""
    if subject.training is None:
        return ""
    try:
        found = loo(subject.training)
    except ValueError as error:
        subject.remarks.append(f"Leave-one-out could not be computed: {error}")
        return ""
    large, bad = len(found.uncertain_rows), len(found.bad_rows)
    too = "too high by" if found.bias >= 0 else "too low by, with a minus"
    rows: list[list[Any]] = [
        ["elpd", markup.number(found.elpd), "nats; expected log density of as many new rows"],
        ["standard error", markup.number(found.standard_error), "as rows vary"],
        ["bias", markup.number(found.bias), f"nats that elpd is {too}, from the fitted tails"],
        ["NLL", markup.number(found.nll), "nats a row"],
        ["p_loo", markup.number(found.p_loo), "what learning from a row adds to its own score"],
        ["rows with large errors", large, f"k̂ between 0.5 and {found.threshold:.2f}"],
        ["rows that need a refit", bad, f"k̂ above {found.threshold:.2f}"],
    ]
    caption = f"Leave-one-out by importance sampling, {found.draws} draws, {found.rows} rows"
    parts = [
        markup.table(caption, ["", "value", "meaning"], rows, words=(2,)),
        markup.paragraph(found.sentence),
        _listed(found),
    ]
    if not subject.training.tree["posterior_predictive"].attrs["labels"]:
        values = np.ravel(loo_pit(subject.training))
        if np.isfinite(values).all() and values.size > 1:
            drawn = figure(
                plot_pit(values),
                f"{subject.key}-loo-pit",
                "LOO-PIT: where each row lies in its prediction by the others, as a histogram and "
                "as a difference from the uniform distribution function.",
                "Inside the bands predictions are calibrated as far as so many rows can tell. "
                "Heaps at both ends: too narrow. A heap in the middle: too wide.",
            )
            parts.insert(2, f'<div class="figures">{drawn}</div>')
    return "".join(parts)


def _listed(found: LeaveOneOut) -> str:
    order = [i for i in np.argsort(-found.pareto_k, kind="stable") if found.pareto_k[i] > 0.5]
    if not order:
        return ""
    rows = [
        [
            int(i),
            markup.number(float(found.pareto_k[i]), 3),
            markup.number(float(found.log_scores[i])),
            markup.number(float(found.monte_carlo_error[i]), 2),
            "refit" if found.pareto_k[i] > found.threshold else "large error",
        ]
        for i in order[:_MOST_LISTED]
    ]
    caption = "The rows of largest k̂"
    header = ["row", "k̂", "log score", "its error", "what to do"]
    return markup.folded_table(caption, header, rows, words=(4,))


def prior_sensitivity_section(subject: Subject) -> str:
    """How far functions and scalars move when prior or likelihood are made stronger by 1 %."""
    if subject.training is None:
        return ""
    posterior = subject.training
    tempered = posterior.with_groups("log_likelihood", "log_prior", tempered=True)
    functions = posterior.tree["functions"].to_dataset().drop_vars("sd", errors="ignore")
    quantities = functions.rename({n: f"function {n}" for n in functions.data_vars})
    scalars = posterior.tree["posterior"].to_dataset()[posterior.scalars]
    tree = xr.DataTree.from_dict(
        {
            "posterior": xr.merge([quantities, scalars], join="exact"),
            "log_likelihood": tempered.tree["log_likelihood"].to_dataset(),
            "log_prior": tempered.tree["log_prior"].to_dataset(),
        }
    )
    log = logging.getLogger("arviz_stats.psense")
    level = log.level
    log.setLevel(logging.ERROR)  # it says what the table says
    try:
        from arviz import psense_summary

        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few draws, which the verdict says
            found = psense_summary(tree)
    except ValueError as error:  # chains that hardly move leave no tail to fit
        subject.remarks.append(f"Sensitivities to the prior could not be computed: {error}.")
        return ""
    finally:
        log.setLevel(level)
    if not np.isfinite(found[["prior", "likelihood"]].to_numpy(float)).all():
        subject.remarks.append("Sensitivities to the prior are not finite, and are not shown.")
        return ""
    rows, moved = [], 0
    for name, prior, likelihood in zip(
        _names(quantities, posterior.scalars),
        found["prior"].to_numpy(float),
        found["likelihood"].to_numpy(float),
        strict=True,
    ):
        moved += prior >= _SENSITIVE
        rows.append([name, f"{prior:.3f}", f"{likelihood:.3f}", _words(prior, likelihood)])
    sentence = (
        f"{moved} of {len(rows)} quantities move with the prior. Each number is the distance by "
        "which a quantity's distribution moves when the prior, or the likelihood, is taken to a "
        "power a little above or below 1, found by weighting the draws (Kallioinen et al. 2024). "
        f"From {_SENSITIVE} on it counts. A quantity that moves with the prior and not with the "
        "data rests on the prior; one that moves with both may have a prior that contradicts the "
        "data."
    )
    caption = "Power-scaling sensitivity of function values at a few training rows, and of scalars"
    table = markup.table(caption, ["quantity", "prior", "likelihood", "reading"], rows, words=(3,))
    return markup.paragraph(sentence) + table


def _names(functions: xr.Dataset, scalars: list[str]) -> list[str]:
    """Of each quantity, in ArviZ's order."""
    found = []
    for name, array in functions.data_vars.items():
        for index in np.ndindex(array.shape[2:]):
            row = int(functions["row"].values[index[0]])
            label = str(name).removeprefix("function ")
            rest = ", ".join(
                f"{'class' if axis == 'class' else 'output'} {i}"
                for axis, i in zip(array.dims[3:], index[1:], strict=True)
            )
            found.append(f"{label} at row {row}" + (f", {rest}" if rest else ""))
    return found + scalars


def _words(prior: float, likelihood: float) -> str:
    if prior < _SENSITIVE:
        return "little by the prior"
    return "by prior and data" if likelihood >= _SENSITIVE else "by the prior"
