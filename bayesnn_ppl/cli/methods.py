"""`--method`: a whole recipe in one word, and the defaults of a plain run."""

import argparse
from typing import Any

from bayesnn_ppl.cli.parser import choice, option

__all__ = ["APPROXIMATIONS", "PLAIN", "add_method", "apply_method", "shown"]

PLAIN: dict[str, Any] = {
    "kernel": "nuts",
    "init": "prior",
    "warmup": 500,
    "draws": 500,
    "chains": 4,
}
# As `bayesnn_ppl.mile`: a test compares the two. A draw is ten steps.
_METHODS: dict[str, dict[str, Any]] = {
    "mile": {
        "kernel": "mclmc",
        "init": "ensemble",
        "warmup": 5000,
        "draws": 1000,
        "chains": 12,
        "energy_variance_end": 0.01,
    }
}

# Word of `bayesnn fit` -> name in `bayesnn_ppl.approximations`; a test compares the two.
APPROXIMATIONS = {
    "constant-sgd": "ConstantSGD",
    "dropout": "Dropout",
    "empirical-bayes": "EmpiricalBayes",
    "ensemble": "Ensemble",
    "laplace": "Laplace",
    "last-layer": "LastLayer",
    "map": "MAP",
    "natural-gradient": "NaturalGradient",
    "repulsive": "Repulsive",
    "sngp": "SNGP",
    "swag": "SWAG",
    "variational": "Variational",
}


def add_method(group: Any) -> None:
    """The option, in a group of the parser."""
    option(
        group,
        "--method",
        "a recipe, which sets kernel, start, chains, warm-up and draws where they are not given: "
        "mile trains an ensemble and runs microcanonical Langevin chains from it (mclmc, ensemble, "
        "12, 5000, 1000; --energy-variance-end 0.01)",
        type=choice(*_METHODS),
        metavar="{" + ",".join(_METHODS) + "}",
        unit="word",
        shown="none: nuts, prior, 4, 500, 500",
    )


def apply_method(arguments: argparse.Namespace) -> None:
    """Fill in what was not given.

    Raises:
        ValueError: the kernel or the start given are not those of the method.
    """
    chosen = PLAIN if arguments.method is None else _METHODS[arguments.method]
    for name, value in chosen.items():
        given = getattr(arguments, name)
        if given is None:
            setattr(arguments, name, value)
        elif arguments.method is not None and name in ("kernel", "init") and given != value:
            raise ValueError(
                f"--method {arguments.method} is --{name} {value}, and --{name} {given} is "
                "something else. Leave one of the two out."
            )


def shown(name: str) -> str:
    """The default of an option in words, for the help."""
    others = ", ".join(f"{values[name]} for --method {m}" for m, values in _METHODS.items())
    return f"{PLAIN[name]}, or {others}"
