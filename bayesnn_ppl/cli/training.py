"""A method of `bayesnn sample` or `bayesnn fit`, trained in memory on rows of one's own choice."""

import argparse
from types import SimpleNamespace
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl.cli.devices import chain_mesh, prepare_devices
from bayesnn_ppl.cli.ending import until
from bayesnn_ppl.cli.fitting import given_settings, made_approximation
from bayesnn_ppl.cli.kernels import check_kernel, find_step
from bayesnn_ppl.cli.methods import apply_method
from bayesnn_ppl.cli.sampling import draw

__all__ = ["Method"]


class Method:
    """What the arguments of `bayesnn sample` or `bayesnn fit` train, without their data.

    Args:
        arguments: of one of the two.

    Raises:
        ValueError: arguments that mean nothing for a training in memory, or as the command.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = argparse.Namespace(**vars(arguments))
        given = vars(self.arguments)
        idle = {"keep": "weights", "keep_every": 1, "bfloat16": False, "reference": None}
        idle |= {"keep_groups": None, "probe_rows": None, "tensorboard": False}
        for name, usual in idle.items():
            if given.get(name, usual) != usual:
                raise ValueError(
                    f"`{name}` is {given[name]!r}, but here every training stays in memory, with "
                    'all its weights, and is compared with nothing. Leave it out, or set it to "".'
                )
        self.fits = "approximation" in given
        if self.fits:
            self.settings = given_settings(given["approximation"], given["set"] or [])
            prepare_devices(int(self.settings.get("members") or 1), None)
        else:
            apply_method(self.arguments)
            check_kernel(given)
            prepare_devices(given["chains"], given["devices"])
            self.limits = until(self.arguments, probe=False)

    def train(self, program: Any, x: Any, y: Any, seed: int) -> Any:
        """A posterior of the program given these rows, in memory.

        Raises:
            KeyboardInterrupt: it was ended from outside.
        """
        if self.fits:
            posterior = bnn.fit(
                made_approximation(self.arguments.approximation, program, self.settings),
                x,
                y,
                seed=seed,
                float64=self.arguments.float64,
                progress=False,
            )
        else:
            posterior = self._sampled(program, x, y, seed)
        if posterior.provenance.get("interrupted"):
            raise KeyboardInterrupt
        return posterior

    def _sampled(self, program: Any, x: Any, y: Any, seed: int) -> Any:
        options = {**vars(self.arguments), "seed": seed}
        if options["step_size"] == "auto":
            options["step_size"] = find_step(program, x, y, options, report=None)
        mesh = chain_mesh(options["chains"], options["devices"], options["chain_method"])
        return draw(
            program,
            SimpleNamespace(train=(x, y)),
            options,
            mesh=mesh,
            progress=False,
            out=None,
            until=self.limits,
            callback=None,
        )
