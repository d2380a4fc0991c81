"""Where the run comes from, and what to type to have it again."""

import json
from collections.abc import Mapping
from typing import Any

from bayesnn_ppl.diagnostics.diagnosis.result import sampler_lines
from bayesnn_ppl.inference import kernels
from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.subject import Subject


def sampler_section(subject: Subject) -> str:
    """Statistics of the sampler, or the record of a fit."""
    if subject.fitted:
        record = subject.run["approximation"]
        pairs = [(n.replace("_", " "), _words(v)) for n, v in record.items() if n != "findings"]
        return markup.definitions(pairs)
    return markup.definitions(sampler_lines(subject.diagnosis.sampler))


def provenance_section(subject: Subject) -> str:
    """The command that repeats the run, settings, versions, data, times."""
    run = subject.run
    command = subject.words.get("command")
    repeat = markup.paragraph("To repeat the run:") + markup.code(command or in_python(run))
    if command is None:
        repeat += markup.note("`model`, `x` and `y` are those of the run, whose hash is below.")
    seconds = {n: s for n, s in run.get("seconds", {}).items() if isinstance(s, int | float)}
    pairs = [
        ("made", run.get("created")),
        ("data", subject.words.get("data")),
        ("rows × inputs", f"{run['rows']} × {_words(run['input_shape'])}"),
        ("hash of the data", run["data_sha256"][:16]),
        ("seed", run["seed"]),
        ("random numbers", run["prng"]),
        ("precision", run["precision"]),
        ("devices", _words(run["devices"])),
        ("start", run.get("start")),
        ("ended", _words(run.get("ended"))),
        ("kept", _words(run.get("keep"))),
        *((f"seconds: {name}", markup.number(float(s), 3)) for name, s in seconds.items()),
        *((f"version: {name}", _later(run, name)) for name in run["versions"]),
    ]
    kernel = markup.definitions((n, _words(v)) for n, v in run["kernel_settings"].items())
    whole = markup.code(json.dumps(run, indent=2, default=str))
    return (
        repeat
        + markup.definitions((n, v) for n, v in pairs if v is not None)
        + markup.details(f"Settings of {run['kernel']}", kernel or markup.note("none"))
        + markup.details("The model", markup.code(str(run["model"])))
        + markup.details("Everything that was written down", whole)
    )


def in_python(run: Mapping[str, Any]) -> str:
    """A program that repeats a run of which no command is known."""
    fitted = run.get("approximation") is not None
    place = "approximations" if fitted else "kernels"
    # NumPyro's HMC has our kernel's name, and says which algorithm it is.
    own = fitted or (run["kernel"] in kernels.__all__ and "algo" not in run["kernel_settings"])
    maker = f"bnn.{place}.{run['kernel']}" if own else f"numpyro.infer.{run['kernel']}"
    settings = "".join(
        f"    # {name}={value!r}\n" for name, value in sorted(run["kernel_settings"].items())
    )
    call = (
        f"bnn.fit(method, x, y, seed={run['seed']})"
        if fitted
        else (
            f"bnn.sample(\n    method, x, y,\n    warmup={run['warmup']}, draws={run['draws']}, "
            f"chains={run['chains']},\n    thinning={run.get('thinning', 1)}, seed={run['seed']}, "
            f"float64={run['precision'] == 'float64'},\n)"
        )
    )
    start = "import bayesnn_ppl as bnn\n" + ("" if own else "import numpyro.infer\n")
    return (
        f"{start}\n# Settings of the method:\n{settings}"
        f"method = {maker}(model, ...)\nposterior = {call}\n"
    )


def _later(run: Mapping[str, Any], name: str) -> str:
    """The version that a run was begun with, and those that it was resumed with."""
    known = [versions.get(name) for versions in (run["versions"], *run.get("versions_later", []))]
    return ", then ".join(dict.fromkeys(str(version) for version in known))


def _words(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return ", ".join(f"{n} {_words(v)}" for n, v in value.items() if v is not None)
    if isinstance(value, list | tuple):
        shown = ", ".join(str(_words(v)) for v in value[:8])
        return shown + (f" and {len(value) - 8} more" if len(value) > 8 else "")
    return f"{value:.5g}" if isinstance(value, float) else str(value)
