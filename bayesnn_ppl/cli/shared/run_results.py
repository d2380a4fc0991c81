"""What is printed of a run that was made or continued."""

from dataclasses import dataclass
from typing import Any

from bayesnn_ppl import metrics, storage
from bayesnn_ppl.cli.shared.output import note, paragraph, print_json
from bayesnn_ppl.core.wording import program_name
from bayesnn_ppl.distributed import current
from bayesnn_ppl.experiments.execution import Made
from bayesnn_ppl.experiments.judging import Judged, judge_run
from bayesnn_ppl.experiments.stopping import STOPPED
from bayesnn_ppl.settings.declaring import setting, switch
from bayesnn_ppl.settings.saved.run_file import Run

__all__ = ["FolderSettings", "ShowSettings", "as_json", "show_judged", "show_made", "show_run"]


@dataclass(frozen=True)
class ShowSettings:
    """What is said of a run."""

    no_diagnose: bool = switch("do not judge convergence afterwards")
    quiet: bool = switch("no progress bar and no hints, only the results")


@dataclass(frozen=True)
class FolderSettings(ShowSettings):
    """Where a run goes, and what is said of it."""

    out: str | None = setting(
        "folder of the run, new or empty",
        metavar="FOLDER",
        unit="path",
        shown="runs/DATA-MODEL, with -2, -3, ... if it is taken",
    )


def show_run(made: Made, show: ShowSettings, *, json: bool, headline: str) -> int:
    """Judge a run and print what there is to say; returns the exit status.

    Args:
        made: the run.
        show: what is said of it.
        json: print all as JSON.
        headline: the first line.
    """
    team = current()
    if made.stopped:
        if team.leads:
            said = f"Stopped by SIGTERM; all is saved. Continue with: {program_name()} resume"
            parts = storage.read_config(made.folder).get("parts")
            note(f"{said} {made.folder}" + (f" --cluster local:{len(parts)}" if parts else ""))
        return STOPPED
    if not team.leads:
        return 0
    if not json:
        show_made(made, headline)
    try:
        judged = judge_run(made, diagnose=not show.no_diagnose)
    except BaseException:
        note(f"The draws are safe: the run is saved in {made.folder}.")
        raise
    if json:
        print_json(as_json(made, judged.diagnosis, judged.scores))
        return 0
    show_judged(judged)
    if not show.quiet:
        print(f"\n{_next_steps(made)}")
    return 0


def show_made(made: Made, headline: str) -> None:
    """Print that a run is saved, and what ended it."""
    print(f"{headline}\n{paragraph(_ended(made))}".strip() + "\n", flush=True)
    if "log_evidence" in made.posterior.tree["sample_stats"]:
        print(f"{paragraph(str(metrics.log_evidence(made.posterior)))}\n", flush=True)


def show_judged(judged: Judged) -> None:
    """Print the diagnosis and the scores of a run."""
    if judged.diagnosis is not None:
        print(f"{judged.diagnosis}\n")
    if judged.scores is not None:
        print("Held-out scores, in the data's units")
        print(judged.scores)


def as_json(made: Made, diagnosis: Any, scores: Any) -> dict[str, Any]:
    """A run and its judgement, for `print_json`."""
    facts = made.posterior.provenance
    return {
        "folder": str(made.folder),
        "draws": facts["draws"],
        "interrupted": facts["interrupted"],
        "ended": facts.get("ended"),
        "seconds": facts["seconds"],
        "diagnosis": None if diagnosis is None else diagnosis.to_dict(),
        "scores": None if scores is None else scores.to_dict(),
    }


def _ended(made: Made) -> str:
    """What ended the run, as a sentence; "" where it was to end by its draws, and did."""
    facts = made.posterior.provenance
    draws, end = facts["draws"], facts.get("ended", {"by": "draws"})
    after = f"after {draws} draws per chain"
    if end["by"] == "convergence":
        return (
            f"Ended by convergence {after}: largest R-hat of the functions "
            f"{end['function_rhat']:.4f}, smallest effective sample size {end['ess']:.0f}."
        )
    if end["by"] == "max_time":
        return f"Ended by its time, {end['max_seconds']:g} s, {after}."
    if end["by"] == "stopped":
        return f"Ended {after}, since all chains had stopped."
    if end["by"] == "interrupt":
        return f"Ended by Ctrl-C {after}."
    if made.limits is None:
        return ""
    return f"Ended after {draws} draws per chain, as requested. No other limit was reached."


def _next_steps(made: Made) -> str:
    bayesnn, folder, facts = program_name(), made.folder, made.posterior.provenance
    model = _file(made.run)
    lines = ["What to type next"]
    if facts["draws"] < facts.get("draws_requested", 0):
        lines.append(f"  {bayesnn} resume {folder}{model}")
    if not made.posterior.has_weights:
        lines += [
            f"  {bayesnn} report {folder}",
            f"  {bayesnn} evaluate {folder} --json",
            f"  {bayesnn} diagnose {folder}",
        ]
        return "\n".join(lines)
    lines += [
        f"  {bayesnn} report {folder}{model}",
        f"  {bayesnn} predict {folder}{model} --out predictions.csv",
        f"  {bayesnn} evaluate {folder}{model} --json",
        f"  {bayesnn} diagnose {folder}{model}",
    ]
    return "\n".join(lines)


def _file(run: Run) -> str:
    return f" --model {run.model['file']}" if "file" in run.model else ""
