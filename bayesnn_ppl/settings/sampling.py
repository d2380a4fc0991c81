"""The settings of a run: chains and draws, what ends it early, and what it keeps."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl.settings.declaring import setting, switch
from bayesnn_ppl.settings.methods.kernels import METHODS, kernel_kind
from bayesnn_ppl.settings.saved.rows import held_out
from bayesnn_ppl.settings.value_kinds import choice, choice_or_run, choices, duration, number, whole

__all__ = [
    "GROUPS",
    "EndingSettings",
    "KeepSettings",
    "RunSettings",
    "start_of",
    "until",
    "what_is_kept",
]

# Those of `bayesnn_ppl.storage`, which a test compares.
GROUPS = (
    *("log_likelihood", "log_prior", "posterior_predictive"),
    *("observed_data", "constant_data", "functions"),
)
_PROBE_VALUES = 2000


@dataclass(frozen=True)
class RunSettings:
    """How to draw. None means the default, which a method of several chains may change."""

    warmup: int | None = setting(
        "draws that adapt the kernel and are thrown away",
        read=whole(0),
        metavar="N",
        unit="draws per chain",
        shown="500; 5000 for mile, 100 for tempered-smc",
    )
    draws: int | None = setting(
        "draws that are kept; where --until-rhat or --until-ess ends the run, the most of them",
        read=whole(1),
        metavar="N",
        unit="draws per chain",
        shown="500; 1000 for mile, 20 for tempered-smc",
    )
    chains: int | None = setting(
        "chains; two or more show whether they agree",
        read=whole(1),
        metavar="N",
        unit="chains",
        shown="4; 12 for mile, 256 for tempered-smc",
    )
    superchains: int | None = setting(
        "groups of equally many chains that share a start: then R-hat is the nested one, for many "
        "short chains",
        read=whole(2),
        metavar="K",
        unit="groups",
        shown="every chain has a start of its own",
    )
    seed: int = setting(
        "seed of all randomness", default=0, read=whole(0), metavar="N", unit="integer"
    )
    thinning: int = setting(
        "transitions for each kept draw",
        default=1,
        read=whole(1),
        metavar="N",
        unit="transitions per draw",
    )
    chain_method: str = setting(
        "how chains share the devices",
        default="parallel",
        read=choice("parallel", "vectorized", "sequential"),
        unit="word",
    )
    devices: int | None = setting(
        "devices that share the chains, for parallel chains",
        read=whole(1),
        metavar="N",
        unit="devices",
        shown="the cores, or as many as divide the chains",
    )
    data_devices: int = setting(
        "devices that share the rows of each chain, for parallel chains",
        default=1,
        read=whole(1),
        metavar="N",
        unit="devices",
    )
    init: str | None = setting(
        "where chains start: at draws from the prior, where the network's own initialisers put its "
        "weights, at networks trained apart, one for each chain, which spares the warm-up the way "
        "there, or at the last draw of a run of this model",
        read=choice_or_run("prior", "network", "ensemble"),
        metavar="{prior,network,ensemble,RUN}",
        unit="word, or the folder of a run",
        shown="prior, or ensemble for mile",
    )
    float64: bool = switch("double precision")
    tensorboard: bool = switch("write metrics as TensorBoard events, to RUN/tensorboard")

    def of(self, kernel: str) -> "RunSettings":
        """These settings with the defaults of a kernel or method.

        Raises:
            ValueError: the start given is not that of the method.
        """
        method = METHODS.get(kernel, {}).get("run", {})
        if "init" in method and self.init not in (None, method["init"]):
            raise ValueError(
                f"The method {kernel} starts at --init {method['init']}, and --init {self.init} is "
                "something else. Leave it out."
            )
        usual: dict[str, Any] = {"warmup": 500, "draws": 500, "chains": 4, "init": "prior"}
        usual |= {**getattr(kernel_kind(kernel), "usual_run", {}), **method}
        given = {name: v for name, v in vars(self).items() if v is not None}
        return RunSettings(**usual | given)


@dataclass(frozen=True)
class EndingSettings:
    """What ends a run before it has all its draws."""

    until_rhat: float | None = setting(
        "end once R-hat of every function value at the probe inputs is below this; with "
        "--until-ess, once both hold",
        read=number(above=1),
        metavar="R",
        unit="ratio, 1.01 is usual",
        shown="all draws are made",
    )
    until_ess: float | None = setting(
        "end once every function value at the probe inputs has this effective sample size, bulk "
        "and tail",
        read=number(),
        metavar="N",
        unit="independent draws of all chains together",
        shown="400 with --until-rhat, else all draws are made",
    )
    max_time: float | None = setting(
        "end at the first block of draws after this time, compilation and warm-up included; "
        "`bayesnn resume` continues",
        read=duration,
        metavar="TIME",
        unit="such as 90s, 10m, 1h30m, or seconds",
        shown="no limit",
    )


@dataclass(frozen=True)
class KeepSettings:
    """What a run keeps of its draws."""

    keep: str = setting(
        "weights of the draws, their moments alone, or function values alone; function values at "
        "the probe inputs are kept with each of them",
        default="weights",
        read=choice("weights", "moments", "functions"),
        unit="word",
    )
    keep_every: int = setting(
        "keep the weights of every K-th draw only",
        default=1,
        read=whole(1),
        metavar="K",
        unit="draws",
    )
    keep_groups: tuple[str, ...] | None = setting(
        f"groups that ArviZ's functions look for, stored when the run is complete: "
        f"{', '.join(GROUPS)}",
        read=choices(*GROUPS),
        metavar="NAME,NAME",
        unit="words",
        shown="none",
    )
    bfloat16: bool = switch("round kept weights to bfloat16: half the space on disk")
    probe_rows: int | None = setting(
        "test rows at which function values are kept; 0 keeps none",
        read=whole(0),
        metavar="N",
        unit="rows",
        shown="as many as give 2000 function values a draw",
    )


def start_of(word: str | None) -> Any:
    """`init` of `sample` for `RunSettings.init`: a word, or the folder of a run."""
    if word in (None, "prior", "network"):
        return word if word == "network" else None
    return bnn.approximations.Ensemble() if word == "ensemble" else bnn.load(word)


def until(settings: EndingSettings, *, probe: bool) -> dict[str, Any] | None:
    """The `until` of `sample`, or None where nothing is asked.

    Args:
        settings: what ends the run.
        probe: whether the run keeps function values at probe inputs.

    Raises:
        ValueError: function values are to be watched, and there are none.
    """
    names = {"function_rhat": "until_rhat", "ess": "until_ess", "max_time": "max_time"}
    given = {k: v for k, name in names.items() if (v := getattr(settings, name)) is not None}
    asked = [f"--{names[k].replace('_', '-')}" for k in given if k != "max_time"]
    if asked and not probe:
        raise ValueError(
            f"{' and '.join(asked)} cannot be checked: this run keeps no function values at probe "
            "inputs (--probe-rows 0). Use --max-time, or set --probe-rows."
        )
    return given or None


def what_is_kept(settings: KeepSettings, dataset: Any) -> Any:
    """What the run keeps; by default function values at test rows too, or at training rows where
    there are no others, so that it can be judged without its model.

    Raises:
        ValueError: settings that leave nothing to keep.
    """
    kept: dict[str, Any] = {"weights": "all", "moments": "moments", "functions": "none"}
    weights, groups = kept[settings.keep], settings.keep_groups or ()
    if groups and weights != "all":
        raise ValueError(
            f"--keep-groups are made from the weights, and --keep {settings.keep} keeps no draws "
            "of them. Leave one of the two out."
        )
    rows = settings.probe_rows
    if rows is None:
        outputs = dataset.classes or int(np.prod(np.shape(dataset.train.y)[1:]))
        rows = max(1, _PROBE_VALUES // outputs)
    probe = None
    if rows:
        x, y = held_out(dataset)
        chosen = np.unique(np.linspace(0, len(x) - 1, rows).astype(int))
        probe = x[chosen] if y is None else (x[chosen], y[chosen])
    elif weights == "none":
        raise ValueError(
            "--keep functions keeps function values alone, and --probe-rows 0 keeps none of them. "
            "Leave one of the two out."
        )
    return bnn.Keep(
        weights=weights,
        every=settings.keep_every,
        bfloat16=settings.bfloat16,
        probe=probe,
        groups=groups,
    )
