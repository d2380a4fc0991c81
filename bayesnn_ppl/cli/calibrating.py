"""`bayesnn calibrate`: simulation-based calibration of a kernel or an approximation."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl.cli.datasets import load_data
from bayesnn_ppl.cli.devices import prepare_devices
from bayesnn_ppl.cli.fitting import given_settings, made_approximation
from bayesnn_ppl.cli.kernels import check_kernel, chosen_kernel, make_kernel
from bayesnn_ppl.cli.output import note, print_json
from bayesnn_ppl.cli.sampling import chosen_model
from bayesnn_ppl.cli.user_model import failures_named

__all__ = ["run_calibrate"]

_SAMPLING = ("warmup", "draws", "chains")
_FIGURE = "ranks.png"


def run_calibrate(arguments: argparse.Namespace) -> int:
    """Calibrate, print the verdict, and draw the ranks into the folder; status 1 if it fails."""
    settings = _settings(arguments)
    prepare_devices(arguments.chains or 2, None)
    dataset, _ = load_data(vars(arguments))
    model, _, path = chosen_model(arguments, dataset)
    x, y = dataset.train
    rows = np.linspace(0, len(x) - 1, min(arguments.rows, len(x))).astype(int)
    with failures_named(path):
        found = bnn.calibrate(
            _method(arguments, model, settings),
            model,
            np.asarray(x)[rows],
            np.asarray(y)[rows] if arguments.around_data else None,
            replications=arguments.replications,
            seed=arguments.seed,
            float64=arguments.float64,
            progress=not (arguments.quiet or arguments.json),
            out=arguments.out,
            **{name: getattr(arguments, name) for name in _SAMPLING},
        )
    if arguments.out is not None:
        found.plot().savefig(Path(arguments.out) / _FIGURE)
    if arguments.json:
        print_json(found.to_dict())
    else:
        print(f"{arguments.model} at {len(rows)} training rows of {dataset.name}\n")
        print(found)
        if arguments.out is not None:
            note(f"The ranks are drawn in {Path(arguments.out) / _FIGURE}")
    return 0 if found.calibrated else 1


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Settings of the approximation; what does not apply is refused."""
    if arguments.approximation is None:
        if arguments.set:
            raise ValueError("--set is for --approximation; a kernel has options of its own.")
        check_kernel({**vars(arguments), "chains": arguments.chains or 4})
        return {}
    given = [name for name in _SAMPLING if getattr(arguments, name) is not None]
    if given:
        raise ValueError(
            f"--{given[0]} is for kernels, and {arguments.approximation} is an approximation: "
            f"give it its own settings with --set."
        )
    return given_settings(arguments.approximation, arguments.set or [])


def _method(arguments: argparse.Namespace, model: Any, settings: Mapping[str, Any]) -> Any:
    if arguments.approximation is not None:
        return made_approximation(arguments.approximation, model, dict(settings))
    return make_kernel(model, chosen_kernel(vars(arguments)))
