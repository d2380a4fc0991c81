"""`run.json`: what rebuilds the model and the data of a saved run, and no code."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl.settings.models import zoo
from bayesnn_ppl.settings.models.user_models import load_model, source_hash, split_name

__all__ = ["Run", "default_folder", "remember", "require_new"]

FILE = "run.json"
FORMAT = 1


@dataclass(frozen=True)
class Run:
    """What a saved run stores in addition to the posterior.

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
        encoding: `TableEncoding.to_list()`; None where the columns of the data are the features.
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
    encoding: list[dict[str, Any]] | None = None
    kernel: dict[str, Any] = field(default_factory=dict)
    reference: str | None = None
    command: str | None = None
    format: int = FORMAT

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
        return Path(self.model["file"]).name if "file" in self.model else "a model from Python"

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
                "The run was made in Python from arrays, which it does not keep, so it has no "
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
        """The model of the run, and the user's file where it comes from one.

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
            model = zoo.build(self.model["zoo"], options, task=self.task, classes=classes)
            return zoo.tempered(model, self.posterior_temperature), None
        if given is None and not self.model:
            raise ValueError(
                "The run was made in Python, and its model is needed here. Give the file that "
                "defines it: `--model file.py:NAME`."
            )
        if given is None:
            raise ValueError(
                f"The run was made with a model of your own, `{self.model['file']}`. Code is "
                "never started from a path that is stored in a run: give the file again, "
                f"`--model {self.model['file']}`."
            )
        if not zoo.is_file(given):
            raise ValueError(f"--model takes the path of a .py file, not `{given}`.")
        path, name = split_name(given)
        if not self.model:  # `bnn.load` checks it against the run
            return load_model(path, name), path
        if ":" not in given:
            name = self.model["name"]
        model = load_model(path, name)
        if source_hash(path) != self.model["sha256"]:
            raise ValueError(
                f"The file `{path}` is not as it was when the run was made. The draws belong to "
                "the model of then: bring it back, or sample again. If only its form has "
                "changed, load the run in Python: `bayesnn_ppl.load(folder, model=model)`."
            )
        return zoo.tempered(model, self.posterior_temperature), path


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
        encoding=None if dataset.encoding is None else dataset.encoding.to_list(),
        kernel=kernel or {},
        reference=reference,
        command=command,
    )


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
    """Refuse a data set whose features are not those of the run, by name, order and encoding.

    Raises:
        ValueError: they differ.
    """
    encoding = None if dataset.encoding is None else dataset.encoding.to_list()
    if encoding != run.encoding and run.encoding is not None:
        raise ValueError(
            f"The words, dates or gaps of `{name}` become other features than in the run, because "
            "its training rows have other categories and medians. Give the rows as a table: "
            "--data FILE.csv."
        )
    if tuple(run.feature_names) != tuple(dataset.feature_names):
        absent = [n for n in run.feature_names if n not in dataset.feature_names]
        raise ValueError(
            f"The data set `{name}` does not have the features of the run's data "
            f"`{run.data.get('name', run.data_label)}`"
            + (
                f": it lacks {', '.join(f'`{n}`' for n in absent[:5])}."
                if absent
                else ": they are in another order."
            )
        )


def as_model_inputs(run: Run, raw: Any) -> np.ndarray:
    """Features in the data's units as the model was given them, float32 (N, d)."""
    return run.units.apply_x(raw).astype(np.float32)
