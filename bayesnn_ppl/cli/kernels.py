"""The kernels of `bayesnn sample`: which options each has, and how they make it.

Loads nothing heavy: the parser's help is made of these tables.
"""

import math
import warnings
from collections.abc import Mapping
from typing import Any

from bayesnn_ppl.cli.kernel_tables import KERNELS, OPTIONS, SCHEDULE_OPTIONS
from bayesnn_ppl.cli.parser import Parser, option
from bayesnn_ppl.cli.step_schedules import built, check_schedule, scheduled
from bayesnn_ppl.core.arguments import series

__all__ = ["add_kernel", "check_kernel", "chosen_kernel", "find_step", "make_kernel"]

_FIRST_STEP = 1e-5  # where the search begins; it goes up by factors of 8, or down

_MOST_CHAINS = 4

# What is usual of options that a kernel needs and that have no default.
_USUAL = {"--batch-size": "32 to 256 rows are usual, such as `--batch-size 64`"}

_LENGTHS = ("trajectory_length", "num_steps", "trajectory_prior_variance")


def add_kernel(parser: Parser) -> None:
    """What the kernels can be told; `check_kernel` refuses what does not apply."""
    group = parser.add_argument_group(
        "kernel", "\n".join(f"{name:20}{kernel.text}" for name, kernel in KERNELS.items())
    )
    for name, this in OPTIONS.items():
        whose = _having(name)
        option(
            group,
            _flag(name),
            this.text if len(whose) == len(KERNELS) else f"{', '.join(whose)}: {this.text}",
            type=this.type,
            metavar=this.metavar,
            unit=this.unit,
            shown=this.shown,
        )


def check_kernel(options: Mapping[str, Any]) -> None:
    """Refuse options of another kernel, and too few chains.

    Raises:
        ValueError: one is given, two contradict each other, or the kernel needs more chains.
    """
    kernel = options["kernel"]
    given = [name for name in OPTIONS if options[name] is not None]
    for name in given:
        if name not in KERNELS[kernel].takes:
            whose = _having(name)
            raise ValueError(
                f"The kernel {kernel} has no option {_flag(name)}; "
                + (f"{whose[0]} has." if len(whose) == 1 else f"{series(whose)} have.")
                + f" It has {series(map(_flag, KERNELS[kernel].takes))}."
            )
    missing = [_flag(name) for name in KERNELS[kernel].needs if name not in given]
    if missing:
        raise ValueError(
            f"The kernel {kernel} needs {series(missing)}: there is no default that would suit "
            "other data. `--step-size auto` looks for the largest step that keeps the temperature."
            if "--step-size" in missing
            else f"The kernel {kernel} needs {series(missing)}: "
            f"{series(_USUAL[flag] for flag in missing)}."
        )
    if options["step_size"] == "auto" and "step_size" not in KERNELS[kernel].needs:
        raise ValueError(
            f"The warm-up of the kernel {kernel} adapts the step size by itself: leave "
            "`--step-size auto` out."
        )
    if "schedule" in KERNELS[kernel].takes:
        check_schedule(options)
    lengths = [_flag(name) for name in _LENGTHS if name in given]
    if len(lengths) > 1:
        raise ValueError(
            f"Give one of {series(lengths)}, not more: each of them fixes the length of the "
            "trajectories."
        )
    if kernel == "chees":
        if options["chains"] < 2:
            raise ValueError(
                "The kernel chees learns from how chains differ and needs two or more: "
                "`--chains 4`, or another --kernel."
            )
        if not options["warmup"] and not lengths:
            raise ValueError(
                "Without a warm-up the kernel chees cannot learn how long its trajectories "
                "should be: give --trajectory-length, or a longer --warmup."
            )


def chosen_kernel(options: Mapping[str, Any]) -> dict[str, Any]:
    """The kernel of the options as `run.json` holds it: its name and the arguments of its class.

    Arguments and not options are stored, so that a run goes on as it began where a default of the
    command line changes.
    """
    name = options["kernel"]
    settings = {
        argument: options[given]
        for given, argument in KERNELS[name].takes.items()
        if options[given] is not None and given not in SCHEDULE_OPTIONS
    }
    if "schedule" in KERNELS[name].takes:
        settings = scheduled(settings, options)
    if name == "hmc" and "prior_variance" not in settings:
        settings.setdefault("mass", "diagonal")
        if "num_leapfrogs" not in settings:
            settings.setdefault("trajectory_length", math.pi / 2)
    return {"kernel": name, "settings": settings}


def find_step(
    program: Any, x: Any, y: Any, options: Mapping[str, Any], *, report: Any = None
) -> float:
    """The step size that `--step-size auto` means, by pilot runs; see `find_step_size`.

    Raises:
        ValueError: no step size that was tried keeps the temperatures.
    """
    import bayesnn_ppl as bnn

    kernel = make_kernel(program, chosen_kernel({**options, "step_size": _FIRST_STEP}))
    # More chains tell little more, and each takes its time.
    chains, seed = min(options["chains"], _MOST_CHAINS), options["seed"]
    with warnings.catch_warnings():
        # The search begins at a step that nobody has asked for, so that it is far off says nothing.
        warnings.simplefilter("ignore", UserWarning)
        found = bnn.find_step_size(kernel, x, y, chains=chains, seed=seed, report=report)
    if found.step_size is None:
        last = found.ladder[-1]
        raise ValueError(
            f"`--step-size auto` found none: of {len(found.ladder)} step sizes down to "
            f"{last.step_size:.2e} none keeps the temperature, and that of the last is "
            f"{last.status}. Take a larger --batch-size, whose gradients are less noisy, or give "
            "--step-size a number."
        )
    return found.step_size


def make_kernel(program: Any, chosen: Mapping[str, Any]) -> Any:
    """The kernel on the program.

    Args:
        program: a NumPyro program.
        chosen: of `chosen_kernel`, or the `kernel` of a `run.json`.

    Raises:
        ValueError: a setting is out of the kernel's range.
    """
    if "settings" not in chosen:
        return _made_before(program, chosen)
    name, settings = chosen["kernel"], chosen["settings"]
    if name == "nuts":
        from numpyro.infer import NUTS

        return NUTS(program, **settings)
    import bayesnn_ppl as bnn

    return getattr(bnn.kernels, KERNELS[name].name)(program, **built(settings))


def _made_before(program: Any, stored: Mapping[str, Any]) -> Any:
    """The kernel of a run whose `run.json` holds options: then hmc was that of NumPyro."""
    from numpyro.infer import HMC, NUTS

    settings: dict[str, Any] = {
        argument: stored[name]
        for name, argument in (
            *KERNELS["nuts"].takes.items(),
            ("trajectory_length", "trajectory_length"),
            ("num_steps", "num_steps"),
        )
        if stored.get(name) is not None
    }
    if stored["kernel"] == "nuts":
        return NUTS(program, **settings)
    if "num_steps" in settings:
        settings["trajectory_length"] = None
    return HMC(program, **settings)


def _having(name: str) -> list[str]:
    return [kernel for kernel, this in KERNELS.items() if name in this.takes]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
