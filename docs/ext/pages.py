"""Pages that are made from the library itself: one for each method, and the lists of the API.

What a page says of a method beyond its docstring is in `docs/methods.toml`. A public name without a
page, or an entry without a public name, ends the build.
"""

import importlib
import inspect
import re
import tomllib
from pathlib import Path

_PACKAGES = {"kernels": "bayesnn_ppl.inference.kernels"}
_PACKAGES |= {"approximations": "bayesnn_ppl.inference.approximations"}
_TITLES = {"kernels": "Kernels", "approximations": "Approximations"}
# Public names of these packages that are no methods; they are in the API.
_HELPERS = {"izmailov_trajectory", "DuringTraining", "inverse_cdf", "probit_probabilities"}
_API = {
    "kernels": "bayesnn_ppl.inference.kernels",
    "approximations": "bayesnn_ppl.inference.approximations",
    "schedules": "bayesnn_ppl.inference.schedules",
    "gradients": "bayesnn_ppl.inference.kernels.stochastic_gradient.gradient_estimators",
    "preconditioners": "bayesnn_ppl.inference.kernels.stochastic_gradient.preconditioners",
    "priors": "bayesnn_ppl.priors",
    "references": "bayesnn_ppl.references",
    "likelihoods": "bayesnn_ppl.likelihoods",
    "augmentations": "bayesnn_ppl.likelihoods.augmentations",
    "models": "bayesnn_ppl.models",
    "nn": "bayesnn_ppl.nn",
    "data": "bayesnn_ppl.data",
    "diagnostics": "bayesnn_ppl.diagnostics",
    "metrics": "bayesnn_ppl.metrics",
    "plots": "bayesnn_ppl.plots",
    "report": "bayesnn_ppl.report",
}
_FOUR_SPACES = re.compile(r"^ {4,}\S")
_NAMES = re.compile(r"^ {4}(?:\w+, )*\w+,$")


def setup(app):
    """What Sphinx calls."""
    app.connect("builder-inited", _write)
    # Before napoleon, which turns sections into reStructuredText.
    app.connect("autodoc-process-docstring", _as_text, priority=400)
    return {"parallel_read_safe": True}


def _write(app):
    folder = Path(app.srcdir) / "_generated"
    folder.mkdir(exist_ok=True)
    kept = set()

    def page(name, text):
        path = folder / f"{name}.md"
        kept.add(path)
        # Sphinx reads again what is newer than its last reading.
        if not path.exists() or path.read_text() != text:
            path.write_text(text)

    for kind, methods in tomllib.loads((Path(app.srcdir) / "methods.toml").read_text()).items():
        _check(kind, methods)
        for name, said in methods.items():
            page(f"{kind}-{name}", _method(kind, name, said))
        page(kind, _list(kind, methods))
    for name, module in _API.items():
        page(f"api-{name}", _api(name, module, importlib.import_module(module).__all__))
    flags = importlib.import_module("bayesnn_ppl.experiments.bnn_hmc_flags").FLAGS
    rows = [f"| `--{name}` | {flag.text} |" for name, flag in flags.items()]
    page("bnn_hmc_flags", "\n".join(["| bnn_hmc | here |", "|---|---|", *rows, ""]))
    page("api-bayesnn_ppl", _api("bayesnn_ppl", "bayesnn_ppl", _functions()))
    for path in set(folder.glob("*.md")) - kept:
        path.unlink()


def _check(kind, methods):
    public = set(importlib.import_module(_PACKAGES[kind]).__all__) - _HELPERS
    own = {name for name, said in methods.items() if "module" not in said}
    if public != own:
        raise ValueError(
            f"docs/methods.toml and {_PACKAGES[kind]}.__all__ differ: {sorted(public ^ own)}."
        )


def _method(kind, name, said):
    module = said.get("module", _PACKAGES[kind])
    lines = [
        f"# {name}",
        "",
        said["use"],
        "",
        "| | |",
        "|---|---|",
        f"| target | {said['target']} |",
        f"| cost | {said['cost']} |",
        f"| fails | {said['fails']} |",
        "",
    ]
    if module == _PACKAGES[kind]:
        lines += ["```{eval-rst}", f".. autoclass:: {module}.{name}", "```", ""]
    else:
        lines += [
            f"`{module}.{name}` goes wherever a kernel does: `bnn.sample({name}(model), ...)`.",
            "",
        ]
    return "\n".join([*lines, *_options(kind, name)])


def _options(kind, name):
    """How the method is called in a shell, and what it can be told there."""
    from bayesnn_ppl.settings.declaring import declared, flag
    from bayesnn_ppl.settings.methods import approximations, kernels

    command, kinds, group = {
        "kernels": ("sample", kernels.kernel_kinds(), kernels.kernel_group),
        "approximations": (
            "fit",
            approximations.approximation_kinds(),
            approximations.approximation_group,
        ),
    }[kind]
    word = next((word for word, found in kinds.items() if found.__name__ == name), None)
    if word is None:
        return []
    settings = declared(group(word))
    rows = [f"| `{flag(n)}` | {what.unit} | {what.shown} |" for n, what in settings.items()]
    head = [f"In a shell: `bayesnn {command} {word} mlp --data diabetes`, with", ""]
    return [*head, "| option | value | default |", "|---|---|---|", *rows, ""]


def _list(kind, methods):
    lines = [f"# {_TITLES[kind]}, one by one", "", "| | target | cost |", "|---|---|---|"]
    for name, said in methods.items():
        lines.append(f"| [{name}]({kind}-{name}.md) | {said['target']} | {said['cost']} |")
    tree = [f"{kind}-{name}" for name in methods]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *tree, "```", ""])


def _functions():
    package = importlib.import_module("bayesnn_ppl")
    return [n for n in package.__all__ if not inspect.ismodule(getattr(package, n))]


def _api(title, module, names):
    package = importlib.import_module(module)
    lines = [f"# `{title if title == 'bayesnn_ppl' else 'bnn.' + title}`", ""]
    names = sorted(names, key=str.lower)
    # A class and a function may differ in a capital, and places do not.
    places = {n: f"{title}-{n}-{type(getattr(package, n)).__name__}" for n in names}
    # A long page begins with what is on it.
    directives = [", ".join(f":ref:`{name} <{place}>`" for name, place in places.items()), ""]
    for name, place in places.items():
        value = getattr(package, name)
        directives += [f".. _{place}:", ""]
        if inspect.isclass(value):
            # A method has its page; here its signature stands in the list.
            directives += [f".. autoclass:: {module}.{name}", "   :members:", "   :no-index:", ""]
        elif callable(value):
            directives += [f".. autofunction:: {module}.{name}", "   :no-index:", ""]
        else:
            directives += [f"``{name}``: {inspect.getdoc(type(value)).splitlines()[0]}", ""]
    return "\n".join([*lines, "```{eval-rst}", *directives, "```", ""])


def _as_text(app, what, name, value, options, lines):
    """Docstrings are plain text: what reStructuredText would take for markup is escaped.

    A block that is indented before the first section is an equation, and stays as it stands.
    """
    result, literal, sections = [], False, False
    for line in _joined(lines):
        sections = sections or line.rstrip() in _SECTIONS
        indented = bool(_FOUR_SPACES.match(line)) and not sections
        if indented and not literal and (not result or not result[-1].strip()):
            result += ["::", ""]
            literal = True
        elif line.strip() and not indented:
            literal = False
        if literal or line.lstrip().startswith((">>>", "...")):
            result.append(line)
        else:
            result.append(_escaped(line))
    lines[:] = result


_SECTIONS = {f"{w}:" for w in "Args Returns Raises Example Examples Attributes References".split()}


def _joined(lines):
    """Names of arguments that share a description, on one line, as napoleon wants them."""
    joined = []
    for line in lines:
        if joined and _NAMES.match(joined[-1]) and line.strip():
            joined[-1] = f"{joined[-1]} {line.strip()}"
        else:
            joined.append(line)
    return joined


def _escaped(line):
    start = re.match(r"\s*(?:\* )?", line)[0]  # the star of a list stays
    return start + _escaped_words(line[len(start) :])


def _escaped_words(line):
    parts = re.split(r"(`[^`]*`)", line)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([*|\\])", r"\\\1", parts[i])
        parts[i] = re.sub(r"(\w)_(?!\w)", r"\1\\_", parts[i])
        parts[i] = re.sub(r"`", r"\\`", parts[i])
    for i in range(1, len(parts), 2):
        parts[i] = f"`{parts[i]}`"
    return "".join(parts)
