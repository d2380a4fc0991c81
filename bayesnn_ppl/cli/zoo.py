"""Models of the zoo by name, set up for the data at hand."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl.arguments import near_misses
from bayesnn_ppl.cli.options import MODEL_OPTIONS

__all__ = ["build", "check_task", "factory", "is_file", "names", "tasks"]

_LIKELIHOODS = {
    "gaussian": "regression",
    "heteroscedastic": "regression",
    "categorical": "classification",
    "bernoulli": "classification",
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
        ValueError: `task` is none of the model's.
    """
    if task not in (can := tasks(name)):
        others = ", ".join(f"`{other}`" for other in names() if task in tasks(other))
        raise ValueError(
            f"The model `{name}` is for {can[0]}, but the data are for {task}. "
            f"Models for {task} are {others}."
        )


def build(name: str, given: Mapping[str, Any], *, task: str, classes: int | None) -> Any:
    """A model of the zoo for these data.

    Args:
        name: its name.
        given: the options of `MODEL_OPTIONS` that were given; None stands for not given.
        task: of the data.
        classes: number of labels, or None.

    Raises:
        ValueError: no such model, an option that it does not have, or data it is not made for.
    """
    make = factory(name)
    check_task(name, task)
    options = {key: given[key] for key in MODEL_OPTIONS if given.get(key) is not None}
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
                "`bayesnn models` shows what each model can be told."
            )
        arguments[key] = tuple(value) if isinstance(value, list) else value
    return make(**arguments)


def _likelihood(options: dict[str, Any], task: str, classes: int | None) -> Any:
    """The likelihood of the options, which it takes out of them."""
    usual = "categorical" if task == "classification" else "gaussian"
    name = options.pop("likelihood", usual)
    noise = options.pop("noise_scale", None)
    if _LIKELIHOODS[name] != task:
        fit = " and ".join(f"`{known}`" for known, of in _LIKELIHOODS.items() if of == task)
        raise ValueError(
            f"The likelihood `{name}` is for {_LIKELIHOODS[name]}, but the data are for {task}. "
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
    if name == "categorical":
        assert classes is not None  # the data are for classification
        return bnn.likelihoods.categorical(classes)
    return getattr(bnn.likelihoods, name)()


def _prior(options: dict[str, Any]) -> Any:
    """The prior of the options, which it takes out of them, or None for the model's own."""
    scale, variance = options.pop("prior_scale", None), options.pop("prior_variance", None)
    if scale is not None and variance is not None:
        raise ValueError(
            "Give --prior-scale or --prior-variance, not both: one is the other's root."
        )
    if variance is not None:
        return bnn.priors.normal(variance=variance)
    return None if scale is None else bnn.priors.normal(scale)
