"""`bayesnn resume`, `extend`, `check` and `runs`: what to do with runs on disk."""

import argparse
from pathlib import Path
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.cli.devices import prepare_devices
from bayesnn_ppl.cli.ending import ended, interrupt_told, time_in_warmup, until
from bayesnn_ppl.cli.fitting import made_approximation
from bayesnn_ppl.cli.kernels import make_kernel
from bayesnn_ppl.cli.output import note, paragraph, print_json, program_name, table
from bayesnn_ppl.cli.processes import join, supervise
from bayesnn_ppl.cli.runs import open_run
from bayesnn_ppl.cli.sampling import TENSORBOARD, report
from bayesnn_ppl.cli.stopping import STOPPED, stop_on_sigterm
from bayesnn_ppl.cli.user_model import failures_named
from bayesnn_ppl.cli.verdicts import kept_status

__all__ = ["run_check", "run_extend", "run_resume", "run_runs"]


def run_resume(arguments: argparse.Namespace) -> int:
    """Go on with a run that was ended early."""
    return _go_on(arguments, bnn.resume)


def run_extend(arguments: argparse.Namespace) -> int:
    """Make more draws of a run."""
    return _go_on(arguments, bnn.extend, draws=arguments.draws)


def _go_on(arguments: argparse.Namespace, function: Any, **more: int) -> int:
    status = supervise(arguments, arguments.run_folder)
    if status is not None:
        return status
    config = _config(storage.fetched(arguments.run_folder))
    prepare_devices(max(config["chains"], 1), _devices(arguments, config))
    team = join(arguments)
    if not team.leads:
        arguments.quiet = True
    folder = storage.fetched(arguments.run_folder)  # of several processes each has its own
    with team.guarded(folder):
        return _go_on_here(arguments, function, folder, config, team, **more)


def _devices(arguments: argparse.Namespace, config: dict[str, Any]) -> int | None:
    """Devices of this process: its share of those of the run, on any number of processes."""
    if arguments.processes is not None:
        return None  # of a worker, as in `sample`: as many as its chains can use
    shape = config["devices"]["mesh"]
    total = shape["chain"] * shape["data"]
    count = arguments.num_processes or config.get("processes", 1)
    return max(total // count, 1) if arguments.distributed else total


def _config(folder: Path) -> dict[str, Any]:
    open_run(folder)  # which says what is wrong with it
    return storage.read_config(folder)


def _go_on_here(
    arguments: argparse.Namespace,
    function: Any,
    folder: Path,
    config: dict[str, Any],
    team: Any,
    **more: int,
) -> int:
    run = open_run(folder)
    if not run.kernel:
        raise ValueError(
            f"The run `{folder}` was made by `{run.made_by}` and cannot go on. "
            "Only runs of `bayesnn sample` and `bayesnn fit` can; one from Python is resumed "
            "there: `bayesnn_ppl.resume(folder, kernel, x, y)`."
        )
    complete = storage.read_commit(folder)["complete"]
    limits = until(arguments, probe=(folder / "probe.npz").exists())
    program, path = run.load_model(arguments.model)
    dataset = run.load_data()
    kernel: Any
    if "approximation" in run.kernel:
        kernel = made_approximation(run.kernel["approximation"], program, run.kernel["settings"])
    else:
        kernel = make_kernel(program, run.kernel)
    with failures_named(path), stop_on_sigterm() as stop:
        if team.leads and (folder / TENSORBOARD).is_dir():
            stop.also = bnn.TensorBoard(folder / TENSORBOARD)
        with stop.expected(), time_in_warmup(folder), interrupt_told(folder):
            posterior = function(
                folder,
                kernel,
                *dataset.train,
                progress=not arguments.quiet,
                callback=stop.asked,
                until=limits,
                **more,
            )
        if stop.came_to_any():
            return stop.told(folder) if team.leads else STOPPED
    if not team.leads:
        return 0
    if not arguments.json:
        made = f"{posterior.provenance['draws']} draws per chain in {folder}"
        if complete and function is bnn.resume:
            made = f"{folder} is complete already, with {made.removesuffix(f' in {folder}')}."
        print(f"{made}\n{paragraph(ended(posterior, limits))}".strip() + "\n", flush=True)
    report(posterior, dataset, run, folder, arguments)
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    """Say whether a run is whole; with --repair keep what is."""
    folder = storage.fetched(arguments.run_folder)
    problems = storage.check(folder)
    kept = storage.repair(folder) if problems and arguments.repair else None
    storage.send(folder)
    if arguments.json:
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


def run_runs(arguments: argparse.Namespace) -> int:
    """List the runs of a folder."""
    root = Path(arguments.folder)
    if not root.is_dir():
        raise FileNotFoundError(f"There is no folder `{root}`.")
    paths = [path.parent for path in sorted(root.glob("*/commit.json"))]
    found = [_describe(path) for path in paths]
    if arguments.json:
        print_json(found)
    elif not found:
        print(f"There is no run in {root}.")
    else:
        rows = [(r["run"], r["kernel"], _draws(r), r["state"], r["verdict"]) for r in found]
        print(table(("RUN", "KERNEL", "DRAWS", "STATE", "VERDICT"), rows))
        stopped = [run for run, path in zip(found, paths, strict=True) if _can_go_on(run, path)]
        if stopped:
            which = stopped[0]["run"] if len(stopped) == 1 else "RUN"
            print(f"\n`{program_name()} resume {which}` continues what has stopped.")
    return 0


def _draws(run: dict[str, Any]) -> str:
    made, wanted = run["draws"], run["draws_requested"]
    short = run["state"] != "complete" and wanted > made
    return f"{run['chains']} x {made}" + (f" of {wanted}" if short else "")


def _can_go_on(run: dict[str, Any], folder: Path) -> bool:
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
