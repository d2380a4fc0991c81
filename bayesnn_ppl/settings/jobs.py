"""All settings of one run of a kernel, or of one fit of an approximation."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from bayesnn_ppl.settings.datasets import DataSettings
from bayesnn_ppl.settings.declaring import (
    declared,
    from_plain,
    setting,
    switch,
    unknown_setting,
    words,
)
from bayesnn_ppl.settings.methods.approximations import (
    approximation_group,
    chosen_approximation,
    make_approximation,
)
from bayesnn_ppl.settings.methods.kernels import (
    check_kernel,
    chosen_kernel,
    kernel_group,
    make_kernel,
)
from bayesnn_ppl.settings.models.model_settings import ModelSettings, ZooSettings
from bayesnn_ppl.settings.sampling import EndingSettings, KeepSettings, RunSettings
from bayesnn_ppl.settings.value_kinds import choice, whole

__all__ = ["Fit", "FitSettings", "Sample", "ScoreSettings", "job_from", "line_of"]


def _any_model(x: Any, y: Any = None, *, batch_size: int | None = None) -> None:
    """Stands for the model while settings are checked; it is never run."""


@dataclass(frozen=True)
class ScoreSettings:
    """What predictions are compared with."""

    reference: str | None = setting(
        "compare predictions at the test rows with the published ones of full-batch HMC",
        read=choice("cifar10", "imdb"),
        unit="word",
        shown="no comparison",
    )


@dataclass(frozen=True)
class FitSettings:
    """How a fit computes."""

    seed: int = setting(
        "seed of all randomness", default=0, read=whole(0), metavar="N", unit="integer"
    )
    float64: bool = switch("double precision")


@dataclass(frozen=True)
class Sample:
    """A run of a kernel.

    Attributes:
        kernel: its word, or that of a method.
        settings: an instance of its `kernel_group`; None for the defaults.
        model: a name of the zoo, or `FILE.py` or `FILE.py:NAME`.
        data, run, ending, zoo, any_model, keep, score: groups of settings; `run` has the defaults
            of the kernel.
    """

    kernel: str = "nuts"
    settings: Any = None
    model: str = "mlp"
    data: DataSettings = field(default_factory=DataSettings)
    run: RunSettings = field(default_factory=RunSettings)
    ending: EndingSettings = field(default_factory=EndingSettings)
    zoo: ZooSettings = field(default_factory=ZooSettings)
    any_model: ModelSettings = field(default_factory=ModelSettings)
    keep: KeepSettings = field(default_factory=KeepSettings)
    score: ScoreSettings = field(default_factory=ScoreSettings)

    def __post_init__(self) -> None:
        run = self.run.of(self.kernel)
        settings = kernel_group(self.kernel)() if self.settings is None else self.settings
        object.__setattr__(self, "run", run)
        object.__setattr__(self, "settings", settings)
        assert run.warmup is not None and run.chains is not None
        check_kernel(self.kernel, settings, warmup=run.warmup, chains=run.chains)
        chosen = chosen_kernel(self.kernel, settings, warmup=run.warmup)
        if chosen["settings"].get("step_size") == "auto":
            chosen["settings"]["step_size"] = 1e-6
        make_kernel(_any_model, chosen)  # its constructor checks each value

    @classmethod
    def from_plain(cls, values: Mapping[str, Any], where: str) -> Self:
        """From the keys of a recipe; see `job_from`."""
        return _from_plain(cls, "kernel", "nuts", kernel_group, values, where)


@dataclass(frozen=True)
class Fit:
    """A fit of an approximation.

    Attributes:
        approximation: its word.
        settings: an instance of its `approximation_group`; None for the defaults.
        model, data, zoo, any_model, keep, score: as of `Sample`.
        fit: how it computes.
    """

    approximation: str = "ensemble"
    settings: Any = None
    model: str = "mlp"
    data: DataSettings = field(default_factory=DataSettings)
    fit: FitSettings = field(default_factory=FitSettings)
    zoo: ZooSettings = field(default_factory=ZooSettings)
    any_model: ModelSettings = field(default_factory=ModelSettings)
    keep: KeepSettings = field(default_factory=KeepSettings)
    score: ScoreSettings = field(default_factory=ScoreSettings)

    def __post_init__(self) -> None:
        if self.settings is None:
            object.__setattr__(self, "settings", approximation_group(self.approximation)())
        make_approximation(_any_model, chosen_approximation(self.approximation, self.settings))

    @classmethod
    def from_plain(cls, values: Mapping[str, Any], where: str) -> Self:
        """From the keys of a recipe; see `job_from`."""
        return _from_plain(cls, "approximation", "ensemble", approximation_group, values, where)


# Group of a job -> its class; that of the kernel or approximation is `settings`.
GROUPS: dict[type, dict[str, type]] = {
    Sample: {
        "data": DataSettings,
        "run": RunSettings,
        "ending": EndingSettings,
        "zoo": ZooSettings,
        "any_model": ModelSettings,
        "keep": KeepSettings,
        "score": ScoreSettings,
    },
    Fit: {
        "data": DataSettings,
        "fit": FitSettings,
        "zoo": ZooSettings,
        "any_model": ModelSettings,
        "keep": KeepSettings,
        "score": ScoreSettings,
    },
}


def _from_plain(
    cls: Any, key: str, usual: str, group: Any, values: Mapping[str, Any], where: str
) -> Any:
    word = str(values.get(key, usual))
    try:
        groups = {"settings": group(word), **GROUPS[cls]}
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    known = [key, "model", *(name for this in groups.values() for name in declared(this))]
    for name in values:
        if name not in known:
            raise unknown_setting(name, known, where)
    made = {name: from_plain(this, values, where) for name, this in groups.items()}
    try:
        return cls(**{key: word, "model": str(values.get("model", "mlp"))}, **made)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def job_from(command: str, values: Mapping[str, Any], where: str) -> Sample | Fit:
    """The job of a recipe, each value checked as if it were typed.

    Args:
        command: "sample" or "fit".
        values: settings by name; `model`; and `kernel` or `approximation`.
        where: how messages call the recipe.

    Raises:
        ValueError: a setting that there is not, or a value that it cannot take.
    """
    return (Fit if command == "fit" else Sample).from_plain(values, where)


def line_of(command: str, values: Mapping[str, Any]) -> str:
    """The settings of a recipe as one would type them."""
    key, usual = {"sample": ("kernel", "nuts"), "fit": ("approximation", "ensemble")}[command]
    rest = {name: value for name, value in values.items() if name not in (key, "model")}
    method, model = str(values.get(key, usual)), str(values.get("model", "mlp"))
    return shlex.join(["bayesnn", command, method, model, *words(rest)])
