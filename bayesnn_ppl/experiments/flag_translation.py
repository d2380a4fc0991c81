"""The settings that flags of bnn_hmc's scripts stand for."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.experiments.bnn_hmc_flags import FLAGS
from bayesnn_ppl.experiments.recipe import Recipe
from bayesnn_ppl.settings.datasets import load_data
from bayesnn_ppl.settings.jobs import job_from

__all__ = ["settings_of_flags"]

_MODELS = {"resnet20_frn_swish": "resnet20_frn", "logistic_regression": "logistic"}
_RELU = {"resnet20_frn": {"activation": "relu"}}  # that name is of swish units here


def settings_of_flags(
    given: Mapping[str, Any], recipe: Recipe, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], str | None, list[str]]:
    """What the flags that were given mean.

    Args:
        given: name -> what was typed, True for a switch.
        recipe: which is run.
        settings: of the recipe at its scale, `--set` included.

    Returns:
        Settings; the folder of `--dir`, or None; and a sentence for each flag that changes nothing.

    Raises:
        ValueError: a flag that something else replaces, or a value that it cannot have.
    """
    for name in given:
        if FLAGS[name].refusal:
            raise ValueError(f"--{name} has no counterpart: {FLAGS[name].refusal}.")
    answers = [f"--{name}: {FLAGS[name].answer}." for name in given if FLAGS[name].answer]
    made = _Given(given, recipe, dict(settings))
    found = made.translated()
    made.check_leapfrogs({**settings, **found})
    return found, given.get("dir"), answers


class _Given:
    """The flags that were given, and the settings that they are over."""

    def __init__(self, given: Mapping[str, Any], recipe: Recipe, settings: dict[str, Any]) -> None:
        self.given, self.recipe, self.settings = given, recipe, settings

    def translated(self) -> dict[str, Any]:
        """Settings of the flags: first those that epochs are counted by, then the rest."""
        found = {
            flag.setting: _value(self.given[name])
            for name, flag in FLAGS.items()
            if name in self.given and flag.setting
        }
        for name, put in _SINGLE.items():
            if name in self.given:
                found |= put(self, str(self.given[name]))
        self.settings |= found
        if "num_iterations" in self.given:
            warmup = self.settings.get("warmup", 0)
            draws = _whole("num_iterations", self.given["num_iterations"]) - warmup
            if draws < 1:
                raise ValueError(
                    f"--num_iterations={self.given['num_iterations']} counts the {warmup} draws of "
                    "the warm-up, and leaves none to keep. Ask for more."
                )
            found["draws"] = draws
        if "init_step_size" in self.given:
            found |= self._first_step(self.given["init_step_size"])
        if self.recipe.command == "sample":
            found |= self._in_epochs()
        elif "num_epochs" in self.given:
            found["epochs"] = _whole("num_epochs", self.given["num_epochs"])
        return found

    def check_leapfrogs(self, settings: Mapping[str, Any]) -> None:
        """Refuse longer trajectories than --max_num_leapfrog_steps, as bnn_hmc does."""
        if "max_num_leapfrog_steps" not in self.given:
            return
        most = _whole("max_num_leapfrog_steps", self.given["max_num_leapfrog_steps"])
        if "trajectory_length" not in settings or "step_size" not in settings:
            raise ValueError(f"--max_num_leapfrog_steps: `{self.recipe.name}` is not HMC. Drop it.")
        steps = math.ceil(settings["trajectory_length"] / settings["step_size"] - 1e-6)
        if steps > most:
            raise ValueError(
                f"A trajectory would have {steps} leapfrog steps, and --max_num_leapfrog_steps is "
                f"{most}. Raise it, or make the step larger or the trajectory shorter."
            )

    def _first_step(self, text: str) -> dict[str, Any]:
        step = _number("init_step_size", text)
        if self.recipe.command == "sample":
            return {"step_size": step}
        sgd = self.settings.get("optimiser") == "sgd"
        return {"learning_rate": step * self._rows() if sgd else step}

    def _in_epochs(self) -> dict[str, Any]:
        """Warm-up, draws and lengths of draws and cycles, of flags that count epochs."""
        names = ("num_epochs", "num_burnin_epochs", "ensemble_freq")
        epochs = {n: _whole(n, self.given[n]) for n in names if n in self.given}
        cycle = self.given.get("step_size_cycle_length_epochs")
        if not epochs and cycle is None:
            return {}
        batch = self.settings.get("batch_size")
        if batch is None:
            raise ValueError(
                f"`{self.recipe.name}` takes no minibatches, so it has no epochs: count draws, "
                "`--set draws=N --set warmup=N`."
            )
        an_epoch = max(self._rows() // batch, 1)
        length = self.settings.get("steps_per_draw", 100)
        each = epochs["ensemble_freq"] * an_epoch if "ensemble_freq" in epochs else length
        found: dict[str, Any] = {"steps_per_draw": each}
        warmup = self.settings.get("warmup", 0) * length
        total = warmup + self.settings.get("draws", 0) * length
        if "num_burnin_epochs" in epochs:
            warmup = epochs["num_burnin_epochs"] * an_epoch
        if "num_epochs" in epochs:
            total = epochs["num_epochs"] * an_epoch
        if warmup % each or (total - warmup) % each or total <= warmup:
            raise ValueError(
                f"{total / an_epoch:g} epochs, {warmup / an_epoch:g} of them burn-in, do not make "
                f"whole draws of {each / an_epoch:g} epochs. Choose multiples of that, or another "
                "--ensemble_freq."
            )
        found |= {"warmup": warmup // each, "draws": (total - warmup) // each}
        if cycle is not None:
            cycle_name = "step_size_cycle_length_epochs"
            found["steps_per_cycle"] = _whole(cycle_name, cycle) * an_epoch
        return found

    def _rows(self) -> int:
        """Training rows of the recipe's data."""
        if "subset" in self.settings:
            return int(self.settings["subset"])
        where = f"The recipe `{self.recipe.name}`"
        job = job_from(self.recipe.command, self.settings, where)
        return len(load_data(job.data, needed=job.zoo.standardised)[0].train.x)


def _dataset(_: _Given, text: str) -> dict[str, Any]:
    name, _underscore, split = text.rpartition("_")
    return {"data": name, "split": int(split)} if name and split.isdigit() else {"data": text}


def _momentum(given: _Given, text: str) -> dict[str, Any]:
    name = "momentum_decay" if given.recipe.command == "sample" else "momentum"
    value = _number(name, text, zero=True)
    if given.settings.get("kernel") == "sgld":
        if value:
            raise ValueError(
                f"`{given.recipe.name}` is SGLD, which has no momentum: its flag is --momentum=0. "
                "Take `sghmc-cifar10`, or --set kernel=sghmc."
            )
        return {}
    return {name: value}


def _word(name: str, words: Mapping[str, str], setting: str) -> Callable[[_Given, str], Any]:
    def put(_: _Given, text: str) -> dict[str, Any]:
        if text not in words:
            raise ValueError(f"--{name}={text} is unknown. {near_misses(text, words)}")
        return {setting: words[text]}

    return put


def _init_checkpoint(given: _Given, text: str) -> dict[str, Any]:
    if given.recipe.command != "sample":
        raise ValueError(
            f"`{given.recipe.name}` trains a network from the start, so --init_checkpoint is not "
            "for it. `bayesnn resume` continues a run; --mean_init_checkpoint is for an "
            "approximation that begins at a trained network."
        )
    return {"init": text}


def _mean_init_checkpoint(given: _Given, text: str) -> dict[str, Any]:
    if "mode" not in given.settings:
        raise ValueError(
            f"`{given.recipe.name}` begins at no other network, so --mean_init_checkpoint is not "
            "for it. Drop it."
        )
    of_training = [name for name in given.settings if name.startswith("mode_")]
    return {"mode": text} | dict.fromkeys(of_training, "")


# Flags whose value is not that of the setting.
_SINGLE: dict[str, Callable[[_Given, str], dict[str, Any]]] = {
    "dataset_name": _dataset,
    "init_checkpoint": _init_checkpoint,
    "mean_init_checkpoint": _mean_init_checkpoint,
    "model_name": lambda _, text: {"model": _MODELS.get(text, text)} | _RELU.get(text, {}),
    "weight_decay": lambda _, text: {"prior_variance": 1 / _number("weight_decay", text)},
    "use_float64": lambda *_: {"float64": True},
    "save_all_ensembled": lambda *_: {"keep": "weights"},
    "step_size": lambda *_: {"adapt_step_size": False},
    "momentum": _momentum,
    "momentum_decay": _momentum,
    "preconditioner": _word(
        "preconditioner", {"None": "none", "RMSprop": "rmsprop-plain"}, "preconditioner"
    ),
    "step_size_schedule": _word(
        "step_size_schedule", {"constant": "burn-in", "cyclical": "cyclical-step"}, "schedule"
    ),
    "optimizer": _word("optimizer", {"SGD": "sgd", "Adam": "adamw"}, "optimiser"),
}


def _value(text: Any) -> Any:
    """A number where it is one."""
    try:
        number = float(text)
    except (TypeError, ValueError):
        return text
    return int(number) if number.is_integer() and "." not in str(text) else number


def _number(name: str, text: Any, *, zero: bool = False) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"--{name} takes a number, not `{text}`.") from None
    if not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
        raise ValueError(f"--{name} takes a number above 0, not `{text}`.")
    return value


def _whole(name: str, text: Any) -> int:
    value = _number(name, text, zero=True)
    if not value.is_integer():
        raise ValueError(f"--{name} takes an integer, not `{text}`.")
    return int(value)
