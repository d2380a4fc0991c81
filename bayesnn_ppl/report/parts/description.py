"""Model, data and method of a run in a sentence."""

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

_NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}
_MOST_CLASSES = 6
_SPOKEN = {"ByName": "set by name", "FanInNormal": "fan-in normal", "StudentT": "Student's t"}


def run_sentence(run: Mapping[str, Any], *, held_out: int | None = None) -> str:
    """What was inferred, from which rows, and how; the parts in back-ticks are names.

    Args:
        run: the provenance of a posterior.
        held_out: number of rows that the page judges at, if there are any.
    """
    words = f"{model_words(run['model'])}{_data(run)}. {method_words(run)}"
    return words + (f", judged at {held_out} held-out rows." if held_out else ".")


def model_words(described: Any) -> str:
    """A model in words, from what the provenance says of it; one of unknown parts is named so."""
    name, parts = _call(str(described))
    network, settings = _node_call(parts.get("network"))
    if name != "BayesianNetwork" or not network:
        return "A NumPyro model"
    prior, _ = _node_call(parts.get("prior"))
    likelihood, _ = _node_call(parts.get("likelihood"))
    named = {"prior": prior, "likelihood": likelihood.removesuffix("Likelihood")}
    chosen = " and ".join(f"{kind} {_plain(word)}" for kind, word in named.items() if word)
    return _network(network, settings, likelihood) + (f", {chosen}," if chosen else "")


def method_words(run: Mapping[str, Any]) -> str:
    """The method, and how many draws of how many chains or fits it made."""
    draws = _count(run["draws"], "draw")
    if run.get("approximation") is not None:
        return f"Fitted by {run['kernel']}, {_count(run['chains'], 'fit')} × {draws}"
    found = f"{run['kernel']}, {_count(run['chains'], 'chain')} × {draws}"
    return found + (f" after {run['warmup']} of warm-up" if run.get("warmup") else "")


def input_words(shape: Sequence[int]) -> str:
    """The shape of a row's inputs: a number of them, or that of an image or a sequence."""
    if len(shape) == 1:
        return _count(shape[0], "input")
    return f"inputs of shape {' × '.join(map(str, shape))}" if shape else "1 input"


def _plain(name: str) -> str:
    """The name of a class in words."""
    return _SPOKEN.get(name, re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def _data(run: Mapping[str, Any]) -> str:
    facts = run.get("dataset") or {}
    of = f" on {facts['name']}:" if facts.get("name") else " on arrays:"
    words = f"{of} {run['rows']} training rows × {input_words(run.get('input_shape', ()))}"
    classes = facts.get("class_names")
    if classes:
        names = ", ".join(classes) if len(classes) <= _MOST_CLASSES else ""
        words += f", {len(classes)} classes" + (f" ({names})" if names else "")
    elif facts.get("target_name"):
        words += f", target {facts['target_name']}"
    return words


def _network(name: str, settings: Mapping[str, ast.expr], likelihood: str) -> str:
    if name != "MLP":
        return f"A Bayesian network `{name}`"
    hidden = _value(settings.get("hidden"), ())
    hidden = hidden if isinstance(hidden, tuple) else (hidden,)
    if not hidden:
        kinds = {"Gaussian": "regression", "CategoricalLikelihood": "classification"}
        return f"A Bayesian linear model for {kinds.get(likelihood, 'the targets')}"
    units = f"{_value(settings.get('activation'), '')} units".strip()
    if len(hidden) == 1:
        return f"A Bayesian MLP with one hidden layer of {hidden[0]} {units}"
    if len(set(hidden)) == 1:
        count = _NUMBERS.get(len(hidden), str(len(hidden)))
        return f"A Bayesian MLP with {count} hidden layers of {hidden[0]} {units} each"
    sizes = ", ".join(map(str, hidden[:-1])) + f" and {hidden[-1]}"
    return f"A Bayesian MLP with hidden layers of {sizes} {units}"


def _call(words: str) -> tuple[str, dict[str, ast.expr]]:
    """The name and keyword arguments of what reads like a call; empty for all else."""
    try:
        return _node_call(ast.parse(words, mode="eval").body)
    except (SyntaxError, ValueError):
        return "", {}


def _node_call(node: ast.expr | None) -> tuple[str, dict[str, ast.expr]]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return "", {}
    return node.func.id, {k.arg: k.value for k in node.keywords if k.arg is not None}


def _value(node: ast.expr | None, default: Any) -> Any:
    try:
        return default if node is None else ast.literal_eval(node)
    except ValueError:
        return default


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
