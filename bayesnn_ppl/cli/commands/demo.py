"""`bayesnn demo`: a first posterior, judged, compared, drawn and saved."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl.cli.shared.options import TYPED, Command, Output
from bayesnn_ppl.cli.shared.output import note, paragraph, print_json, table
from bayesnn_ppl.core.wording import program_name
from bayesnn_ppl.experiments.run_places import place_for_run
from bayesnn_ppl.report.parts.baselines import (
    Forecast,
    comparison,
    linear_regression,
    posterior_forecast,
    training_mean,
)
from bayesnn_ppl.settings.declaring import setting
from bayesnn_ppl.settings.devices import prepare_devices
from bayesnn_ppl.settings.saved.opening import open_run
from bayesnn_ppl.settings.saved.run_file import Run, remember
from bayesnn_ppl.settings.value_kinds import whole

__all__ = ["COMMAND"]

DATA = "diabetes"
HIDDEN = (16,)
CHAINS, WARMUP, DRAWS = 4, 500, 1000
MADE_BY = "bayesnn demo"
# All that a demo writes, or tells the user to write, into its folder.
CONTENT = {
    "posterior.zarr",
    "journal",
    "checkpoint",
    "commit.json",
    "config.json",
    "lock",
    "run.json",
    "scores.json",
    "starts.npz",
    "diagnosis.json",
    "report.html",
    "figures",
    "predictions.csv",
}
SHOWN_ROWS = 3


@dataclass(frozen=True)
class DemoSettings:
    """Where the demo goes."""

    out: str = setting(
        "folder of the run; an earlier demo there is replaced",
        default="runs/demo",
        metavar="FOLDER",
        unit="path",
    )
    seed: int = setting(
        "seed of all randomness", default=0, read=whole(0), metavar="N", unit="integer"
    )


def run_demo(*, settings: DemoSettings, output: Output) -> int:
    """Sample an MLP on diabetes, and say how it went and what to do next."""
    folder = Path(settings.out)
    replaced = _check_folder(folder)
    prepare_devices(CHAINS, None)
    dataset = bnn.data.load(DATA)
    model = bnn.models.mlp(hidden=HIDDEN)
    talk = not output.json
    if talk:
        print(
            paragraph(
                f"A Bayesian neural network on `{DATA}`: from {len(dataset.feature_names)} "
                f"measurements of a patient to the {dataset.target_name} a year later. "
                f"{len(dataset.train.x)} patients train it, {len(dataset.test.x)} are held out. "
                f"One hidden layer of {HIDDEN[0]} tanh units; NUTS draws {CHAINS} chains of "
                f"{DRAWS} after {WARMUP} of warm-up."
            ),
            end="\n\n",
            flush=True,
        )
    with place_for_run(folder):
        posterior = bnn.sample(
            _kernel(model),
            *dataset.train,
            warmup=WARMUP,
            draws=DRAWS,
            chains=CHAINS,
            seed=settings.seed,
        )
    diagnosis = posterior.diagnose(dataset.test.x)
    prediction = posterior.predict(dataset.test.x)
    forecasts, y = _forecasts(dataset, prediction)
    scores = {forecast.name: forecast.scores(y) for forecast in forecasts}

    if replaced:
        _empty(folder)
    posterior.save(folder)
    remember(
        dataset,
        made_by=MADE_BY,
        model={"zoo": "mlp", "options": {"hidden": list(HIDDEN)}},
        posterior_temperature=1.0,
        data={"name": DATA, "split": 0},
        command=TYPED.get(),
    ).write(folder)
    (folder / "scores.json").write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")
    figures = _draw_figures(folder / "figures", posterior, dataset, prediction, y)

    if output.json:
        print_json(
            {
                "folder": str(folder),
                "seconds": posterior.provenance["seconds"],
                "diagnosis": diagnosis.to_dict(),
                "scores": scores,
                "figures": [str(path) for path in figures],
            }
        )
        return 0
    if replaced:
        note(f"Replaced the earlier demo in {folder}.")
    print(f"{diagnosis}\n")
    _print_scores(scores, forecasts, y)
    _print_next(folder, figures)
    return 0


def _kernel(model: Any) -> Any:
    from numpyro.infer import NUTS

    return NUTS(model)


def _check_folder(folder: Path) -> bool:
    """Whether the folder holds an earlier demo, which is then replaced.

    Raises:
        FileExistsError: it holds something else.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    run: Run | None = None
    try:
        run = open_run(folder)
    except (FileNotFoundError, ValueError):
        pass  # whatever it is, no demo made it
    if run is None or run.made_by != MADE_BY:
        raise FileExistsError(
            f"`{folder}` exists, and no demo made it. Choose another folder with --out, or remove "
            "that one first."
        )
    foreign = sorted(path.name for path in folder.iterdir() if path.name not in CONTENT)
    if foreign:
        raise FileExistsError(
            f"`{folder}` holds `{foreign[0]}`, which no demo made, and it would be lost. Move it, "
            "or choose another folder with --out."
        )
    return True


def _empty(folder: Path) -> None:
    """Remove what a demo wrote, by name; nothing else is in the folder."""
    for name in CONTENT:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _forecasts(dataset: Any, prediction: Any) -> tuple[list[Forecast], np.ndarray]:
    """The network and what it is compared with, and the test targets, in the data's units."""
    undo = dataset.standardisation.undo_y
    y_train = undo(np.asarray(dataset.train.y))
    y = undo(np.asarray(dataset.test.y))
    return [
        posterior_forecast("Bayesian MLP", prediction, dataset.test.y),
        linear_regression(dataset.train.x, y_train, dataset.test.x, y),
        training_mean(y_train, y),
    ], y


def _draw_figures(
    folder: Path, posterior: Any, dataset: Any, prediction: Any, y: np.ndarray
) -> dict[Path, str]:
    """Write the figures; returns path -> what it shows."""
    units = dataset.standardisation
    functions = posterior.function_values(dataset.test.x)
    rows = np.linspace(0, len(y) - 1, SHOWN_ROWS).astype(int)
    traces = {f"test row {row}": units.undo_y(functions["mean"][:, :, row]) for row in rows}
    traces["noise sd"] = units.y_scale * functions["sd"][:, :, 0]

    rhats = {
        "function space": np.concatenate(
            [np.ravel(bnn.diagnostics.rhat(values)) for values in functions.values()]
        )
    }
    for name, draws in posterior.draws.items():
        layer = name.removeprefix("net.").split(".")[0]
        found = np.ravel(bnn.diagnostics.rhat(draws))
        rhats[layer] = np.concatenate([rhats.get(layer, np.empty(0)), found])

    nominal = np.linspace(0.05, 0.95, 19)
    empirical = []
    for level in nominal:
        lower, upper = prediction.quantile([(1 - level) / 2, (1 + level) / 2])
        empirical.append(np.mean((lower <= y) & (y <= upper)))
    lower, upper = prediction.quantile([0.05, 0.95])

    plots = bnn.plots
    figures = {
        "chains.png": (
            plots.plot_trace_rank(traces),
            "do the chains agree? every line of the right column near the dashed one",
        ),
        "rhat.png": (
            plots.plot_rhat(rhats),
            "R-hat of the functions and, layer by layer, of the weights",
        ),
        "predictions.png": (
            plots.plot_predicted_observed(y, prediction.mean, lower, upper),
            "predicted against observed, with 90 % intervals",
        ),
        "coverage.png": (
            plots.plot_coverage(nominal, np.asarray(empirical), len(y)),
            "do the intervals hold as many patients as they promise?",
        ),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, (figure, _) in figures.items():
        figure.savefig(folder / name)
    return {folder / name: text for name, (_, text) in figures.items()}


def _print_scores(
    scores: dict[str, dict[str, float]], forecasts: list[Forecast], y: np.ndarray
) -> None:
    print(f"Held-out scores, {len(y)} rows, in the data's units (lower RMSE and NLL are better)")
    rows = [
        (
            f"  {name}",
            f"{s['rmse']:.2f}",
            f"{s['nll']:.3f}",
            f"{s['coverage_90']:.0%}",
            f"{s['width_90']:.0f}",
        )
        for name, s in scores.items()
    ]
    header = ("", "RMSE", "NLL", "inside 90 %", "width of 90 %")
    print(table(header, rows, right=(1, 2, 3)))
    network, linear, _ = forecasts
    print(
        paragraph(
            f"{comparison(network, linear, y)} Disease progression is nearly linear in these "
            "measurements, so a network has little to gain here."
        )
    )


def _print_next(folder: Path, figures: dict[Path, str]) -> None:
    print("\nWhere to look")
    print(
        table(
            ("", ""),
            [
                (f"  {folder}", "the posterior, its settings and scores.json"),
                *((f"  {path}", text) for path, text in figures.items()),
            ],
        ).lstrip("\n")
    )
    bayesnn = program_name()
    print("\nWhat to type next")
    print(
        "\n".join(
            (
                f"  {bayesnn} diagnose {folder}",
                f"  {bayesnn} predict {folder} --out {folder / 'predictions.csv'}",
                f"  {bayesnn} sample mlp --data breast_cancer",
                f"  {bayesnn} sample --help",
            )
        )
    )


COMMAND = Command(
    "demo",
    "sample an MLP on diabetes and show the results",
    run_demo,
    groups={"Options": ("settings", DemoSettings)},
)
