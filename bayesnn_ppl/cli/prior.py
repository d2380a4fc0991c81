"""`bayesnn prior`: what the prior of a model means, before any data."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.cli import zoo
from bayesnn_ppl.cli.datasets import load_data
from bayesnn_ppl.cli.output import note, print_json
from bayesnn_ppl.cli.runs import require_new
from bayesnn_ppl.cli.sampling import chosen_model
from bayesnn_ppl.cli.user_model import failures_named

__all__ = ["run_prior"]

_POINTS = 101  # along a line
_GRID = 31  # along each side of a square


def run_prior(arguments: argparse.Namespace) -> int:
    """Print the report, and draw its figures where a folder is given for them."""
    zoo.check_name(arguments.model, "prior", arguments.target)
    _refuse_temperatures(arguments)
    folder = None if arguments.out is None else Path(arguments.out)
    if folder is not None:
        require_new(folder)
    dataset, _ = load_data(vars(arguments))
    model, _, path = chosen_model(arguments, dataset)
    x = _rows(dataset.train.x, arguments.rows)
    settings = {"draws": arguments.draws, "seed": arguments.seed}
    with failures_named(path):
        found = bnn.diagnostics.prior_predictive(model, x, **settings)
        figures = {} if folder is None else _figures(model, x, dataset, found, settings)
    if folder is not None:
        with storage.writing_to(folder, lambda: "Choose another folder with --out."):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "prior.json").write_text(found.to_json() + "\n", encoding="utf-8")
            for name, figure in figures.items():
                figure.savefig(folder / name)
    if arguments.json:
        print_json(found.to_dict())
        return 0
    units = "; targets are standardised" if dataset.task == "regression" else ""
    print(f"{arguments.model} at {len(x)} training rows of {dataset.name}{units}\n")
    print(found)
    if folder is not None:
        note(f"Wrote prior.json, {', '.join(figures)} to {folder}")
    return 0


def _refuse_temperatures(arguments: argparse.Namespace) -> None:
    for flag in ("temperature", "posterior_temperature"):
        if getattr(arguments, flag) not in (None, 1.0):
            raise ValueError(
                f"A temperature scales log densities, and draws from the prior never see one. "
                f"Leave --{flag.replace('_', '-')} out."
            )


def _rows(x: np.ndarray, most: int) -> np.ndarray:
    """Rows spread evenly over the training data."""
    chosen = np.linspace(0, len(x) - 1, min(most, len(x))).astype(int)
    return np.asarray(x)[chosen]


def _figures(
    model: Any, x: np.ndarray, dataset: Any, found: Any, settings: dict[str, int]
) -> dict[str, Any]:
    """File name -> figure."""
    plots = bnn.plots
    figures: dict[str, Any] = {}
    if found.classes is not None:
        figures["classes.png"] = plots.plot_class_collapse({"": found.classes.shares})
    elif found.functions.ndim == 2 and x.dtype.kind == "f":
        figures["functions.png"] = _function_figure(model, x, dataset, settings)
    layers = found.layers
    if layers and all(0 < layer.sd < np.inf for layer in layers):
        shares = {
            label: np.array([np.nan if (v := getattr(a, key)) is None else v for a in layers])
            for label, key in (
                ("in common to all inputs", "common"),
                ("saturated tanh units", "saturated"),
                ("dead relu units", "dead"),
            )
            if any(getattr(layer, key) is not None for layer in layers)
        }
        names = [layer.name for layer in layers]
        figures["layers.png"] = plots.plot_layers(names, [layer.sd for layer in layers], shares)
    return figures


def _function_figure(model: Any, x: np.ndarray, dataset: Any, settings: dict[str, int]) -> Any:
    """Functions of the one or two features there are, or along a line through the data."""
    names, target = list(dataset.feature_names), f"{dataset.target_name} [standardised]"
    low, high = x.min(axis=0), x.max(axis=0)
    if x.ndim == 2 and x.shape[1] == 2:
        sides = [np.linspace(a, b, _GRID) for a, b in zip(low, high, strict=True)]
        grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
        values = bnn.diagnostics.function_draws(model, grid, **settings)
        return bnn.plots.plot_function_surfaces(
            grid, _finite(values), x_labels=(names[0], names[1]), y_label=target
        )
    place = np.linspace(0, 1, _POINTS)
    if x.ndim == 2 and x.shape[1] == 1:
        line = low + place[:, None] * (high - low)
        along, label = line[:, 0], names[0]
    else:
        # The two inputs that are farthest apart of those seen from the first.
        far = x[np.square((x - x[0]).reshape(len(x), -1)).sum(axis=1).argmax()]
        line = x[0] + place.reshape(-1, *(1,) * (x.ndim - 1)) * (far - x[0])
        along, label = place, "share of the way from one training row to another"
    values = bnn.diagnostics.function_draws(model, line.astype(np.float32), **settings)
    return bnn.plots.plot_function_draws(along, _finite(values), x_label=label, y_label=target)


def _finite(functions: np.ndarray) -> np.ndarray:
    """The draws that can be drawn."""
    return functions[np.isfinite(functions).all(axis=1)]
