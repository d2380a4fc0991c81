"""Pages that are made from the library itself: the lists of methods, and those of the API."""

import importlib
import inspect
import re
from pathlib import Path

import method_pages

API = {
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
    "conformal": "bayesnn_ppl.conformal",
    "plots": "bayesnn_ppl.plots",
    "report": "bayesnn_ppl.report",
    "sklearn": "bayesnn_ppl.sklearn",
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

    for kind in method_pages.MODULES:
        page(kind, method_pages.list_page(kind))
    for name, module in API.items():
        page(f"api-{name}", _api(name, module, importlib.import_module(module).__all__))
    flags = importlib.import_module("bayesnn_ppl.experiments.bnn_hmc_flags").FLAGS
    rows = [f"| `--{name}` | {flag.text} |" for name, flag in flags.items()]
    page("bnn_hmc_flags", "\n".join(["| bnn_hmc | here |", "|---|---|", *rows, ""]))
    page("api-bayesnn_ppl", _api("bayesnn_ppl", "bayesnn_ppl", _functions()))
    for path in set(folder.glob("*.md")) - kept:
        path.unlink()


def _functions():
    package = importlib.import_module("bayesnn_ppl")
    return [n for n in package.__all__ if not inspect.ismodule(getattr(package, n))]


def place_of(title, name, value):
    """What a public name of the API can be linked by."""
    # A class and a function may differ in a capital, and places do not.
    return f"{title}-{name}-{type(value).__name__}"


def _api(title, module, names):
    package = importlib.import_module(module)
    lines = [f"# `{title if title == 'bayesnn_ppl' else 'bnn.' + title}`", ""]
    names = sorted(names, key=str.lower)
    places = {n: place_of(title, n, getattr(package, n)) for n in names}
    # A long page begins with what is on it.
    directives = [", ".join(f":ref:`{name} <{place}>`" for name, place in places.items()), ""]
    for name, place in places.items():
        value = getattr(package, name)
        directives += [f".. _{place}:", ""]
        if inspect.isclass(value):
            # A method has its page; here its signature stands in the list.
            # Scikit-learn adds methods to its estimators, whose text is not in our form.
            added = ", ".join(n for n in vars(value) if re.fullmatch("set_[a-z_]+_request", n))
            hidden = [f"   :exclude-members: {added}"] if added else []
            directives += [f".. autoclass:: {module}.{name}", "   :members:", *hidden]
            directives += ["   :no-index:", ""]
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
