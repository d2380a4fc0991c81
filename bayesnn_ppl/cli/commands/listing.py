"""`bayesnn data` and `bayesnn models`: what there is to choose from."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl.cli.shared.options import Argument, Command, Output
from bayesnn_ppl.cli.shared.output import paragraph, print_json, table
from bayesnn_ppl.settings.datasets import ColumnSettings, SplitSettings
from bayesnn_ppl.settings.declaring import given, setting
from bayesnn_ppl.settings.models import zoo
from bayesnn_ppl.settings.models.parameter_counts import parameter_count
from bayesnn_ppl.settings.models.suited_likelihoods import likelihood_advice
from bayesnn_ppl.settings.models.user_models import failures_named, load_model, split_name
from bayesnn_ppl.settings.value_kinds import whole

__all__ = ["DATA", "MODELS"]

_USUAL = {"regression": "diabetes", "classification": "digits"}


def run_data(name: str | None = None, *, settings: SplitSettings, output: Output) -> int:
    """List the data sets, or describe one."""
    if name is None:
        return _list_data(settings, json=output.json)
    dataset = bnn.data.load(name, **given(settings))
    facts = {
        "name": dataset.name,
        "description": dataset.description,
        "task": dataset.task,
        "target": dataset.target_name,
        "classes": None if dataset.class_names is None else list(dataset.class_names),
        "training_rows": len(dataset.train.x),
        "test_rows": len(dataset.test.x),
        "validation_rows": 0 if dataset.validation is None else len(dataset.validation.x),
        "input_shape": list(dataset.test.x.shape[1:]),
        "split": settings.split,
        "features": list(dataset.feature_names),
        "columns": None if dataset.encoding is None else dataset.encoding.to_list(),
        "sha256": dataset.sha256,
        "advice": likelihood_advice(dataset),
    }
    if output.json:
        print_json(facts)
        return 0
    print(dataset.name)
    print(paragraph(dataset.description, indent="  "))
    rows = [
        ("task", dataset.task),
        ("target", dataset.target_name),
        *([("classes", _first(dataset.class_names))] if dataset.class_names else []),
        ("rows", _rows(dataset)),
        ("inputs", "x".join(map(str, dataset.test.x.shape[1:]))),
        (f"features ({len(dataset.feature_names)})", _first(dataset.feature_names)),
        ("sha256", dataset.sha256),
    ]
    print(table(("", ""), [(f"  {name}", value) for name, value in rows]).lstrip("\n"))
    if dataset.encoding is not None:
        print("\n" + table(("COLUMN", "KIND", "BECOMES"), dataset.encoding.rows()))
    if words := likelihood_advice(dataset):
        print("\n" + paragraph(words))
    return 0


def _first(names: Sequence[str]) -> str:
    """The names, or the first of very many."""
    more = f" and {len(names) - 10} more" if len(names) > 70 else ""
    return ", ".join(names[:10] if more else names) + more


def _rows(dataset: Any) -> str:
    """How many rows each part has, in words."""
    third = "" if dataset.validation is None else f", {len(dataset.validation.x)} for validation"
    return f"{len(dataset.train.x)} for training{third}, {len(dataset.test.x)} for testing"


def _list_data(settings: SplitSettings, *, json: bool) -> int:
    for flag in (name.replace("_", "-") for name in given(settings)):
        raise ValueError(f"--{flag} needs a data set: `bayesnn data NAME --{flag} ...`.")
    known = bnn.data.names()
    if json:
        print_json(known)
        return 0
    print(table(("NAME", "DATA"), known.items()))
    print(
        "\n"
        + paragraph(
            "Or give the path of a .csv or .parquet file and its --target column, of an .npz "
            "file, or of a folder of arrays or images; or tfds:NAME, or openml:NAME. "
            "`bayesnn data NAME` describes one."
        )
    )
    return 0


@dataclass(frozen=True)
class ModelsSettings(ColumnSettings):
    """What parameters are counted for."""

    data: str | None = setting(
        "count parameters for this data set",
        metavar="NAME|FILE.csv",
        unit="name or path",
        shown="diabetes, and digits for classification",
    )
    inputs: int | None = setting(
        "count for this many inputs, in place of --data",
        read=whole(1),
        metavar="D",
        unit="features",
        shown="those of the data",
    )
    classes: int | None = setting(
        "count for this many classes, with --inputs",
        read=whole(2),
        metavar="K",
        unit="classes",
        shown="10",
    )


def run_models(model: str | None = None, *, settings: ModelsSettings, output: Output) -> int:
    """List the zoo, or show one model, each with its number of parameters."""
    if settings.classes is not None and settings.inputs is None:
        raise ValueError("--classes needs --inputs; a data set has its own classes.")
    if settings.inputs is not None and settings.data is not None:
        raise ValueError("Give --inputs or --data, not both: a data set has its own inputs.")
    if (settings.target or settings.drop or settings.task) and settings.data is None:
        raise ValueError("--target, --drop and --task are for a .csv file that --data names.")
    if model is not None and zoo.is_file(model):
        found = [_describe_file(model, settings)]
    elif model is not None:
        zoo.factory(model)
        found = [_describe(model, settings, alone=True)]
    else:
        found = [_describe(name, settings) for name in zoo.names()]
    if output.json:
        print_json(found)
        return 0
    print(
        table(
            ("MODEL", "PARAMETERS", "COUNTED FOR", "WHAT IT IS"),
            [
                (
                    entry["name"],
                    "-" if entry["parameters"] is None else f"{entry['parameters']:,}",
                    entry["counted_for"],
                    entry["description"],
                )
                for entry in found
            ],
            right=(1,),
        )
    )
    if model is None:
        print(
            "\n"
            + paragraph(
                "Count for other data with --data NAME, or --inputs D --classes K. "
                "`bayesnn models NAME` shows the options of a model; for your own model give the "
                "path of its .py file."
            )
        )
    elif "signature" in found[0]:
        print("\n" + "\n".join(f"  {line}" for line in found[0]["signature"]))
    return 0


def _describe(name: str, settings: ModelsSettings, *, alone: bool = False) -> dict[str, Any]:
    """What a model of the zoo is, and how many parameters its network has."""
    make = zoo.factory(name)
    can = zoo.tasks(name)
    entry: dict[str, Any] = {
        "name": name,
        "tasks": list(can),
        "description": (inspect.getdoc(make) or "").split("\n\n")[0].replace("\n", " "),
        "parameters": None,
        "counted_for": "",
        "signature": [f"{name}("]
        + [f"    {p}," for p in inspect.signature(make).parameters.values()]
        + [")"],
    }
    kind = zoo.input_kind(name)
    classes: int | None
    if kind != "tables" and settings.data is None and settings.inputs is None:
        shape, classes = zoo.EXAMPLES[name]
        x = np.zeros((1, *shape), np.int32 if kind == "tokens" else np.float32)
        task, entry["counted_for"] = "classification", f"{_axes(shape)} {kind}, K={classes}"
    else:
        task, x, classes, entry["counted_for"] = _inputs(can, settings)
        if alone:
            zoo.check_inputs(name, x)
    if task not in can:
        entry["counted_for"] = f"not for {task}"
    elif not zoo.takes(name, x):
        entry["counted_for"] = f"for {kind} only"
    else:
        model = zoo.build(name, {}, task=task, classes=classes)
        entry["parameters"] = parameter_count(model, x, network_only=True)
    return entry


def _inputs(
    can: tuple[str, ...], settings: ModelsSettings
) -> tuple[str, np.ndarray, int | None, str]:
    """Task, one row of inputs and classes to count for, and these in words."""
    if settings.inputs is not None:
        x = np.zeros((1, settings.inputs), np.float32)
        classes = settings.classes
        task = (
            "classification" if can == ("classification",) or (classes and len(can) > 1) else can[0]
        )
        if task == "regression":
            return task, x, None, f"d={settings.inputs}"
        classes = classes or 10
        return task, x, classes, f"d={settings.inputs}, K={classes}"
    name = settings.data or _USUAL[can[0]]
    options = {k: v for k in ("target", "drop", "task") if (v := getattr(settings, k)) is not None}
    dataset = bnn.data.load(name, **options)
    x = np.zeros_like(dataset.train.x[:1])
    words = "" if dataset.classes is None else f", K={dataset.classes}"
    return dataset.task, x, dataset.classes, f"{dataset.name}, d={_axes(x.shape[1:])}{words}"


def _axes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _describe_file(model: str, settings: ModelsSettings) -> dict[str, Any]:
    """A model of the user, and how many numbers it samples."""
    path, name = split_name(model)
    built = load_model(path, name)
    _, x, _, label = _inputs(("regression",), settings)
    with failures_named(path):
        count = parameter_count(built, np.repeat(x, 2, axis=0), network_only=False)
    return {
        "name": model,
        "description": (inspect.getdoc(built) or "a model of your own").split("\n\n")[0],
        "parameters": count,
        "counted_for": label,
    }


DATA = Command(
    "data",
    "list the data sets, or describe one",
    run_data,
    (Argument("name", "describe this one [default: list all]", "NAME|FILE.csv", default=None),),
    {"Options": ("settings", SplitSettings)},
)
MODELS = Command(
    "models",
    "list the models with their numbers of parameters",
    run_models,
    (
        Argument(
            "model",
            "show this one: a name, or a path to a .py file [default: list the zoo]",
            "MODEL",
            default=None,
        ),
    ),
    {"Options": ("settings", ModelsSettings)},
)
