"""What the training rows say: predictive check, leave-one-out, sensitivity to the prior."""

import logging
import warnings
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesnn_ppl.diagnostics.convergence.rank_uniformity import ecdf_band
from bayesnn_ppl.metrics import LeaveOneOut, loo, loo_pit
from bayesnn_ppl.plots import plot_pit, plot_posterior_predictive
from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.class_figures import draw_class_counts
from bayesnn_ppl.report.parts.sensitivity_figure import draw_sensitivities
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.parts.svg_figures import figure

_MOST_CLASSES = 20
_FEWEST_DRAWS = 20
_MOST_LISTED = 20
_PIT_LEVELS = 99
_SENSITIVE = 0.05  # of Kallioinen et al. (2024)


def predictive_check_section(subject: Subject) -> str:
    """Targets of the training rows compared with data sets that draws of the posterior make."""
    if subject.training is None:
        return _missing("predictive check", subject)
    tree = subject.training.tree
    observed = np.asarray(tree["observed_data"]["y"].values)
    sampled = np.asarray(tree["posterior_predictive"]["y"].values)
    sampled = sampled.reshape(-1, *sampled.shape[2:])
    if len(sampled) < _FEWEST_DRAWS:
        return markup.note(
            f"There is no predictive check: intervals need {_FEWEST_DRAWS} draws or more, and "
            f"there {'is' if len(sampled) == 1 else 'are'} {len(sampled)}."
        )
    if tree["posterior_predictive"].attrs["labels"]:
        return _classes(subject, observed, sampled)
    if observed.ndim != 1:
        return markup.note("There are several outputs a row, so they are not drawn together.")
    if not np.isfinite(sampled).all():
        return markup.note("Some predictive samples are not finite, so nothing is drawn.")
    rows, outside = [], []
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
        if not low <= found <= high:
            outside.append(name)
    header = ["of all targets", "observed", "5 %", "95 %", "draws above"]
    lie = "lies" if len(outside) == 1 else "lie"
    reading = (
        f"The {' and the '.join(outside)} of the observed targets {lie} outside the 90 % interval "
        "of data sets that the posterior makes."
        if outside
        else "Mean, standard deviation, smallest and largest of the observed targets are all "
        "within the 90 % intervals of data sets that the posterior makes."
    )
    drawn = figure(
        plot_posterior_predictive(observed, sampled, subject.unit),
        f"{subject.key}-predictive-check",
        "Distribution functions of the observed targets and of data sets made by the posterior.",
        "Where the model could have made these data, the observed curve runs among the others. "
        "The rows were learned from, so only a gross misfit shows.",
    )
    caption = "Statistics of the data, and of data sets that draws of the posterior made"
    return markup.columns(markup.paragraph(reading) + markup.table(caption, header, rows), drawn)


def _missing(what: str, subject: Subject) -> str:
    return markup.note(f"There is no {what}: {subject.untrained}")


def _classes(subject: Subject, observed: NDArray, sampled: NDArray) -> str:
    classes = int(max(observed.max(), sampled.max())) + 1
    if classes > _MOST_CLASSES:
        return markup.note(f"The {classes} classes are too many for a table of their counts.")
    made = sampled.reshape(len(sampled), -1)
    rows: list[list[Any]] = []
    ends, counts = np.empty((classes, 2)), np.bincount(observed.ravel(), minlength=classes)
    for k, count in enumerate(counts):
        ends[k] = low, high = np.quantile((made == k).sum(axis=1), [0.05, 0.95])
        inside = "inside" if low <= count <= high else "outside"
        interval = (markup.number(float(end)) for end in (low, high))
        rows.append([subject.class_name(k), int(count), *interval, inside])
    outside = [str(row[0]) for row in rows if row[-1] == "outside"]
    reading = (
        f"The counts of {', '.join(outside)} lie outside the 90 % intervals of data sets that the "
        "posterior makes."
        if outside
        else "The count of every class is within the 90 % interval of data sets that the posterior "
        "makes."
    )
    caption = "Rows of each class, and in data sets that draws of the posterior made"
    header = ["class", "observed", "5 %", "95 %", "interval"]
    table = markup.table(caption, header, rows, words=(4,))
    drawn = figure(
        draw_class_counts(counts, ends, [str(row[0]) for row in rows]),
        f"{subject.key}-predictive-check",
        "Rows of each class, and 90 % intervals of data sets that the posterior makes.",
        "The rows were learned from, so only a gross misfit shows.",
    )
    return markup.columns(markup.paragraph(reading) + table, drawn)


def leave_one_out_section(subject: Subject) -> str:
    """Scores of each training row given the others, and whether predictions are calibrated."""
    if subject.training is None:
        return _missing("leave-one-out score", subject)
    try:
        found = loo(subject.training)
    except ValueError as error:
        return markup.note(f"Leave-one-out could not be computed: {error}")
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
    table = markup.table(caption, ["", "value", "meaning"], rows, words=(2,))
    sentence = markup.paragraph(found.sentence)
    words = sentence + table + _listed(found)
    if subject.training.tree["posterior_predictive"].attrs["labels"]:
        reason = markup.note("There is no LOO-PIT, for classes have no order.")
        return markup.columns(table, sentence + _listed(found) + reason)
    values = np.ravel(loo_pit(subject.training))
    if values.size < 2 or not np.isfinite(values).all():
        return words + markup.note("There is no LOO-PIT, for its values are not finite.")
    drawn = figure(
        plot_pit(values),
        f"{subject.key}-loo-pit",
        "LOO-PIT: where each row lies in its prediction by the others, as a histogram and "
        "as a difference from the uniform distribution function.",
        "Heaps at both ends: predictions are too narrow. A heap in the middle: too wide.",
    )
    return markup.columns(words, markup.paragraph(_pit_sentence(values)) + drawn)


def _pit_sentence(values: NDArray) -> str:
    """Whether the distribution function leaves the band of uniform values that the figure shows."""
    z, lower, upper = ecdf_band(values.size, _PIT_LEVELS)
    share = (values[:, None] < z).mean(axis=0)
    if ((lower <= share) & (share <= upper)).all():
        return (
            f"LOO-PIT stays inside its 95 % band: {values.size} rows show no miscalibration of "
            "the predictions of a row by the others."
        )
    low, high = float((values < 0.1).mean()), float((values > 0.9).mean())
    kind = ""
    if min(low, high) > 0.13:
        kind = ": too many rows lie in both tails, so the predictions are too narrow"
    elif max(low, high) < 0.07:
        kind = ": too few rows lie in the tails, so the predictions are too wide"
    elif max(low, high) > 0.13:
        side = "high" if low > high else "low"
        kind = f": too many rows lie in one tail, so the predictions are too {side}"
    return (
        "LOO-PIT leaves its 95 % band, so the predictions of a row by the others are not "
        f"calibrated{kind}."
    )


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
    if subject.training is None or subject.fitted:
        reason = subject.untrained or "the draws are of an approximation, not of the posterior."
        return markup.note(f"There is no sensitivity to the prior: {reason}")
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
        return markup.note(f"Sensitivities to the prior could not be computed: {error}.")
    finally:
        log.setLevel(level)
    if not np.isfinite(found[["prior", "likelihood"]].to_numpy(float)).all():
        return markup.note("Sensitivities to the prior are not finite, and are not shown.")
    names = _names(quantities, posterior.scalars)
    pairs = found[["prior", "likelihood"]].to_numpy(float)
    rows = [
        [name, f"{prior:.3f}", f"{likelihood:.3f}", _words(prior, likelihood)]
        for name, (prior, likelihood) in zip(names, pairs, strict=True)
    ]
    moved = int((pairs[:, 0] >= _SENSITIVE).sum())
    most = names[int(pairs[:, 0].argmax())]
    reading = f"{moved} of {len(rows)} quantities move with the prior" + (
        f", most of all the {most}." if moved else ": the data decide."
    )
    how = (
        "Each number is the distance by which the distribution of a quantity moves when the prior, "
        "or the likelihood, is taken to a power a little above or below 1, found by weighting the "
        f"draws (Kallioinen et al. 2024). From {_SENSITIVE} on it counts. A quantity that moves "
        "with the prior and not with the data rests on the prior; one that moves with both may "
        "have a prior that contradicts the data."
    )
    caption = "Power-scaling sensitivity of function values at a few training rows, and of scalars"
    table = markup.table(caption, ["quantity", "prior", "likelihood", "reading"], rows, words=(3,))
    drawn = figure(
        draw_sensitivities(pairs, _SENSITIVE),
        f"{subject.key}-sensitivity",
        f"Sensitivity of {len(rows)} quantities to the prior against that to the likelihood.",
    )
    return markup.columns(markup.paragraph(reading) + drawn, table + markup.note(how))


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
