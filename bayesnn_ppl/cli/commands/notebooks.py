"""`bayesnn notebooks`: the teaching notebooks, for students, as slides or for a repository."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bayesnn_ppl
from bayesnn_ppl.cli.shared.options import Argument, Command, Output
from bayesnn_ppl.cli.shared.output import paragraph, print_json
from bayesnn_ppl.cli.teaching.slides import copy_assets, slides_page
from bayesnn_ppl.cli.teaching.versions import student_version, with_badges
from bayesnn_ppl.settings.declaring import setting, switch

__all__ = ["COMMAND"]

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+(?:@[\w./-]+)?")
_REQUIREMENTS = "bayesnn_ppl[notebooks]\n"


def _repository(text: str) -> str:
    if not _REPOSITORY.fullmatch(text):
        raise ValueError(f"{text!r} is not OWNER/NAME or OWNER/NAME@BRANCH")
    return text


@dataclass(frozen=True)
class NotebookSettings:
    """For whom the copies are."""

    student: bool = switch("without outputs, and with solutions left empty")
    slides: bool = switch("as slides: one page each, shown without a connection")
    github: str | None = setting(
        "the repository of your own that they will lie in: adds badges that open them in Colab "
        "and Binder",
        metavar="OWNER/NAME[@BRANCH]",
        unit="repository",
        shown="none; of branch main",
        read=_repository,
    )


def run_notebooks(out: str, *, settings: NotebookSettings, output: Output) -> int:
    """Write the notebooks to a folder."""
    if settings.slides and (settings.student or settings.github):
        other = "--student" if settings.student else "--github"
        raise ValueError(f"--slides makes pages, and {other} notebooks: run the command twice.")
    sources, folder = _sources(), Path(out)
    ending = ".html" if settings.slides else ".ipynb"
    names = [path.with_suffix(ending).name for path in sources]
    _check_free(folder, names)
    texts = [_version(path, settings) for path in sources]
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip(names, texts, strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    if settings.slides:
        copy_assets(folder)
    if settings.github:
        (folder / "requirements.txt").write_text(_REQUIREMENTS)
    if output.json:
        result = {"folder": str(folder), "student": settings.student, "slides": settings.slides}
        print_json(result | {"notebooks": names})
        return 0
    kinds = {"sets of slides": settings.slides, "student versions of notebooks": settings.student}
    kind = next((kind for kind, chosen in kinds.items() if chosen), "notebooks")
    print(paragraph(f"{len(names)} {kind} in {folder}: {names[0]} to {names[-1]}."))
    print(paragraph(_next_step(settings)))
    return 0


def _check_free(folder: Path, names: list[str]) -> None:
    taken = [name for name in [*names, "assets", "requirements.txt"] if (folder / name).exists()]
    if taken:
        raise FileExistsError(
            f"`{folder}` already holds {taken[0]}"
            + (f" and {len(taken) - 1} more of the notebooks" if taken[1:] else "")
            + ". They may hold somebody's work: name another folder."
        )


def _version(path: Path, settings: NotebookSettings) -> str:
    """The text of the file that is written for one notebook."""
    text = path.read_text(encoding="utf-8")
    notebook: dict[str, Any] = json.loads(text)
    if settings.slides:
        return slides_page(notebook, path.stem)
    if not settings.student and not settings.github:
        return text
    if settings.student:
        notebook = student_version(notebook)
    if settings.github:
        repository, _, branch = settings.github.partition("@")
        notebook = with_badges(notebook, path.name, repository=repository, branch=branch or "main")
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _next_step(settings: NotebookSettings) -> str:
    if settings.slides:
        return "Open one in a browser; arrow keys turn the slides, and S shows the speaker's view."
    if settings.github:
        return "Commit the folder's files at the top of that repository; its badges then open them."
    return "Open them with `jupyter lab`; `pip install jupyterlab ipywidgets` adds it."


def _sources() -> list[Path]:
    """The notebooks: inside an installed package, or at the top of the repository."""
    package = Path(bayesnn_ppl.__file__).parent
    for folder in (package / "notebooks", package.parent / "notebooks"):
        found = sorted(folder.glob("[0-9][0-9]_*.ipynb"))
        if found:
            return found
    raise FileNotFoundError(
        "The notebooks are not in this installation. They are in the folder notebooks/ of the "
        "repository: install from there, or copy them from a clone."
    )


COMMAND = Command(
    "notebooks",
    "copy the teaching notebooks to a folder",
    run_notebooks,
    (Argument("out", "folder to copy them to", "OUT"),),
    {"Options": ("settings", NotebookSettings)},
)
