"""The pages of methods: `docs/methods/*/NAME.md`, and what the library itself adds to them.

A page is written by hand: its use, target, update equation, example, figure, cost, failure modes
and reference. Added here are its options in a shell and the arguments of the class. A public method
without a page, or a page without a method, ends the build.
"""

import importlib
import re
from pathlib import Path

DOCS = Path(__file__).parents[1]
MODULES = {
    "kernels": "bayesnn_ppl.inference.kernels",
    "approximations": "bayesnn_ppl.inference.approximations",
}
# The headings of a page, in their order.
HEADINGS = ("Target and update", "Example", "Cost", "Failure modes", "Reference")
# Methods of other libraries that `sample` takes.
_BORROWED = {"NUTS": "numpyro.infer"}
_COMMANDS = {"kernels": "sample", "approximations": "fit"}
# Public names of these packages that are not methods; they are in the API.
_HELPERS = {"izmailov_trajectory", "DuringTraining", "inverse_cdf", "probit_probabilities"}
_TITLES = {"kernels": "Kernels", "approximations": "Approximations"}
_ORDER = {
    "kernels": "NUTS WALNUTS HMC ChEES MCLMC AdjustedMCLMC ParallelTempering TemperedSMC SGHMC "
    "SGMCLMC SGLD Langevin OBABO SGNHT ATMC MALA RandomWalk BiasedMinibatchHMC "
    "BiasedMinibatchMetropolis",
    "approximations": "MAP Ensemble Repulsive Laplace LastLayer SNGP SWAG ConstantSGD Variational "
    "NaturalGradient EmpiricalBayes Dropout",
}


def setup(app):
    """What Sphinx calls."""
    app.connect("source-read", _add)
    return {"parallel_read_safe": True}


def methods(kind):
    """The names of the public methods of a kind, in the order of their list.

    Raises:
        ValueError: a public method has no page or no place in the list, or there is one too many.
    """
    public = set(importlib.import_module(MODULES[kind]).__all__) - _HELPERS
    public |= set(_BORROWED) if kind == "kernels" else set()
    written = {path.stem for path in (DOCS / "methods" / kind).glob("*.md")}
    listed = _ORDER[kind].split()
    for names, place in ((written, f"docs/methods/{kind}"), (set(listed), "method_pages._ORDER")):
        if names != public:
            raise ValueError(f"{place} and {MODULES[kind]} differ: {sorted(public ^ names)}.")
    return listed


def page_of(kind, name):
    """The text of a method's page."""
    return (DOCS / "methods" / kind / f"{name}.md").read_text()


def section(text, heading):
    """What stands under a heading of the second level."""
    (found,) = re.findall(rf"^## {heading}\n+(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return found.strip()


def list_page(kind):
    """The page that lists the methods of a kind: what each is for, and what it costs."""
    lines = [f"# {_TITLES[kind]}, one by one", "", "| | use | cost |", "|---|---|---|"]
    for name in methods(kind):
        text = page_of(kind, name)
        use = text.split("\n\n")[1].removeprefix("Take it ")
        cost = re.split(r"(?<=[.])\s", section(text, "Cost"))[0]
        lines.append(
            f"| [{name}](../methods/{kind}/{name}.md) | {use[0].upper()}{use[1:]} | {cost} |"
        )
    tree = [f"../methods/{kind}/{name}" for name in methods(kind)]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *tree, "```", ""])


def _add(app, docname, source):
    """Options in a shell and arguments in Python, below what is written by hand."""
    folder, _, rest = docname.partition("/")
    if folder == "methods":
        kind, name = rest.split("/")
        source[0] = "\n".join([source[0], *_options(kind, name), *_arguments(kind, name)])


def _arguments(kind, name):
    if name in _BORROWED:
        place = f"`{_BORROWED[name]}.{name}`"
        return ["## Arguments", "", f"{place} takes them; see NumPyro's documentation.", ""]
    directive = f".. autoclass:: {MODULES[kind]}.{name}"
    return ["## Arguments", "", "```{eval-rst}", directive, "   :no-index:", "```", ""]


def shell_settings(kind, name):
    """The word of a method in a shell, and its options; None for what a shell does not have."""
    from bayesnn_ppl.settings.declaring import declared
    from bayesnn_ppl.settings.methods import approximations, kernels

    kinds, group = {
        "kernels": (kernels.kernel_kinds(), kernels.kernel_group),
        "approximations": (
            approximations.approximation_kinds(),
            approximations.approximation_group,
        ),
    }[kind]
    word = next((word for word, found in kinds.items() if found.__name__ == name), None)
    return None if word is None else (word, declared(group(word)))


def command_of(kind, name):
    """A command that runs the method in a shell; None for what a shell does not have."""
    found = shell_settings(kind, name)
    if found is None:
        return None
    word, settings = found
    # What has no default is given.
    sgmcmc = kind == "kernels" and "batch_size" in settings
    more = " --batch-size 64 --step-size 1e-5" if sgmcmc else ""
    # No model that a shell has by name has parameters of a prior.
    model = "my_model.py" if name == "EmpiricalBayes" else "mlp"
    return f"bayesnn {_COMMANDS[kind]} {word} {model} --data diabetes{more}"


def _options(kind, name):
    """How the method is called in a shell, and what it can be told there."""
    from bayesnn_ppl.settings.declaring import flag

    found = shell_settings(kind, name)
    if found is None:
        return []
    _, settings = found
    shown = {
        n: re.sub(r"(--[a-z-]+)", r"`\1`", f"{w.unit} | {w.shown}") for n, w in settings.items()
    }
    rows = [f"| `{flag(n)}` | {words} |" for n, words in shown.items()]
    head = ["## In a shell", "", "```console", f"$ {command_of(kind, name)}"]
    return [*head, "```", "", "| option | value | default |", "|---|---|---|", *rows, ""]
