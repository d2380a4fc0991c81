"""`run.json`: what rebuilds the model and the data of a saved run, and no code."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl.settings import models
from bayesnn_ppl.settings.user_models import load_program, name_of, source_hash, split_name

__all__ = [
    "Run",
    "default_folder",
    "loaded",
    "open_posterior",
    "open_run",
    "predicting",
    "remember",
    "require_new",
]

FILE = "run.json"
_FORMAT = 1
_SNGP_SETTINGS = ("features", "length_scale", "scale", "bound")


@dataclass(frozen=True)
class Run:
    """What a saved run remembers besides the posterior.

    Attributes:
        made_by: "bayesnn sample", "bayesnn fit", "bayesnn demo", or "Python".
        model: `{"zoo": name, "options": {...}}`, or `{"file": name, "name": ..., "sha256": ...}`;
            `{}` of a run from Python.
        posterior_temperature: 1 is Bayes.
        data: the arguments of `data.load`; `{}` of arrays that were given in Python.
        data_sha256: hash of the values.
        task: "regression" or "classification".
        feature_names, target_name, class_names: of the data; class_names is None in regression,
            and feature_names is empty where they are not known.
        standardisation: `Standardisation.to_dict()`.
        kernel: of `chosen_kernel` or `chosen_approximation`; empty for a demo.
        reference: whose predictions at the test rows the run is compared with, or None.
        command: what was typed, as a shell takes it; None where it is not known.
        format: version of this file.
    """

    made_by: str
    model: dict[str, Any]
    posterior_temperature: float
    data: dict[str, Any]
    data_sha256: str
    task: str
    feature_names: list[str]
    target_name: str
    class_names: list[str] | None
    standardisation: dict[str, Any]
    kernel: dict[str, Any] = field(default_factory=dict)
    reference: str | None = None
    command: str | None = None
    format: int = _FORMAT

    @property
    def units(self) -> Any:
        """The map between the data's units and those of the model."""
        return bnn.data.Standardisation.from_dict(self.standardisation)

    @property
    def data_label(self) -> str:
        """The data in a few words."""
        return Path(str(self.data["name"])).stem if self.data else "arrays"

    @property
    def model_label(self) -> str:
        """The model in a few words."""
        if "zoo" in self.model:
            return str(self.model["zoo"])
        return Path(self.model["file"]).name if "file" in self.model else "a program from Python"

    def write(self, folder: Path) -> None:
        """Write `run.json` into the folder."""
        (folder / FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    def load_data(self, *, split: int | None = None) -> Any:
        """The data set of the run, the same values as then.

        Args:
            split: another split than that of the run.

        Raises:
            ValueError: the data have changed since, or were arrays given in Python.
        """
        if not self.data:
            raise ValueError(
                "The run was made in Python from arrays, which it does not keep, so that it has no "
                "rows of its own here. Give rows with --data, or name the data set there: targets "
                "of `bayesnn_ppl.data.load` are remembered."
            )
        options = dict(self.data) if split is None else {**self.data, "split": split}
        dataset = bnn.data.load(**options)
        # Of a synthetic set the split is the seed: another one has other values.
        same_split = options["split"] == self.data["split"]
        if same_split and dataset.sha256 != self.data_sha256:
            raise ValueError(
                f"The data `{self.data['name']}` have changed since the run: its values had the "
                f"hash {self.data_sha256[:12]}, and now have {dataset.sha256[:12]}. Scores on them "
                "would compare different things. Bring the old data back, or sample again."
            )
        return dataset

    def load_model(self, given: str | None) -> tuple[Any, Path | None]:
        """The program of the run, and the user's file where it comes from one.

        Args:
            given: the user's `.py` file, for a run that was made with one.

        Raises:
            ValueError: the run needs a file and none is given, or the other way round, or the
                file is not the one of the run.
        """
        if "zoo" in self.model:
            if given is not None:
                raise ValueError(
                    f"The run was made with the model `{self.model['zoo']}` of the zoo, so "
                    "--model does not apply. Leave it out."
                )
            classes = None if self.class_names is None else len(self.class_names)
            options = self.model["options"]
            program = models.build(self.model["zoo"], options, task=self.task, classes=classes)
            return models.tempered(program, self.posterior_temperature), None
        if given is None and not self.model:
            raise ValueError(
                "The run was made in Python, and its program is needed here. Give the file that "
                "defines it: `--model file.py:NAME`."
            )
        if given is None:
            raise ValueError(
                f"The run was made with a program of your own, `{self.model['file']}`. Code is "
                "never started from a path that is stored in a run: give the file again, "
                f"`--model {self.model['file']}`."
            )
        if not models.is_file(given):
            raise ValueError(f"--model takes the path of a .py file, not `{given}`.")
        path, name = split_name(given)
        if not self.model:  # `bnn.load` holds it against the run
            return load_program(path, name), path
        if ":" not in given:
            name = self.model["name"]
        program = load_program(path, name)
        if source_hash(path) != self.model["sha256"]:
            raise ValueError(
                f"The file `{path}` is not as it was when the run was made. The draws belong to "
                "the program of then: bring it back, or sample again. If only its form has "
                "changed, load the run in Python: `bayesnn_ppl.load(folder, model=model)`."
            )
        return models.tempered(program, self.posterior_temperature), path


def remember(
    dataset: Any,
    *,
    made_by: str,
    model: dict[str, Any],
    posterior_temperature: float,
    data: dict[str, Any],
    kernel: dict[str, Any] | None = None,
    reference: str | None = None,
    command: str | None = None,
) -> Run:
    """The `Run` of a model on a data set."""
    return Run(
        made_by=made_by,
        model=model,
        posterior_temperature=posterior_temperature,
        data=data,
        data_sha256=dataset.sha256,
        task=dataset.task,
        feature_names=list(dataset.feature_names),
        target_name=dataset.target_name,
        class_names=None if dataset.class_names is None else list(dataset.class_names),
        standardisation=dataset.standardisation.to_dict(),
        kernel=kernel or {},
        reference=reference,
        command=command,
    )


def open_run(folder: Path) -> Run:
    """Read the `run.json` of a folder, or what a run from Python knows of itself.

    Raises:
        FileNotFoundError: the folder, or the file in it, does not exist.
        ValueError: the file is damaged, or of another version.
    """
    if not folder.is_dir():
        near = _near(folder)
        raise FileNotFoundError(
            f"There is no run at `{folder}`."
            + (f" {near}" if near else "")
            + " Give the folder that `bayesnn sample` made."
        )
    file = folder / FILE
    if not file.is_file():
        if (folder / "config.json").is_file():
            return _from_python(bnn.load(folder).provenance)
        raise FileNotFoundError(
            f"The folder `{folder}` has no {FILE} and no config.json, so it is no run. Give the "
            "folder that `bayesnn sample` made, or the `out=` of `bayesnn_ppl.sample`."
        )
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        if values["format"] != _FORMAT:
            raise ValueError(f"its format is {values['format']}, and this version reads {_FORMAT}")
        return Run(**values)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"The file `{file}` cannot be read: {error}. It is written by `bayesnn sample`; "
            "sample again if it is damaged."
        ) from error


def loaded(folder: Path, run: Run, program: Any, given: str | None) -> Any:
    """The posterior of a run with its program.

    Args:
        folder, run: the run.
        program: of `Run.load_model`, perhaps changed since; None without one.
        given: the value of --model.

    Raises:
        ValueError: the draws are of another program; the message says what --model should name.
    """
    try:
        return bnn.load(folder, program)
    except ValueError as error:
        if given is None or "are of another program" not in str(error):
            raise
        path, _ = split_name(given)
        name = run.model.get("name") or name_of(path, bnn.load(folder).provenance["model"])
        remedy = (
            f"In this file it is `--model {path}:{name}`."
            if name
            else f"The file `{path}` does not define it: `--model FILE.py:NAME` names another one."
        )
        raise ValueError(f"{error} {remedy}") from error


def predicting(run: Run, made: dict[str, Any], model: Any) -> Any:
    """The model that the draws predict by; that of SNGP has another last layer.

    Args:
        run: what is remembered of it.
        made: the provenance of its posterior.
        model: of `Run.load_model`.
    """
    if made["kernel"] != "SNGP":
        return model
    settings = made["kernel_settings"]
    known = {name: settings[name] for name in _SNGP_SETTINGS if name in settings}
    data = run.load_data().train
    return bnn.approximations.SNGP(model, **known).program(*data, seed=made["seed"])


def open_posterior(folder: Path, given: str | None = None) -> tuple[Run, Any, Path | None]:
    """A run, its posterior with the model, and the user's file if any.

    Args:
        folder: of the run.
        given: the user's `.py` file, for a run that was made with one.
    """
    run = open_run(folder)
    model, path = run.load_model(given)
    model = predicting(run, bnn.load(folder).provenance, model)
    return run, loaded(folder, run, model, given), path


def _from_python(made: dict[str, Any]) -> Run:
    facts = made.get("dataset") or {}
    units = made["standardisation"]
    if units is None:
        shape = made["input_shape"]
        units = bnn.data.Standardisation.identity(shape[-1] if shape else 1).to_dict()
    labels = made["observed"].startswith(("Categorical", "Bernoulli"))
    return Run(
        made_by="Python",
        model={},
        posterior_temperature=1.0,  # the program that is given has its own
        data=facts.get("loaded_by") or {},
        data_sha256=facts.get("sha256") or made["data_sha256"],
        task=facts.get("task") or ("classification" if labels else "regression"),
        feature_names=facts.get("feature_names") or [],
        target_name=facts.get("target_name") or "y",
        class_names=facts.get("class_names"),
        standardisation=units,
    )


def _near(folder: Path) -> str:
    from bayesnn_ppl.core.arguments import near_misses

    parent = folder.parent
    if not parent.is_dir():
        return ""
    runs = [str(parent / found.parent.name) for found in parent.glob(f"*/{FILE}")]
    return near_misses(str(folder), runs) if runs else ""


def require_new(folder: Path) -> None:
    """Refuse a folder that holds something already.

    Raises:
        FileExistsError: it does.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(
            f"`{folder}` exists and is not empty, and a run is never written over. Choose another "
            "folder with --out, or remove that one first."
        )


def default_folder(data: str, model: str) -> Path:
    """`runs/DATA-MODEL`, or the first of `-2`, `-3`, ... that holds nothing yet."""
    base = Path("runs") / f"{data}-{model}"
    folder, count = base, 1
    while folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        count += 1
        folder = base.with_name(f"{base.name}-{count}")
    return folder


def same_features(run: Run, dataset: Any, name: str) -> None:
    """Refuse a data set whose features are not those of the run, by name and order.

    Raises:
        ValueError: they differ.
    """
    if tuple(run.feature_names) != tuple(dataset.feature_names):
        absent = [n for n in run.feature_names if n not in dataset.feature_names]
        raise ValueError(
            f"The data set `{name}` does not have the features of the run's data "
            f"`{run.data_label}`"
            + (
                f": it lacks {', '.join(f'`{n}`' for n in absent[:5])}."
                if absent
                else ": they stand in another order."
            )
        )


def as_model_inputs(run: Run, raw: Any) -> np.ndarray:
    """Features in the data's units as the model was given them, float32 (N, d)."""
    return run.units.apply_x(raw).astype(np.float32)
