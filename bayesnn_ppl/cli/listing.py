"""`bayesnn data` and `bayesnn models`: what there is to choose from."""

import argparse
import inspect
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
        *([("classes", ", ".join(dataset.class_names))] if dataset.class_names else []),
        ("rows", f"{len(dataset.train.x)} for training, {len(dataset.test.x)} for testing"),
        (f"features ({len(dataset.feature_names)})", ", ".join(dataset.feature_names)),
        ("sha256", dataset.sha256),
    ]
    print(table(("", ""), [(f"  {name}", value) for name, value in rows]).lstrip("\n"))
    return 0


def _list_data(arguments: argparse.Namespace) -> int:
    given = [name for name in ("target", "task", "test_fraction") if getattr(arguments, name)]
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
            "Or give the path of a .csv file with a header, and its --target column. "
            "`bayesnn data NAME` tells more."
        )
    )
    return 0


def parameter_count(program: Any, x: Any, *, network_only: bool) -> int:
    """The number of parameters of a program at inputs like `x`, from shapes alone.

    Args:
        program: the NumPyro program.
        x: inputs (N, d), of which only the shape counts.
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
    task, width, classes, label = _shape(can, arguments)
    entry["counted_for"] = label
    if task in can:
        program = zoo.build(name, {}, task=task, classes=classes)
        x = np.zeros((1, width), np.float32)
        entry["parameters"] = parameter_count(program, x, network_only=True)
    else:
        entry["counted_for"] = f"not for {task}"
    return entry


def _shape(can: tuple[str, ...], arguments: argparse.Namespace) -> tuple[str, int, int | None, str]:
    """Task, inputs and classes to count for, and these in words."""
    if arguments.inputs is not None:
        classes = arguments.classes
        task = (
            "classification" if can == ("classification",) or (classes and len(can) > 1) else can[0]
        )
        if task == "regression":
            return task, arguments.inputs, None, f"d={arguments.inputs}"
        classes = classes or 10
        return task, arguments.inputs, classes, f"d={arguments.inputs}, K={classes}"
    name = arguments.data or _USUAL[can[0]]
    options = {k: v for k in ("target", "task") if (v := getattr(arguments, k)) is not None}
    dataset = bnn.data.load(name, **options)
    width = dataset.train.x.shape[1]
    classes = "" if dataset.classes is None else f", K={dataset.classes}"
    return dataset.task, width, dataset.classes, f"{dataset.name}, d={width}{classes}"


def _describe_file(arguments: argparse.Namespace) -> dict[str, Any]:
    """A program of the user, and how many numbers it samples."""
    path, name = split_name(arguments.model)
    program = load_program(path, name)
    _, width, _, label = _shape(("regression",), arguments)
    with failures_named(path):
        count = parameter_count(program, np.zeros((2, width), np.float32), network_only=False)
    return {
        "name": arguments.model,
        "description": (inspect.getdoc(program) or "a program of your own").split("\n\n")[0],
        "parameters": count,
        "counted_for": label,
    }
