"""`bayesnn data` and `bayesnn models`: what there is to choose from."""

import argparse
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import zoo
from bayesnn_ppl.cli.output import paragraph, print_json, table
from bayesnn_ppl.cli.user_model import failures_named, load_program, split_name

__all__ = ["parameter_count", "run_data", "run_models"]

_USUAL = {"regression": "diabetes", "classification": "digits"}


def run_data(arguments: argparse.Namespace) -> int:
    """List the data sets, or describe one."""
    if arguments.name is None:
        return _list_data(arguments)
    options = {
        name: value
        for name in ("target", "task", "test_fraction")
        if (value := getattr(arguments, name)) is not None
    }
    dataset = bnn.data.load(arguments.name, split=arguments.split, **options)
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
        "split": arguments.split,
        "features": list(dataset.feature_names),
        "sha256": dataset.sha256,
    }
    if arguments.json:
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
    return 0


def _first(names: Sequence[str]) -> str:
    """The names, or the first of very many."""
    shown = names if len(names) <= 70 else names[:10]
    rest = "" if len(shown) == len(names) else f" and {len(names) - len(shown)} more"
    return ", ".join(shown) + rest


def _rows(dataset: Any) -> str:
    """How many rows each part has, in words."""
    third = "" if dataset.validation is None else f", {len(dataset.validation.x)} for validation"
    return f"{len(dataset.train.x)} for training{third}, {len(dataset.test.x)} for testing"


def _list_data(arguments: argparse.Namespace) -> int:
    names = ("target", "task", "test_fraction")
    given = [name for name in names if getattr(arguments, name) is not None]
    if given or arguments.split:
        flag = (given or ["split"])[0].replace("_", "-")
        raise ValueError(
            f"--{flag} needs a data set to describe: `bayesnn data NAME --{flag} ...`."
        )
    known = bnn.data.names()
    if arguments.json:
        print_json(known)
        return 0
    print(table(("NAME", "DATA"), known.items()))
    print(
        "\n"
        + paragraph(
            "Or give the path of a .csv or .parquet file and its --target column, of an .npz "
            "file, or of a folder of arrays or images; or tfds:NAME, or openml:NAME. "
            "`bayesnn data NAME` tells more."
        )
    )
    return 0


def parameter_count(program: Any, x: Any, *, network_only: bool) -> int:
    """The number of parameters of a program at inputs like `x`, from shapes alone.

    Args:
        program: the NumPyro program.
        x: inputs (N, ...), of which only shape and type count.
        network_only: leave out latent sites besides the network, such as a noise scale.
    """
    import jax
    from numpyro import handlers

    sizes: dict[str, int] = {}

    def run(key: Any, x: Any) -> None:
        trace = handlers.trace(handlers.seed(program, key)).get_trace(x)
        sizes.update(
            (name, int(np.prod(site["fn"].shape())))
            for name, site in trace.items()
            if site["type"] == "sample" and not site["is_observed"] and name != "y"
        )

    jax.eval_shape(run, jax.random.key(0), x)
    prefix = f"{getattr(program, 'name', '')}/" if network_only else ""
    return sum(size for name, size in sizes.items() if name.startswith(prefix))


def run_models(arguments: argparse.Namespace) -> int:
    """List the zoo, or show one model, each with its number of parameters."""
    if arguments.classes is not None and arguments.inputs is None:
        raise ValueError("--classes goes with --inputs; a data set has its own classes.")
    if arguments.inputs is not None and arguments.data is not None:
        raise ValueError("Give --inputs or --data, not both: a data set has its own inputs.")
    if (arguments.target or arguments.task) and arguments.data is None:
        raise ValueError("--target and --task are for a .csv file that --data names.")
    if arguments.model is not None and zoo.is_file(arguments.model):
        found = [_describe_file(arguments)]
    elif arguments.model is not None:
        zoo.factory(arguments.model)
        found = [_describe(arguments.model, arguments)]
    else:
        found = [_describe(name, arguments) for name in zoo.names()]
    if arguments.json:
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
    if arguments.model is None:
        print(
            "\n"
            + paragraph(
                "Count for other data with --data NAME, or --inputs D --classes K. "
                "`bayesnn models NAME` shows what a model can be told; a model of your own is the "
                "path of its .py file."
            )
        )
    elif "signature" in found[0]:
        print("\n" + "\n".join(f"  {line}" for line in found[0]["signature"]))
    return 0


def _describe(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
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
    if kind != "tables" and arguments.data is None and arguments.inputs is None:
        shape, classes = zoo.EXAMPLES[name]
        x = np.zeros((1, *shape), np.int32 if kind == "tokens" else np.float32)
        task, entry["counted_for"] = "classification", f"{_axes(shape)} {kind}, K={classes}"
    else:
        task, x, classes, entry["counted_for"] = _inputs(can, arguments)
        if arguments.model is not None:
            zoo.check_inputs(name, x)
    if task not in can:
        entry["counted_for"] = f"not for {task}"
    elif not zoo.takes(name, x):
        entry["counted_for"] = f"for {kind} only"
    else:
        program = zoo.build(name, {}, task=task, classes=classes)
        entry["parameters"] = parameter_count(program, x, network_only=True)
    return entry


def _inputs(
    can: tuple[str, ...], arguments: argparse.Namespace
) -> tuple[str, np.ndarray, int | None, str]:
    """Task, one row of inputs and classes to count for, and these in words."""
    if arguments.inputs is not None:
        x = np.zeros((1, arguments.inputs), np.float32)
        classes = arguments.classes
        task = (
            "classification" if can == ("classification",) or (classes and len(can) > 1) else can[0]
        )
        if task == "regression":
            return task, x, None, f"d={arguments.inputs}"
        classes = classes or 10
        return task, x, classes, f"d={arguments.inputs}, K={classes}"
    name = arguments.data or _USUAL[can[0]]
    options = {k: v for k in ("target", "task") if (v := getattr(arguments, k)) is not None}
    dataset = bnn.data.load(name, **options)
    x = np.zeros_like(dataset.train.x[:1])
    words = "" if dataset.classes is None else f", K={dataset.classes}"
    return dataset.task, x, dataset.classes, f"{dataset.name}, d={_axes(x.shape[1:])}{words}"


def _axes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _describe_file(arguments: argparse.Namespace) -> dict[str, Any]:
    """A program of the user, and how many numbers it samples."""
    path, name = split_name(arguments.model)
    program = load_program(path, name)
    _, x, _, label = _inputs(("regression",), arguments)
    with failures_named(path):
        count = parameter_count(program, np.repeat(x, 2, axis=0), network_only=False)
    return {
        "name": arguments.model,
        "description": (inspect.getdoc(program) or "a program of your own").split("\n\n")[0],
        "parameters": count,
        "counted_for": label,
    }
