"""`bayesnn resume`, `extend`, `check` and `runs`: what to do with runs on disk."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesnn_ppl import storage
from bayesnn_ppl.cli.commands.reading import RUN
from bayesnn_ppl.cli.shared.options import Argument, Command, Output, model_file
from bayesnn_ppl.cli.shared.output import note, print_json, table
from bayesnn_ppl.cli.shared.processes import ProcessSettings, join
from bayesnn_ppl.cli.shared.run_results import ShowSettings, show_run
from bayesnn_ppl.core.wording import program_name
from bayesnn_ppl.experiments.execution import resume_run
from bayesnn_ppl.settings.declaring import setting, switch
from bayesnn_ppl.settings.devices import prepare_devices
from bayesnn_ppl.settings.sampling import EndingSettings
from bayesnn_ppl.settings.saved.kept_diagnosis import kept_status
from bayesnn_ppl.settings.saved.opening import open_run
from bayesnn_ppl.settings.value_kinds import whole

__all__ = ["CHECK", "EXTEND", "RESUME", "RUNS"]


@dataclass(frozen=True)
class ResumeSettings:
    """What a run is continued with."""

    model: str | None = model_file("the run's zoo model")


@dataclass(frozen=True)
class ExtendSettings(ResumeSettings):
    """What a run is extended by."""

    draws: int = setting(
        "draws to add to those requested before",
        default=500,
        read=whole(1),
        metavar="N",
        unit="draws per chain",
    )


@dataclass(frozen=True)
class CheckSettings:
    """What is done with a damaged run."""

    repair: bool = switch("keep the draws before the damage, and drop the rest")


def run_resume(
    run: str,
    *,
    settings: ResumeSettings,
    ending: EndingSettings,
    processes: ProcessSettings,
    show: ShowSettings,
    output: Output,
) -> int:
    """Continue a run that was ended early, or make more draws of one."""
    more = settings.draws if isinstance(settings, ExtendSettings) else None
    workers = processes.workers()
    config = _config(storage.fetched(run))
    team = join(processes)
    shape = config["devices"]["mesh"]  # shared by any number of processes
    total = shape["chain"] * shape["data"]
    prepare_devices(max(config["chains"], 1), max(total // team.count, 1))
    folder = storage.fetched(run)  # of several processes each has its own
    with team.guarded(folder):
        complete = storage.read_commit(folder)["complete"]
        progress = team.leads and not show.quiet
        made = resume_run(
            run,
            model=settings.model,
            more_draws=more,
            ending=ending,
            progress=progress,
            cluster=workers,
        )
        headline = ""
        if made.posterior is not None:
            draws = f"{made.posterior.provenance['draws']} draws per chain"
            headline = f"{draws} in {folder}"
            if complete and more is None:
                headline = f"{folder} is complete already, with {draws}."
        return show_run(made, show, json=output.json, headline=headline)


def _config(folder: Path) -> dict[str, Any]:
    open_run(folder)  # which says what is wrong with it
    return storage.read_config(folder)


def run_check(run: str, *, settings: CheckSettings, output: Output) -> int:
    """Say whether a run is whole; with --repair keep what is."""
    folder = storage.fetched(run)
    problems = storage.check(folder)
    kept = storage.repair(folder) if problems and settings.repair else None
    storage.send(folder)
    if output.json:
        print_json({"whole": not problems, "problems": problems, "repaired_to_draws": kept})
    elif not problems:
        print(f"{folder} is whole.")
    else:
        print("\n".join(problems))
        if kept is not None:
            print(f"Repaired: {kept} draws per chain are kept.")
        else:
            note("`bayesnn check --repair` keeps the draws before the damage.")
    return 1 if problems and kept is None else 0


def run_runs(folder: str = "runs", *, output: Output) -> int:
    """List the runs of a folder."""
    root = Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"There is no folder `{root}`.")
    paths = [path.parent for path in sorted(root.glob("*/commit.json"))]
    found = [_describe(path) for path in paths]
    if output.json:
        print_json(found)
    elif not found:
        print(f"There is no run in {root}.")
    else:
        rows = [(r["run"], r["kernel"], _draws(r), r["state"], r["verdict"]) for r in found]
        print(table(("RUN", "KERNEL", "DRAWS", "STATE", "VERDICT"), rows))
        stopped = [run for run, path in zip(found, paths, strict=True) if _can_continue(run, path)]
        if stopped:
            which = stopped[0]["run"] if len(stopped) == 1 else "RUN"
            print(f"\n`{program_name()} resume {which}` continues a stopped run.")
    return 0


def _draws(run: dict[str, Any]) -> str:
    made, wanted = run["draws"], run["draws_requested"]
    short = run["state"] != "complete" and wanted > made
    return f"{run['chains']} x {made}" + (f" of {wanted}" if short else "")


def _can_continue(run: dict[str, Any], folder: Path) -> bool:
    """Whether `bayesnn resume` has something to do: runs from Python are resumed there."""
    return run["state"].startswith("stopped") and (folder / "run.json").is_file()


def _state(folder: Path, record: dict[str, Any], config: dict[str, Any]) -> str:
    """Complete, in progress, or ended by whoever wrote it; where it is before its draws."""
    if record["complete"]:
        return "complete"
    # The lock goes with the process that holds it, however that ends.
    state = "in progress" if storage.is_written_to(folder) else "stopped"
    if record["phase"] == "sample":
        return state
    if record["phase"] == "warmup":
        return f"{state}, warm-up {record['done']} of {config.get('warmup', '?')}"
    return f"{state}, {record['phase']} {record['done']}"


def _describe(folder: Path) -> dict[str, Any]:
    record, config = storage.read_commit(folder), storage.read_config(folder)
    return {
        "run": str(folder),
        "kernel": config.get("kernel", ""),
        "chains": config.get("chains"),
        "draws": record["draws"],
        "draws_requested": config.get("draws_requested", record["draws"]),
        "state": _state(folder, record, config),
        "verdict": kept_status(folder, record["draws"], config) or "not diagnosed",
    }


_CONTINUED: dict[str, tuple[str, type]] = {
    "End early": ("ending", EndingSettings),
    "Several processes": ("processes", ProcessSettings),
    "What is shown": ("show", ShowSettings),
}
RESUME = Command(
    "resume",
    "continue a run that was ended early",
    run_resume,
    (RUN,),
    {"Options": ("settings", ResumeSettings), **_CONTINUED},
)
EXTEND = Command(
    "extend",
    "make more draws of a run",
    run_resume,
    (RUN,),
    {"Options": ("settings", ExtendSettings), **_CONTINUED},
)
CHECK = Command(
    "check",
    "check whether a run on disk is complete and undamaged",
    run_check,
    (RUN,),
    {"Repair": ("settings", CheckSettings)},
)
RUNS = Command(
    "runs",
    "list the runs of a folder",
    run_runs,
    (Argument("folder", "folder of runs [default: runs]", "FOLDER", default="runs"),),
)
