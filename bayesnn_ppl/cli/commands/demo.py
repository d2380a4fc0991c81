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
from bayesnn_ppl.diagnostics.diagnosis.result import Diagnosis, judgement_lines
from bayesnn_ppl.experiments.run_places import place_for_run
from bayesnn_ppl.report.parts.baselines import (
    Forecast,
    linear_regression,
    posterior_forecast,
)
from bayesnn_ppl.settings.declaring import setting
from bayesnn_ppl.settings.devices import prepare_devices
from bayesnn_ppl.settings.models.zoo import build
from bayesnn_ppl.settings.saved.opening import open_run
from bayesnn_ppl.settings.saved.run_file import Run, remember
from bayesnn_ppl.settings.value_kinds import whole

__all__ = ["COMMAND"]

DATA = "nuclei"
OPTIONS: dict[str, Any] = {"hidden": [8], "likelihood": "heteroscedastic"}
CHAINS, WARMUP, DRAWS, LEAPFROGS = 4, 500, 800, 200
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
    """Sample an MLP on the nuclei, compare it with others, and say what to do next."""
    folder = Path(settings.out)
    replaced = _check_folder(folder)
    prepare_devices(CHAINS, None)
    dataset = bnn.data.load(DATA)
    model = build("mlp", OPTIONS, task=dataset.task, classes=None)
    if not output.json:
        print(paragraph(_introduction(dataset)), end="\n\n", flush=True)
    with place_for_run(folder):
        posterior = bnn.sample(
            bnn.kernels.HMC(model, num_leapfrogs=LEAPFROGS, jitter=0.5),
            *dataset.train,
            warmup=WARMUP,
            draws=DRAWS,
            chains=CHAINS,
            seed=settings.seed,
        )
    plain = bnn.fit(
        bnn.approximations.Ensemble(model, members=1), *dataset.train, seed=settings.seed
    )
    diagnosis = posterior.diagnose(dataset.test.x)
    assert isinstance(diagnosis, Diagnosis)  # that of a kernel, not of an approximation
    prediction = posterior.predict(dataset.test.x)
    undo = dataset.standardisation.undo_y
    y_train, y = undo(np.asarray(dataset.train.y)), undo(np.asarray(dataset.test.y))
    forecasts = [
        posterior_forecast("Bayesian network", prediction, dataset.test.y),
        posterior_forecast("plain network", plain.predict(dataset.test.x), dataset.test.y),
        linear_regression(dataset.train.x, y_train, dataset.test.x, y),
    ]
    scores = {forecast.name: forecast.scores(y) for forecast in forecasts}

    if replaced:
        _empty(folder)
    posterior.save(folder)
    remember(
        dataset,
        made_by=MADE_BY,
        model={"zoo": "mlp", "options": OPTIONS},
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
    print("\n".join([f"Diagnosis: {diagnosis.status}", "", *judgement_lines(diagnosis), ""]))
    _print_scores(scores, forecasts, y)
    _print_next(folder, figures)
    return 0


def _introduction(dataset: Any) -> str:
    return (
        f"A Bayesian neural network on `{DATA}`: from {len(dataset.feature_names)} measurements of "
        "the cell nuclei of a biopsy, averaged over all of them, to the concavity of the worst "
        f"three. {len(dataset.train.x)} biopsies train it, {len(dataset.test.x)} are held out. "
        f"One hidden layer of {OPTIONS['hidden'][0]} tanh units gives each biopsy a mean and a "
        f"standard deviation; HMC makes {CHAINS} chains of {DRAWS} draws after {WARMUP} of "
        "warm-up. The plain network is the same one, trained with early stopping."
    )


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


def _draw_figures(
    folder: Path, posterior: Any, dataset: Any, prediction: Any, y: np.ndarray
) -> dict[Path, str]:
    """Write the figures; returns path -> what it shows."""
    functions = posterior.function_values(dataset.test.x)
    rows = np.argsort(y)[[0, len(y) // 2, -1]]
    undo = dataset.standardisation.undo_y
    traces = {f"test row {row}": undo(functions["mean"][:, :, row]) for row in rows}

    nominal = np.linspace(0.05, 0.95, 19)
    ends = np.stack([(1 - nominal) / 2, (1 + nominal) / 2])
    lower, upper = (prediction.quantile(levels) for levels in ends)
    covered = np.mean((lower <= y) & (y <= upper), axis=1)
    lower, upper = prediction.quantile([0.05, 0.95])

    plots = bnn.plots
    figures = {
        "predictions.png": (
            plots.plot_predicted_observed(y, prediction.mean, lower, upper),
            "predicted against observed, with 90 % intervals",
        ),
        "coverage.png": (
            plots.plot_coverage(nominal, covered, len(y)),
            "do intervals hold as many biopsies as they promise?",
        ),
        "chains.png": (
            plots.plot_trace_rank(traces),
            "do the chains agree on three of the predictions?",
        ),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, (figure, _) in figures.items():
        figure.savefig(folder / name)
    return {folder / name: text for name, (_, text) in figures.items()}


def _print_scores(
    scores: dict[str, dict[str, float]], forecasts: list[Forecast], y: np.ndarray
) -> None:
    print(f"Held-out scores, {len(y)} biopsies (lower RMSE and NLL are better)")
    rows = [
        (
            f"  {name}",
            f"{s['rmse']:.4f}",
            f"{s['nll']:.3f}",
            f"{s['coverage_90']:.0%}",
            f"{s['width_90']:.3f}",
        )
        for name, s in scores.items()
    ]
    print(table(("", "RMSE", "NLL", "inside 90 %", "width of 90 %"), rows, right=(1, 2, 3, 4)))
    network, *others = forecasts
    print(paragraph(f"The NLL of the {network.name} is {_leads(network, others)}."))


def _leads(network: Forecast, others: list[Forecast]) -> str:
    """By how many standard errors the NLL of the rows differs from that of each other forecast."""
    parts = []
    for other in others:
        difference = other.nll - network.nll
        errors = np.mean(difference) / (np.std(difference, ddof=1) / np.sqrt(len(difference)))
        word = "lower" if errors > 0 else "higher"
        parts.append(f"{word} than that of the {other.name} by {abs(errors):.1f} standard errors")
    return " and ".join(parts)


def _print_next(folder: Path, figures: dict[Path, str]) -> None:
    rows = [(f"  {path}", text) for path, text in figures.items()]
    print(f"\nWhat to open\n{table(('', ''), rows)}".replace("\n\n  ", "\n  "))
    bayesnn = program_name()
    print("\nWhat to type next")
    print(f"  {bayesnn} report {folder}")
    print(f"  {bayesnn} sample mlp --data my.csv --target price")


COMMAND = Command(
    "demo",
    "sample an MLP on measurements of cell nuclei and show what there is to see",
    run_demo,
    groups={"Options": ("settings", DemoSettings)},
)
