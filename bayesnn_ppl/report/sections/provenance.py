"""Where the run comes from, and what to type to have it again."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bayesnn_ppl.data.common.encoding import TableEncoding
from bayesnn_ppl.diagnostics.diagnosis.result import sampler_lines
from bayesnn_ppl.inference import kernels
from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.description import input_words, method_words, model_words
from bayesnn_ppl.report.parts.subject import Subject

_STARTS = {
    "drawn": "draws from the prior",
    "given": "values that were given",
    "network": "values of the network's initialisers",
}
_PHASES = {"compile": "compiling", "start": "starts", "warmup": "warm-up", "sample": "sampling"}


def sampler_section(subject: Subject) -> str:
    """Statistics of the sampler; nothing of a fit."""
    return "" if subject.fitted else markup.definitions(sampler_lines(subject.diagnosis.sampler))


def fit_section(subject: Subject) -> str:
    """The record of a fit; nothing of a sampler."""
    if not subject.fitted:
        return ""
    known = {n: _known(v) for n, v in subject.run["approximation"].items() if n != "findings"}
    pairs = [(n.replace("_", " "), _words(v)) for n, v in known.items() if v is not None]
    return markup.definitions(pairs)


def _known(value: Any) -> Any:
    """A value of the record, or None where it says nothing."""
    nothing = isinstance(value, list | tuple) and all(v is None for v in value)
    return None if nothing else value


def provenance_section(subject: Subject) -> str:
    """The command that repeats the run, and a table in words: data, method, machine, versions."""
    run = subject.run
    command = subject.words.get("command")
    repeat = markup.paragraph("To repeat the run:") + markup.code(command or in_python(run))
    if command is None:
        repeat += markup.note(
            "Give the run's own `model`, `x` and `y`; the table has a hash of the data."
        )
    rows = [(name, value) for name, value in _facts(subject) if value]
    table = markup.table("How the run was made", ["what", "value"], rows, words=(1,))
    settings = [(n.replace("_", " "), _words(v)) for n, v in run["kernel_settings"].items()]
    known = [(name, value) for name, value in settings if value is not None]
    kernel = markup.folded_table(
        f"Settings of {run['kernel']}", ["setting", "value"], known, words=(1,)
    )
    whole = markup.code(json.dumps(run, indent=2, default=str))
    more = (
        columns_of(run)
        + (kernel if known else "")
        + markup.details("The model", markup.code(str(run["model"])))
        + markup.details("Everything that was recorded, as JSON", whole)
    )
    return markup.columns(table, repeat + more)


def columns_of(run: Mapping[str, Any]) -> str:
    """What the columns of the table became; nothing where they are the features."""
    encoding = (run.get("dataset") or {}).get("encoding")
    if not encoding:
        return ""
    rows = TableEncoding.from_list(encoding).rows()
    return markup.folded_table(
        "What each column of the data became", ["column", "kind", "becomes"], rows, words=(1, 2)
    )


def _facts(subject: Subject) -> list[tuple[str, str | None]]:
    """What the table says, name and words, nothing where it is not known."""
    run = subject.run
    data = (run.get("dataset") or {}).get("name") or subject.words.get("data")
    inputs = input_words(run["input_shape"])
    return [
        ("model", model_words(run["model"]).replace("`", "").rstrip(",")),
        ("data", f"{data or 'arrays'}, {run['rows']} training rows × {inputs}"),
        ("hash of the data", f"{run['data_sha256'][:16]} (SHA-256, first 16 digits)"),
        ("method", method_words(run)),
        ("start", _STARTS.get(str(run.get("start")), _words(run.get("start")))),
        ("seed", f"{run['seed']}, random numbers by {run['prng']}"),
        ("precision", run["precision"]),
        ("device", _device(run["devices"])),
        ("made", _moment(run.get("created"))),
        ("time", _time(run.get("seconds", {}))),
        ("ended", _ended(run)),
        ("kept", _kept(run.get("keep"))),
        ("versions", ", ".join(f"{name} {_later(run, name)}" for name in run["versions"])),
    ]


def _device(found: Any) -> str | None:
    if not isinstance(found, Mapping):
        return _words(found)
    kind, platform = str(found.get("kind", "")), str(found.get("platform", ""))
    words = [kind if kind.lower() == platform.lower() else f"{kind} ({platform})"]
    if found.get("cores"):
        words.append(f"{found['cores']} cores")
    mesh = found.get("mesh") or {}
    over = [f"{name}s over {n} devices" for name, n in mesh.items() if n > 1 and name != "data"]
    over += [f"data over {mesh['data']} devices"] if mesh.get("data", 1) > 1 else []
    return ", ".join(words + over)


def _moment(created: Any) -> str | None:
    """A time of ISO 8601 as date and time; of any other form as it is."""
    try:
        made = datetime.fromisoformat(str(created))
    except ValueError:
        return _words(created)
    return f"{made:%Y-%m-%d %H:%M} {made.tzname() or ''}".strip()


def _time(seconds: Mapping[str, Any]) -> str | None:
    known = {
        n: markup.number(float(s), 3) for n, s in seconds.items() if isinstance(s, int | float)
    }
    total = known.pop("total", None)
    parts = ", ".join(f"{_PHASES.get(name, name)} {value} s" for name, value in known.items())
    return ": ".join(part for part in (f"{total} s" if total else "", parts) if part) or None


def _ended(run: Mapping[str, Any]) -> str | None:
    ended = run.get("ended")
    if run.get("interrupted"):
        return "interrupted"
    if isinstance(ended, Mapping) and ended.get("by") == "draws":
        return "with the draws that were asked for"
    return _words(ended)


def _kept(keep: Any) -> str | None:
    if not isinstance(keep, Mapping):
        return _words(keep)
    each = f"the weights of every {keep['every']}th draw" if keep.get("every", 1) > 1 else ""
    kinds = {"all": each or "the weights of all draws", "none": "no weights"}
    kept = str(keep.get("weights", "all"))
    words = [kinds.get(kept, f"{kept} of the weights")]
    if keep.get("bfloat16"):
        words[0] += " as bfloat16"
    if keep.get("probe_rows"):
        words.append(f"function values at {keep['probe_rows']} probe inputs")
    return " and ".join(words)


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
