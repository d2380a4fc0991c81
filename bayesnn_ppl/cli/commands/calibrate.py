"""`bayesnn calibrate`: check a method on data that the model makes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.cli.commands.sample import MODEL, TITLES
from bayesnn_ppl.cli.shared.options import Command, Output
from bayesnn_ppl.cli.shared.output import note, print_json
from bayesnn_ppl.cli.shared.processes import CLUSTER, ClusterSettings
from bayesnn_ppl.settings.datasets import DataSettings, load_data
from bayesnn_ppl.settings.declaring import declared, from_plain, given, key_values, setting, switch
from bayesnn_ppl.settings.devices import prepare_devices
from bayesnn_ppl.settings.methods.approximations import (
    approximation_group,
    approximation_kinds,
    approximation_summary,
    chosen_approximation,
    make_approximation,
)
from bayesnn_ppl.settings.methods.kernels import (
    check_kernel,
    chosen_kernel,
    kernel_group,
    kernel_kind,
    kernel_kinds,
    kernel_summary,
    make_kernel,
)
from bayesnn_ppl.settings.models.model_settings import ModelSettings, ZooSettings
from bayesnn_ppl.settings.models.user_models import (
    failures_named,
    load_model,
    shared_by,
    split_name,
)
from bayesnn_ppl.settings.models.zoo import build, check_name, chosen_model, is_file
from bayesnn_ppl.settings.value_kinds import number, whole

__all__ = ["command", "words"]


@dataclass(frozen=True)
class Replications:
    """The data sets that are simulated, and what is asked of the method on them."""

    replications: int = setting(
        "data sets that are simulated",
        default=200,
        read=whole(20),
        metavar="N",
        unit="data sets",
    )
    rows: int = setting(
        "training rows whose inputs are used, spread evenly over them",
        default=50,
        read=whole(2),
        metavar="N",
        unit="rows",
    )
    truth: tuple[str, ...] = setting(
        "another model that makes the data: a model option and its value there, such as "
        "prior-scale=1, which may be given several times, or FILE.py:NAME",
        default=(),
        many=True,
        metavar="NAME=VALUE",
        unit="option, or path",
        shown="the model itself",
    )
    around_data: bool = switch(
        "start from the posterior given the data, not from the prior (posterior SBC)"
    )
    false_alarm: float = setting(
        "probability at which a right method is called wrong, over all quantities",
        default=0.01,
        read=number(below=1),
        metavar="P",
        unit="probability",
    )
    seed: int = setting(
        "seed of all randomness", default=0, read=whole(0), metavar="N", unit="integer"
    )
    float64: bool = switch("double precision")
    out: str | None = setting(
        "folder that keeps every replication; the same command resumes an interrupted run",
        metavar="FOLDER",
        unit="path",
        shown="nothing is kept",
    )
    quiet: bool = switch("no progress bar and no hints, only the results")


@dataclass(frozen=True)
class KernelRuns:
    """The run of a kernel in each replication."""

    warmup: int = setting(
        "draws that adapt the kernel", default=150, read=whole(1), metavar="N", unit="count"
    )
    draws: int = setting(
        "draws that are kept", default=150, read=whole(1), metavar="N", unit="count"
    )
    chains: int | None = setting(
        "chains",
        read=whole(1),
        metavar="N",
        unit="count",
        shown="2, and 4 of chees",
    )


def words() -> list[str]:
    """Kernels, the usual one first, and approximations."""
    return [*kernel_kinds(), *approximation_kinds()]


def command(word: str) -> Command:
    """The command of one kernel or approximation."""
    fits = word in approximation_kinds()

    def run(
        *,
        settings: Any,
        replications: Replications,
        data: DataSettings,
        zoo: ZooSettings,
        any_model: ModelSettings,
        workers: ClusterSettings,
        output: Output,
        model: str = "mlp",
        runs: KernelRuns | None = None,
    ) -> int:
        check_name(model, "calibrate", data.target)
        of_runs = {} if runs is None else _of_runs(word, settings, runs)
        prepare_devices(of_runs.get("chains", 1), None)
        dataset, _ = load_data(data, needed=zoo.standardised)
        built, _, path = chosen_model(model, zoo, any_model, dataset)
        truth = _truth(replications.truth, model, zoo, dataset)
        if fits:
            method = make_approximation(built, chosen_approximation(word, settings))
        else:
            chosen = chosen_kernel(word, settings, warmup=of_runs["warmup"])
            method = make_kernel(built, chosen)
        return _calibrate(
            method, truth, _rows(dataset, replications.rows), replications, of_runs, path,
            f"{model} at {{rows}} training rows of {dataset.name}", workers.cluster,
            json=output.json,
        )  # fmt: skip

    group = approximation_group(word) if fits else kernel_group(word)
    title = f"Approximation {word}" if fits else f"Kernel {word}"
    groups = {
        "Replications": ("replications", Replications),
        title: ("settings", group),
        TITLES["data"]: ("data", DataSettings),
        TITLES["zoo"]: ("zoo", ZooSettings),
        TITLES["any_model"]: ("any_model", ModelSettings),
    }
    if not fits:
        groups["Run of each replication"] = ("runs", KernelRuns)
    groups[CLUSTER] = ("workers", ClusterSettings)
    summary = approximation_summary(word) if fits else kernel_summary(word)
    return Command(word, summary, run, (MODEL,), groups)


def _of_runs(kernel: str, settings: Any, runs: KernelRuns) -> dict[str, int]:
    """The run of each replication, checked."""
    kind = kernel_kind(kernel)
    usual = getattr(kind, "usual_run", {}).get("chains", 2 * getattr(kind, "least_chains", 1))
    chains = runs.chains or usual
    check_kernel(kernel, settings, warmup=runs.warmup, chains=chains)
    if getattr(settings, "step_size", None) == "auto":
        raise ValueError(
            "`--step-size auto` tunes for one data set, but each replication has its own. Give a "
            "number."
        )
    return {"warmup": runs.warmup, "draws": runs.draws, "chains": chains}


def _calibrate(
    method: Any,
    truth: Any,
    rows: tuple[np.ndarray, np.ndarray],
    settings: Replications,
    of_runs: dict[str, Any],
    path: Path | None,
    headline: str,
    cluster: str | None,
    *,
    json: bool,
) -> int:
    x, y = rows
    folder = None if settings.out is None else Path(settings.out)
    if not (settings.quiet or json):
        note(headline.format(rows=len(x)))
    try:
        with failures_named(path):
            found = bnn.calibrate(
                method,
                truth,
                x,
                y if settings.around_data else None,
                replications=settings.replications,
                false_alarm=settings.false_alarm,
                seed=settings.seed,
                float64=settings.float64,
                progress=not (settings.quiet or json),
                out=folder,
                **shared_by(cluster, path),
                **of_runs,
            )
    except KeyboardInterrupt:
        advice = (
            "Nothing is kept without --out." if folder is None else "The same command resumes it."
        )
        raise InterruptedError(f"Interrupted before there was a verdict. {advice}") from None
    if folder is not None:
        _write(folder, found)
    if json:
        print_json(found.to_dict())
    else:
        print(found)
        if folder is not None and not settings.quiet:
            note(f"Saved in {folder}: calibration_report.json and the figure ranks.png")
    return 0


def _truth(words: tuple[str, ...], model: str, zoo: ZooSettings, dataset: Any) -> Any:
    """The model that makes the data: the method's own, one of a file, or one of other options."""
    if not words:
        return None
    if len(words) == 1 and "=" not in words[0]:
        if not is_file(words[0]):
            raise ValueError(
                "--truth takes FILE.py:NAME, or NAME=VALUE of a model option such as "
                f"`--truth prior-scale=1`, not `{words[0]}`."
            )
        return load_model(*split_name(words[0]))
    if is_file(model):
        raise ValueError(
            f"--truth NAME=VALUE changes an option of the zoo, and `{model}` is a model of your "
            "own: `--truth FILE.py:NAME` names another one."
        )
    values = key_values(words, "--truth", "prior-scale=1")
    for name in values:
        if name not in declared(ZooSettings):
            known = ", ".join(n.replace("_", "-") for n in declared(ZooSettings))
            raise ValueError(f"--truth {name}: the model options are {known}.")
    changed = given(zoo) | given(from_plain(ZooSettings, values, "--truth"))
    return build(model, changed, task=dataset.task, classes=dataset.classes)


def _rows(dataset: Any, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows spread evenly over the training data."""
    x, y = dataset.train
    chosen = np.linspace(0, len(x) - 1, min(most, len(x))).astype(int)
    return np.asarray(x)[chosen], np.asarray(y)[chosen]


def _write(folder: Path, found: Any) -> None:
    with storage.writing_to(folder, lambda: "The ranks of all replications are kept there."):
        report = found.to_json() + "\n"
        (folder / "calibration_report.json").write_text(report, encoding="utf-8")
        if any(quantity.among for quantity in found.quantities):
            found.plot().savefig(folder / "ranks.png")
