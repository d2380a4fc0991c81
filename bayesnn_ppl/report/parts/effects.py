"""What the fitted functions say along their inputs, in the data's units."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.data import Standardisation
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.parts.thinning import thinned, weights_of

# Multiplications of weights with rows: about two seconds of two cores.
_MOST_PRODUCTS = 4e9
_MOST_DRAWS, _FEWEST_DRAWS = 200, 20
_FEW_VALUES = 8  # an input of so few values is drawn at each of them
_GRID, _BACKGROUND = 20, 40
_SCREEN_GRID, _SCREEN_BACKGROUND, _SCREEN_DRAWS = 5, 30, 50
_MOST_INPUTS = 300
LEVEL = 0.9


class NotShownError(ValueError):
    """Why the functions cannot be shown, as a sentence for the page."""


@dataclass(frozen=True)
class Effect:
    """Partial dependence on one input: the mean prediction where it alone is changed.

    Attributes:
        name: of the input.
        grid: its values in the data's units, (G,).
        center, lower, upper: mean over the draws and the ends of the 90 % band, (G, K).
        discrete: whether the grid is every value that the input takes.
        rows: values of the input at the rows of the data, (N,).
    """

    name: str
    grid: NDArray
    center: NDArray
    lower: NDArray
    upper: NDArray
    discrete: bool
    rows: NDArray


def inputs_of(subject: Subject) -> NDArray:
    """The training inputs, or else those that the page judges at, as the model was given them."""
    rows = subject.train[0] if subject.train is not None else subject.inputs
    if rows is None:
        raise NotShownError("The functions are not shown, for no inputs are known.")
    return np.asarray(rows)


def require_able(subject: Subject) -> None:
    """Refuse a run whose networks cannot be asked at new inputs."""
    if not subject.posterior.has_weights:
        raise NotShownError(
            "The functions are not shown at other inputs, for the run kept no draws of its weights."
        )
    if subject.posterior.model is None:
        raise NotShownError(
            "The functions are not shown at other inputs, for the model is not at hand."
        )
    if sites := subject.run.get("local"):
        raise NotShownError(
            "The functions are not shown at other inputs, for the model has latent values of "
            f"single training rows ({', '.join(sites)})."
        )


def input_names(subject: Subject, count: int) -> list[str]:
    """Names of the inputs, or their numbers."""
    found = (subject.run.get("dataset") or {}).get("feature_names") or []
    return list(found) if len(found) == count else [f"input {i}" for i in range(count)]


def in_data_units(subject: Subject, x: Any) -> NDArray:
    """Inputs (..., d) in the data's units, as far as the run knows them."""
    units = subject.posterior.standardisation
    x = np.array(x, np.float64)
    if not units or len(units["x_mean"]) != x.shape[-1]:
        return x
    return Standardisation(**units).undo_x(x)


def values_at(subject: Subject, x: NDArray, most_draws: int = _MOST_DRAWS) -> NDArray:
    """What the networks of some draws say at `x` in the data's units, (S, N) or (S, N, K).

    Raises:
        NotShownError: it would take too long, or no draw is finite.
    """
    affordable = int(_MOST_PRODUCTS / (max(1, weights_of(subject.posterior)) * len(x)))
    if affordable < min(_FEWEST_DRAWS, most_draws):
        raise NotShownError(
            "The functions are not shown, for evaluating so large a network at so many inputs "
            "would take too long."
        )
    few = thinned(subject.posterior, min(most_draws, affordable))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of inputs beyond those of training, which are meant
        found = few.function_values(np.asarray(x, inputs_of(subject).dtype))
    name = "probability" if "probability" in found else "mean"
    values = found[name].reshape(-1, *found[name].shape[2:]).astype(np.float64)
    units = subject.posterior.standardisation
    if name == "mean" and units:
        values = np.asarray(units["y_mean"]) + np.asarray(units["y_scale"]) * values
    values = values[np.isfinite(values.reshape(len(values), -1)).all(axis=1)]
    if len(values) < 2:
        raise NotShownError("The functions are not shown, for their values are not finite.")
    return values


def band(values: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Mean over draws, and the ends of the central 90 % interval, each without the first axis."""
    lower, upper = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return values.mean(axis=0), lower, upper


def influential_effects(subject: Subject, most: int) -> list[Effect]:
    """Partial dependence on the inputs that move the prediction most, those first.

    Influence is the standard deviation of the mean curve over five values of the input, the
    largest one of the outputs (Greenwell et al. 2018, arXiv:1805.04755); only the inputs chosen
    are then computed finely.
    """
    x = inputs_of(subject)
    inputs = x.shape[1]
    if inputs > _MOST_INPUTS:
        raise NotShownError(
            f"Partial dependence is not shown of {inputs} inputs, which are too many to compare."
        )
    rough = [_grid(x[:, j], _SCREEN_GRID)[0] for j in range(inputs)]
    curves = _dependence(subject, x, range(inputs), rough, _SCREEN_BACKGROUND, _SCREEN_DRAWS)
    influence = [float(c.mean(axis=0).std(axis=0).max()) for c in curves]
    chosen = [int(j) for j in np.argsort(influence, kind="stable")[::-1][:most]]
    grids = [_grid(x[:, j], _GRID) for j in chosen]
    fine = _dependence(subject, x, chosen, [g for g, _ in grids], _BACKGROUND, _MOST_DRAWS)
    names, raw = input_names(subject, inputs), in_data_units(subject, x)
    found = []
    for j, (grid, discrete), curve in zip(chosen, grids, fine, strict=True):
        places = np.zeros((len(grid), inputs))
        places[:, j] = grid
        units = in_data_units(subject, places)[:, j]
        found.append(Effect(names[j], units, *band(curve), discrete, raw[:, j]))
    return found


def _grid(values: NDArray, most: int) -> tuple[NDArray, bool]:
    """Values of an input to evaluate at, and whether these are all that it takes."""
    distinct = np.unique(values)
    if len(distinct) <= _FEW_VALUES:
        return distinct, True
    low, high = np.quantile(values, [0.02, 0.98])
    if low == high:  # nearly always the same value
        low, high = distinct[0], distinct[-1]
    return np.linspace(low, high, most), False


def _dependence(
    subject: Subject, x: NDArray, chosen: Any, grids: list[NDArray], background: int, draws: int
) -> list[NDArray]:
    """For each chosen input the curves of the draws, (S, G, K), averaged over rows of `x`."""
    rows = x[np.unique(np.linspace(0, len(x) - 1, min(len(x), background)).astype(int))]
    blocks = []
    for j, grid in zip(chosen, grids, strict=True):
        block = np.repeat(rows[None], len(grid), axis=0)
        block[:, :, j] = grid[:, None]
        blocks.append(block.reshape(-1, x.shape[1]))
    values = values_at(subject, np.concatenate(blocks), draws)
    ends = np.cumsum([len(block) for block in blocks])[:-1]
    return [
        part.reshape(len(values), len(grid), len(rows), -1).mean(axis=2)
        for part, grid in zip(np.split(values, ends, axis=1), grids, strict=True)
    ]
