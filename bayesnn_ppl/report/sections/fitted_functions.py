"""What was learned: the fitted functions along their inputs, with what is not known of them."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.plots import plot_band
from bayesnn_ppl.report.parts import effects, markup
from bayesnn_ppl.report.parts.effects import Effect, NotShownError
from bayesnn_ppl.report.parts.function_figures import (
    draw_curves,
    draw_effect,
    draw_map,
    draw_probabilities,
)
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.parts.svg_figures import figure
from bayesnn_ppl.report.parts.thinning import thinned
from bayesnn_ppl.report.sections.images import images_part

_MOST_EFFECTS, _MOST_CURVES = 6, 5
_MOST_POINTS = 1000
_CURVE, _SIDE = 160, 36  # values of one input; of each of two
_BEYOND = 0.1  # of the range of the data, on each side
_BAND_DRAWS = 400
_DRAWN = 15  # draws of a function that can be told apart


def fitted_functions_section(subject: Subject) -> str:
    """A curve, a surface, effects of single inputs, or images; or why there are none."""
    if subject.inputs is None:
        return ""
    try:
        return _shown(subject)
    except NotShownError as reason:
        return markup.note(str(reason))


def _shown(subject: Subject) -> str:
    shape = subject.inputs.shape[1:] if subject.inputs is not None else ()
    labels = subject.prediction.task == "classification"
    if labels and len(shape) == 3 and shape[-1] in (1, 3):
        return images_part(subject)
    if len(shape) != 1:
        raise NotShownError(
            "The inputs are neither a table nor images with labels, so there is no curve to draw."
        )
    if np.ndim(subject.prediction.mean) != (2 if labels else 1):
        raise NotShownError("There are several outputs a row, so no function is drawn.")
    if shape[0] > 2:
        effects.require_able(subject)
        return _effects(subject, labels=labels)
    if shape[0] == 1:
        return _class_curve(subject) if labels else _curve(subject)
    effects.require_able(subject)
    return _maps(subject, labels=labels)


def _curve(subject: Subject) -> str:
    """Mean and bands along the one input; at the probe inputs where only these are known."""
    posterior, grid = subject.posterior, _line(subject)
    functions = effects.values_at(subject, grid) if _is_able(subject) else _recorded(subject)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of inputs beyond those of training, which are meant
        prediction = (
            thinned(posterior, _BAND_DRAWS).predict(grid)
            if _is_able(subject)
            else subject.prediction
        )
    lower, upper = np.asarray(prediction.quantile((0.05, 0.95)), np.float64)
    center, low, high = effects.band(functions)
    if not all(np.isfinite(a).all() for a in (lower, upper)):
        raise NotShownError("The functions are not shown, for their predictions are not finite.")
    x = effects.in_data_units(subject, grid)[:, 0]
    (name,) = effects.input_names(subject, 1)
    rows: dict[str, Any] = {}
    if (data := _rows(subject)) is not None:
        rows = {"x_train": effects.in_data_units(subject, data[0])[:, 0], "y_train": data[1]}
    target = subject.target
    plot = plot_band(
        *(x, center, lower, upper),
        **rows,
        epistemic=(np.minimum(low, high), np.maximum(low, high)),
        level=effects.LEVEL,
        x_label=name,
        y_label=target,
    )
    width = high - low
    widest, narrowest = int(width.argmax()), int(width.argmin())
    words = (
        f"The function is known best at {name} = {markup.number(x[narrowest], 3)}, where its 90 % "
        f"band is {markup.number(width[narrowest], 3)} wide, and least at {name} = "
        f"{markup.number(x[widest], 3)}, where it is {markup.number(width[widest], 3)} wide."
    )
    drawn = figure(
        plot,
        f"{subject.key}-fitted",
        f"The fitted function of {name} with 90 % bands of the function and of an observation, "
        "and the data.",
        "Dark: the function itself, with 90 % probability. Light: a new observation.",
    )
    chosen = functions[:: -(-len(functions) // _DRAWN)]
    known = None if not rows else (rows["x_train"], rows["y_train"])
    lines = figure(
        draw_curves(x, chosen, names=(name, target), rows=known),
        f"{subject.key}-fitted-draws",
        f"{len(chosen)} draws of the fitted function of {name}, and the data.",
        "Each line is the function of one draw of the weights.",
    )
    return markup.paragraph(words) + f'<div class="figures">{drawn}{lines}</div>'


def _class_curve(subject: Subject) -> str:
    effects.require_able(subject)
    grid = _line(subject)
    values = effects.values_at(subject, grid)
    bands = effects.band(values)
    (name,) = effects.input_names(subject, 1)
    x = effects.in_data_units(subject, grid)[:, 0]
    curves = _classes(subject, np.ptp(bands[0], axis=0))
    drawn = figure(
        draw_probabilities(x, bands, curves, name),
        f"{subject.key}-fitted",
        f"Probabilities of the classes along {name}, with 90 % bands.",
        "Bands hold the probability with 90 % probability over the draws.",
    )
    index, label = curves[0]
    chosen = values[:: -(-len(values) // _DRAWN), :, index]
    lines = figure(
        draw_curves(x, chosen, names=(name, f"probability of {label}")),
        f"{subject.key}-fitted-draws",
        f"{len(chosen)} draws of the probability of {label} along {name}.",
        "Each line is the function of one draw of the weights.",
    )
    return f'<div class="figures">{drawn}{lines}</div>'


def _maps(subject: Subject, *, labels: bool) -> str:
    """The mean of the function, and its standard deviation over the draws, over two inputs."""
    data = effects.inputs_of(subject)
    sides = [_between(data[:, j], _SIDE) for j in (0, 1)]
    mesh = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    values = effects.values_at(subject, mesh)
    marks = None if subject.train is None else np.asarray(subject.train[1])
    target = subject.target
    sd = "standard deviation among the draws"
    if not labels:
        pairs = [(values.mean(axis=0), f"mean of {target}"), (values.std(axis=0), sd)]
        marks = None
    elif values.shape[-1] == 2:
        one = f"probability of {subject.class_name(1)}"
        pairs = [(values[..., 1].mean(axis=0), one), (values[..., 1].std(axis=0), sd)]
    else:
        mean = values.mean(axis=0)
        entropy = -(mean * np.log(np.maximum(mean, 1e-12))).sum(axis=-1)
        pairs = [(mean.max(axis=-1), "probability of the most probable class")]
        pairs.append((entropy, "entropy [nats]"))
    x = effects.in_data_units(subject, mesh).reshape(_SIDE, _SIDE, 2)
    names, rows = effects.input_names(subject, 2), effects.in_data_units(subject, data)
    drawn = []
    for number, (map_values, label) in enumerate(pairs):
        plot = draw_map(
            *(x[0, :, 0], x[:, 0, 1], map_values.reshape(_SIDE, _SIDE), rows[:_MOST_POINTS]),
            names=names,
            label=label,
            marks=None if marks is None else marks[:_MOST_POINTS],
            classes=subject.class_names,
        )
        over = f"{label[0].upper()}{label[1:]} over {names[0]} and {names[1]}, with the data."
        drawn.append(figure(plot, f"{subject.key}-fitted-{number}", over, over))
    spread = pairs[1][0]
    at = mesh[[int(spread.argmin()), int(spread.argmax())]]
    least, most = (
        " and ".join(f"{n} = {markup.number(v, 3)}" for n, v in zip(names, place, strict=True))
        for place in effects.in_data_units(subject, at)
    )
    kind = "The function" if pairs[1][1] == sd else "The class"
    words = f"{kind} is known best at {least}, and least at {most}."
    return markup.paragraph(words) + f'<div class="figures">{"".join(drawn)}</div>'


def _effects(subject: Subject, *, labels: bool) -> str:
    """Partial dependence on the inputs that matter most."""
    found = effects.influential_effects(subject, _MOST_EFFECTS)
    count = effects.inputs_of(subject).shape[1]
    moved = np.max([np.ptp(e.center, axis=0) for e in found], axis=0)
    curves = _classes(subject, moved) if labels else [(0, subject.target)]
    chosen = [index for index, _ in curves]
    low = min(float(e.lower[:, chosen].min()) for e in found)
    high = max(float(e.upper[:, chosen].max()) for e in found)
    edge = 0.06 * (high - low) or 1.0
    label = f"mean of {subject.target}"
    if labels:
        label = f"probability of {curves[0][1]}" if len(curves) == 1 else "probability of the class"
    drawn = "".join(
        figure(
            draw_effect(effect, curves, label, (low - edge, high + edge)),
            f"{subject.key}-fitted-{number}",
            f"Partial dependence on {effect.name}: {_span(effect, chosen)}, with a 90 % band.",
        )
        for number, effect in enumerate(found)
    )
    first = found[0]
    what = "the probability of a class" if labels else f"the mean prediction of {subject.target}"
    words = (
        f"Of {count} inputs, {first.name} moves {what} most: alone, it changes it "
        f"by {markup.number(float(np.ptp(first.center[:, chosen], axis=0).max()), 3)}."
    )
    which = (
        f"the {len(found)} of {count} inputs" if count > len(found) else "all inputs, first those"
    )
    how = (
        "Partial dependence: the input is set to each value while the others stay as in rows of "
        "the data, and the predictions are averaged. Bands hold 90 % of the draws. Shown are "
        f"{which} whose mean curves vary most, by their standard deviation over the values of the "
        "input. Marks at the bottom are rows of the data. Of inputs that depend on each other some "
        "values never occur together."
    )
    return markup.paragraph(words) + f'<div class="figures small">{drawn}</div>' + markup.note(how)


def _span(effect: Effect, chosen: Sequence[int]) -> str:
    means = effect.center[:, chosen]
    return f"from {markup.number(float(means.min()), 3)} to {markup.number(float(means.max()), 3)}"


def _is_able(subject: Subject) -> bool:
    """Whether the networks can be asked anywhere, and not only where the run recorded them."""
    posterior = subject.posterior
    return posterior.has_weights and posterior.model is not None and not subject.run.get("local")


def _line(subject: Subject) -> NDArray:
    """Values of the one input, (G, 1): evenly spaced, or the probe inputs in their order."""
    if not _is_able(subject):
        inputs = np.asarray(subject.inputs)
        return inputs[np.argsort(inputs[:, 0], kind="stable")]
    return _between(effects.inputs_of(subject)[:, 0], _CURVE)[:, None]


def _between(values: NDArray, count: int) -> NDArray:
    low, high = float(values.min()), float(values.max())
    beyond = _BEYOND * (high - low) or 1.0
    return np.linspace(low - beyond, high + beyond, count).astype(np.float32)


def _recorded(subject: Subject) -> NDArray:
    """Function values at the probe inputs in the data's units, (S, N)."""
    values = subject.functions["mean"]
    units = subject.posterior.standardisation or {"y_mean": 0.0, "y_scale": 1.0}
    return units["y_mean"] + units["y_scale"] * values.reshape(-1, values.shape[2])


def _rows(subject: Subject) -> tuple[NDArray, NDArray] | None:
    """Rows of the data with their targets in the data's units; None where some are not numbers."""
    x, y = subject.train if subject.train is not None else (subject.inputs, subject.targets)
    if x is None or y is None or np.ndim(y) != 1 or subject.has_bounds:
        return None
    known = np.asarray(subject.prediction.y(np.asarray(y)), np.float64)
    return np.asarray(x)[:_MOST_POINTS], known[:_MOST_POINTS]


def _classes(subject: Subject, moved: NDArray) -> list[tuple[int, str]]:
    """Index and name of the classes to draw: one of two, else those whose curves move most."""
    if len(moved) == 2:
        return [(1, subject.class_name(1))]
    most = sorted(np.argsort(-moved, kind="stable")[:_MOST_CURVES].tolist())
    return [(index, subject.class_name(index)) for index in most]
