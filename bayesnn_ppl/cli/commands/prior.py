"""`bayesnn prior`: what the prior of a model means, before any data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.cli.commands.sample import MODEL, TITLES
from bayesnn_ppl.cli.shared.options import Command, Output
from bayesnn_ppl.cli.shared.output import note, print_json
from bayesnn_ppl.settings.datasets import DataSettings, load_data
from bayesnn_ppl.settings.declaring import setting
from bayesnn_ppl.settings.models.model_settings import ModelSettings, ZooSettings
from bayesnn_ppl.settings.models.user_models import failures_named
from bayesnn_ppl.settings.models.zoo import check_name, chosen_model
from bayesnn_ppl.settings.saved.run_file import require_new
from bayesnn_ppl.settings.value_kinds import whole

__all__ = ["COMMAND"]

_POINTS = 101  # along a line
_GRID = 31  # along each side of a square


@dataclass(frozen=True)
class PriorSettings:
    """What is drawn, and where figures go."""

    draws: int = setting("functions to draw", default=200, read=whole(2), metavar="N", unit="draws")
    rows: int = setting(
        "training rows at which functions are drawn, spread evenly over them",
        default=200,
        read=whole(2),
        metavar="N",
        unit="rows",
    )
    seed: int = setting(
        "seed of all randomness", default=0, read=whole(0), metavar="N", unit="integer"
    )
    out: str | None = setting(
        "folder, new or empty, for the figures and the report as JSON",
        metavar="FOLDER",
        unit="path",
        shown="no figures",
    )


def run_prior(
    model: str = "mlp",
    *,
    prior: PriorSettings,
    data: DataSettings,
    zoo: ZooSettings,
    any_model: ModelSettings,
    output: Output,
) -> int:
    """Print the report, and draw its figures where a folder is given for them."""
    check_name(model, "prior", data.target)
    _refuse_temperatures(zoo.temperature, any_model.posterior_temperature)
    folder = None if prior.out is None else Path(prior.out)
    if folder is not None:
        require_new(folder)
    dataset, _ = load_data(data, needed=zoo.standardised)
    built, _, path = chosen_model(model, zoo, any_model, dataset)
    x = _rows(dataset.train.x, prior.rows)
    settings = {"draws": prior.draws, "seed": prior.seed}
    with failures_named(path):
        found = bnn.diagnostics.prior_predictive(built, x, **settings)
        figures = {} if folder is None else _figures(built, x, dataset, found, settings)
    if folder is not None:
        with storage.writing_to(folder, lambda: "Choose another folder with --out."):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "prior.json").write_text(found.to_json() + "\n", encoding="utf-8")
            for name, figure in figures.items():
                figure.savefig(folder / name)
    if output.json:
        print_json(found.to_dict())
        return 0
    units = "; targets are standardised" if dataset.task == "regression" else ""
    print(f"{model} at {len(x)} training rows of {dataset.name}{units}\n")
    print(found)
    if folder is not None:
        note(f"Wrote prior.json, {', '.join(figures)} to {folder}")
    return 0


def _refuse_temperatures(likelihood: float | None, posterior: float) -> None:
    given = {"temperature": likelihood, "posterior-temperature": posterior}
    for flag, temperature in given.items():
        if temperature not in (None, 1.0):
            raise ValueError(
                f"A temperature scales log densities, and draws from the prior never see one. "
                f"Leave --{flag} out."
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


COMMAND = Command(
    "prior",
    "draw from the prior of a model, and describe its functions",
    run_prior,
    (MODEL,),
    {
        "Draws": ("prior", PriorSettings),
        TITLES["data"]: ("data", DataSettings),
        TITLES["zoo"]: ("zoo", ZooSettings),
        TITLES["any_model"]: ("any_model", ModelSettings),
    },
)
