"""Models by name, of the zoo or of a file, set up for the data at hand."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl.core.arguments import near_misses, series
from bayesnn_ppl.settings.declaring import declared, flag, given
from bayesnn_ppl.settings.models.model_settings import LIKELIHOODS, ModelSettings, ZooSettings
from bayesnn_ppl.settings.models.prior_families import prior_of
from bayesnn_ppl.settings.models.user_models import load_model, source_hash, split_name

__all__ = [
    "EXAMPLES",
    "build",
    "check_inputs",
    "check_name",
    "check_task",
    "chosen_model",
    "factory",
    "input_kind",
    "is_file",
    "names",
    "takes",
    "tasks",
    "tempered",
]


_COMPONENTS = 3  # of a mixture density, as `--help` says

# Models that are not for tables: the shape of one input, and the number of classes, that their
# published parameter counts are for. An input of one axis is a sequence of tokens.
EXAMPLES: dict[str, tuple[tuple[int, ...], int]] = {
    "cifar_alexnet": ((32, 32, 3), 10),
    "cnn_lstm": ((100,), 2),
    "lenet": ((28, 28, 1), 10),
    "medmnist_lenet": ((28, 28, 3), 7),
    "resnet20_frn": ((32, 32, 3), 10),
    "transformer": ((100,), 2),
}


def names() -> list[str]:
    """The names of the zoo."""
    return list(bnn.models.__all__)


def is_file(model: str) -> bool:
    """Whether a model is named by the path of a `.py` file, with or without `:NAME`."""
    path, _, name = model.rpartition(":")
    return model.endswith(".py") or (path.endswith(".py") and name.isidentifier())


def factory(name: str) -> Callable[..., Any]:
    """The zoo's function of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in names():
        raise ValueError(
            f"There is no model `{name}` in the zoo. {near_misses(name, names())} "
            "A model of your own is given by the path of its .py file."
        )
    return getattr(bnn.models, name)


def check_name(model: str, command: str, target: str | None = None) -> None:
    """Refuse what names no model, before any data are loaded.

    Args:
        model: as it was typed.
        command: of `bayesnn`, such as "sample".
        target: the column of --target.

    Raises:
        ValueError: it is a table, a data set, or a name that the zoo does not have.
    """
    if is_file(model) or model in names():
        return
    table = model.lower().endswith((".csv", ".parquet", ".pq", ".npz"))
    if table or model in bnn.data.names():
        what = "a table" if table else "a data set"
        column = f" --target {target or 'COLUMN'}" if table else ""
        raise ValueError(
            f"`{model}` is {what}, not a model: "
            f"`bayesnn {command} mlp --data {model}{column}`, for one."
        )
    from bayesnn_ppl.settings.methods.approximations import approximation_kinds
    from bayesnn_ppl.settings.methods.kernels import kernel_kinds

    methods = {"sample": kernel_kinds, "fit": approximation_kinds}.get(command, dict)()
    known = [*names(), *methods]
    raise ValueError(
        f"There is no model `{model}` in the zoo. {near_misses(model, known)} A model of your own "
        "is given by the path of its .py file."
    )


def tasks(name: str) -> tuple[str, ...]:
    """What a model of the zoo can do: "regression", "classification" or both."""
    parameters = inspect.signature(factory(name)).parameters
    if "classes" in parameters:
        return ("classification",)
    if "likelihood" in parameters:
        return ("regression", "classification")
    return (factory(name)().likelihood.task,)


def check_task(name: str, task: str) -> None:
    """Refuse a model that cannot learn the target.

    Raises:
        ValueError: `task` is not one of the model's.
    """
    if task not in (can := tasks(name)):
        others = series(f"`{other}`" for other in names() if task in tasks(other))
        raise ValueError(
            f"The model `{name}` is for {can[0]}, but the data are for {task}. "
            f"Models for {task} are {others}."
        )


def input_kind(name: str) -> str:
    """What a model of the zoo takes: "tables", "images" or "tokens"."""
    if name not in EXAMPLES:
        return "tables"
    return "images" if len(EXAMPLES[name][0]) > 1 else "tokens"


def takes(name: str, x: Any) -> bool:
    """Whether a model of the zoo can take inputs like `x`; multilayer perceptrons flatten any."""
    return input_kind(name) in ("tables", _kind(x))


def check_inputs(name: str, x: Any) -> None:
    """Refuse a model that cannot take inputs like `x`.

    Raises:
        ValueError: `x` is not of the model's kind.
    """
    if not takes(name, x):
        others = series(f"`{other}`" for other in names() if input_kind(other) == _kind(x))
        raise ValueError(
            f"The model `{name}` is for {input_kind(name)}, but the data are {_kind(x)}: inputs of "
            f"shape {tuple(x.shape[1:])} and type {x.dtype}. Models for {_kind(x)} are {others}."
        )


def _kind(x: Any) -> str:
    if x.ndim > 2:
        return "images"
    return "tokens" if x.dtype.kind in "iu" else "tables"


def build(name: str, given: Mapping[str, Any], *, task: str, classes: int | None) -> Any:
    """A model of the zoo for these data.

    Args:
        name: its name.
        given: of `ZooSettings`, those that were given; None means not given.
        task: of the data.
        classes: number of labels, or None.

    Raises:
        ValueError: no such model, an option that it does not have, or data it is not made for.
    """
    make = factory(name)
    check_task(name, task)
    options = {key: given[key] for key in declared(ZooSettings) if given.get(key) is not None}
    dirty = {key: options.pop(key) for key in ("augmentation", "dropout") if key in options}
    parameters = inspect.signature(make).parameters
    arguments: dict[str, Any] = {}
    if "likelihood" in parameters:
        arguments["likelihood"] = _likelihood(options, task, classes)
    if "classes" in parameters:
        arguments["classes"] = classes
    prior = _prior(options)
    if prior is not None:
        arguments["prior"] = prior
    # What is left has the name that it has in Python.
    for key, value in options.items():
        if key not in parameters:
            flag = key.replace("_", "-")
            raise ValueError(
                f"The model `{name}` has no option --{flag}: it is fixed there. "
                "`bayesnn models` shows the options of each model."
            )
        arguments[key] = tuple(value) if isinstance(value, list) else value
    model = make(**arguments)
    return (
        replace(model, likelihood=bnn.likelihoods.dirty(model.likelihood, **dirty))
        if dirty
        else model
    )


def _likelihood(options: dict[str, Any], task: str, classes: int | None) -> Any:
    """The likelihood of the options, which it takes out of them."""
    usual = "categorical" if task == "classification" else "gaussian"
    name = options.pop("likelihood", usual)
    noise = options.pop("noise_scale", None)
    if LIKELIHOODS[name] != task:
        fit = series(f"`{known}`" for known, of in LIKELIHOODS.items() if of == task)
        raise ValueError(
            f"The likelihood `{name}` is for {LIKELIHOODS[name]}, but the data are for {task}. "
            f"Likelihoods for {task} are {fit}."
        )
    if noise is not None and name != "gaussian":
        raise ValueError(
            f"The option --noise-scale fixes the noise of the gaussian likelihood; the {name} "
            "likelihood has none. Leave it out."
        )
    if name == "bernoulli" and classes != 2:
        raise ValueError(
            f"The bernoulli likelihood is for two classes, but the data have {classes}. "
            "Use `--likelihood categorical`."
        )
    if name == "gaussian":
        return bnn.likelihoods.gaussian(noise)
    if name in ("categorical", "ordinal"):
        assert classes is not None  # the data are for classification
        return getattr(bnn.likelihoods, name)(classes)
    if name == "mixture_density":
        return bnn.likelihoods.mixture_density(_COMPONENTS)
    return getattr(bnn.likelihoods, name)()


def _prior(options: dict[str, Any]) -> Any:
    """The prior of the options, which it takes out of them, or None for the model's own."""
    family = options.pop("prior", None)
    scale, variance = options.pop("prior_scale", None), options.pop("prior_variance", None)
    if scale is not None and variance is not None:
        raise ValueError(
            "Give --prior-scale or --prior-variance, not both: one is the other's root."
        )
    if family is not None:
        if variance is None:
            variance = 1.0 if scale is None else scale**2
        return prior_of(family, variance)
    if variance is not None:
        return bnn.priors.normal(variance=variance)
    return None if scale is None else bnn.priors.normal(scale)


def tempered(model: Any, temperature: float) -> Any:
    """The model at a temperature of the whole posterior."""
    return model if temperature == 1.0 else bnn.cold(model, temperature)


def chosen_model(
    name: str, zoo: ZooSettings, settings: ModelSettings, dataset: Any
) -> tuple[Any, dict[str, Any], Path | None]:
    """The model, what brings it back, and the user's file if it is the user's.

    Args:
        name: of the zoo, or `FILE.py` or `FILE.py:NAME`.
        zoo, settings: of models of the zoo, and of all.
        dataset: the data.

    Raises:
        ValueError: settings that do not apply to the model, or data it is not made for.
    """
    told, temperature = given(zoo), settings.posterior_temperature
    if not is_file(name):
        check_inputs(name, dataset.train.x)
        model = build(name, told, task=dataset.task, classes=dataset.classes)
        return tempered(model, temperature), {"zoo": name, "options": told}, None
    path, inside = split_name(name)
    if told:
        raise ValueError(
            f"The options {', '.join(map(flag, told))} are for models of the zoo; `{path}` is a "
            "model of your own. Set these things there."
        )
    model = tempered(load_model(path, inside), temperature)
    return model, {"file": name, "name": inside, "sha256": source_hash(path)}, path
