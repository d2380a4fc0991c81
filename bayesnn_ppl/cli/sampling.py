"""`bayesnn sample`: from options to a saved, diagnosed and scored posterior."""

import argparse
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.cli import zoo
from bayesnn_ppl.cli.datasets import load_data
from bayesnn_ppl.cli.devices import chain_mesh, devices_here, prepare_devices
from bayesnn_ppl.cli.ending import ended, interrupt_told, time_in_warmup, until
from bayesnn_ppl.cli.kernels import check_kernel, chosen_kernel, find_step, make_kernel
from bayesnn_ppl.cli.methods import apply_method
from bayesnn_ppl.cli.options import MODEL_OPTIONS
from bayesnn_ppl.cli.output import note, paragraph, print_json, program_name
from bayesnn_ppl.cli.processes import join, supervise
from bayesnn_ppl.cli.references import check_reference, reference_of
from bayesnn_ppl.cli.rows import held_out
from bayesnn_ppl.cli.runs import Run, default_folder, note_of_working_copy, remember, require_new
from bayesnn_ppl.cli.stopping import STOPPED, stop_on_sigterm
from bayesnn_ppl.cli.user_model import failures_named, load_program, source_hash, split_name

__all__ = [
    "TENSORBOARD",
    "chosen_model",
    "draw",
    "report",
    "reserved",
    "run_sample",
    "what_is_kept",
]

TENSORBOARD = "tensorboard"  # folder of the events, in that of the run
_PROBE_VALUES = 2000


def run_sample(arguments: argparse.Namespace) -> int:
    """Sample, save, diagnose, score, and say what to type next."""
    status = supervise(arguments, arguments.out)
    if status is not None:
        return status
    zoo.check_name(arguments.model, "sample", arguments.target)
    apply_method(arguments)
    check_kernel(vars(arguments))
    data_devices = arguments.data_devices
    here = devices_here(arguments.devices, data_devices, arguments.num_processes)
    prepare_devices(arguments.chains, here)
    team = join(arguments)
    with team.guarded(arguments.out):
        return _sample(arguments, team, data_devices)


def _sample(arguments: argparse.Namespace, team: Any, data_devices: int) -> int:
    options = vars(arguments)
    if team.count > 1:
        _check_together(arguments, team)
    if arguments.out is not None and team.leads:
        require_new(storage.working_copy(arguments.out))
    mesh = chain_mesh(arguments.chains, arguments.devices, arguments.chain_method, data_devices)
    dataset, data = load_data(options)
    program, model, path = chosen_model(arguments, dataset)
    talk = not (arguments.quiet or arguments.json)
    if arguments.step_size == "auto":
        if talk:
            note("Looking for a step size by short runs.")
        with failures_named(path):
            x, y = dataset.train
            options["step_size"] = find_step(program, x, y, options, report=note if talk else None)
    run = remember(
        dataset,
        made_by="bayesnn sample",
        model=model,
        posterior_temperature=arguments.posterior_temperature,
        data=data,
        kernel=chosen_kernel(options),
        reference=arguments.reference,
        command=getattr(arguments, "command", None),
    )
    check_reference(run, weights=arguments.keep == "weights")
    label = Path(run.model_label).stem
    place = team.agree(arguments.out or str(default_folder(run.data_label, label)))[0]
    folder = storage.working_copy(place)
    if talk:
        note(f"{run.model_label} on {dataset!r}")
        note_of_working_copy(place, folder)
    keep = what_is_kept(options, dataset)
    limits = until(arguments, probe=keep.probe is not None)
    place = reserved(folder) if team.leads else nullcontext()
    with failures_named(path), place, stop_on_sigterm() as stop:
        if arguments.tensorboard and team.leads:
            stop.also = bnn.TensorBoard(folder / TENSORBOARD)
        with storage.writing_to(folder, lambda: "Choose another folder with --out."):
            if team.leads:
                run.write(folder)
        with stop.expected(), time_in_warmup(folder):
            posterior = draw(
                program,
                dataset,
                options,
                mesh=mesh,
                progress=not arguments.quiet,
                out=folder,
                keep=keep,
                until=limits,
                callback=stop.asked,
            )
        if stop.came_to_any():
            return stop.told(folder) if team.leads else STOPPED
    if not team.leads:
        return 0
    if not arguments.json:
        print(
            f"Saved in {folder}\n{paragraph(ended(posterior, limits))}".strip() + "\n", flush=True
        )
    report(posterior, dataset, run, folder, arguments)
    return 0


def _check_together(arguments: argparse.Namespace, team: Any) -> None:
    """Refuse what several processes cannot do, and let process 0 do the talking.

    Raises:
        ValueError: --step-size auto, or chains that are placed by hand.
    """
    if arguments.step_size == "auto":
        raise ValueError(
            f"--step-size auto makes short runs in one process, and this run has {team.count}. "
            "Find the step size in one, and give it."
        )
    if arguments.devices is not None and not team.collective:
        raise ValueError(
            "--devices says how the devices of one process, or of one mesh, share the chains; with "
            "--processes each process has its own. Leave it out."
        )
    if not team.leads:
        arguments.quiet = True


def what_is_kept(options: dict[str, Any], dataset: Any) -> Any:
    """What the run keeps; by default function values at test rows too, or at training rows where
    there are no others, so that it can be judged without its program.
    """
    words: dict[str, Any] = {"weights": "all", "moments": "moments", "functions": "none"}
    weights = words[options["keep"]]
    groups = options["keep_groups"] or ()
    if groups and weights != "all":
        raise ValueError(
            f"--keep-groups are made from the weights, and --keep {options['keep']} keeps no draws "
            "of them. Leave one of the two out."
        )
    rows = options["probe_rows"]
    if rows is None:
        outputs = dataset.classes or int(np.prod(np.shape(dataset.train.y)[1:]))
        rows = max(1, _PROBE_VALUES // outputs)
    probe = None
    if rows:
        x, y = held_out(dataset)
        chosen = np.unique(np.linspace(0, len(x) - 1, rows).astype(int))
        probe = x[chosen] if y is None else (x[chosen], y[chosen])
    elif weights == "none":
        raise ValueError(
            "--keep functions keeps function values alone, and --probe-rows 0 keeps none of them. "
            "Leave one of the two out."
        )
    return bnn.Keep(
        weights=weights,
        every=options["keep_every"],
        bfloat16=options["bfloat16"],
        probe=probe,
        groups=groups,
    )


def report(
    posterior: Any, dataset: Any, run: Run, folder: Path, arguments: argparse.Namespace
) -> None:
    """Print what came of a run that is saved already."""
    try:
        _report(posterior, dataset, run, folder, arguments)
    except BaseException:
        note(f"The draws are safe: the run is saved in {folder}.")
        raise
    finally:
        storage.send(folder)  # what was written down after the last commit


def _report(
    posterior: Any, dataset: Any, run: Run, folder: Path, arguments: argparse.Namespace
) -> None:
    # Without weights there is the probe alone, which the run has kept.
    weights, probe = posterior.has_weights, posterior.probe
    diagnosis = None
    if not arguments.no_diagnose and (weights or probe is not None):
        diagnosis = posterior.diagnose(held_out(dataset)[0] if weights else None)
    if diagnosis is not None:  # for `bayesnn runs`, and for readers without the program
        (folder / "diagnosis.json").write_text(diagnosis.to_json() + "\n", encoding="utf-8")
    if not len(dataset.test):
        scores = None
    elif weights:
        scores = bnn.metrics.evaluate(
            posterior, *dataset.test, reference=reference_of(run), class_names=run.class_names
        )
    elif probe is not None:
        scores = bnn.metrics.evaluate(posterior, class_names=run.class_names)
    else:
        scores = None
    if scores is not None:
        (folder / "metrics.json").write_text(scores.to_json() + "\n", encoding="utf-8")
    if arguments.json:
        print_json(
            {
                "folder": str(folder),
                "draws": posterior.provenance["draws"],
                "interrupted": posterior.provenance["interrupted"],
                "ended": posterior.provenance.get("ended"),
                "seconds": posterior.provenance["seconds"],
                "diagnosis": None if diagnosis is None else diagnosis.to_dict(),
                "scores": None if scores is None else scores.to_dict(),
            }
        )
        return
    if diagnosis is not None:
        print(f"{diagnosis}\n")
    if scores is not None:
        print("Held-out scores, in the data's units")
        print(scores)
    if not arguments.quiet:
        made = posterior.provenance
        unfinished = made["draws"] < made.get("draws_requested", 0)
        print(f"\n{_next_steps(run, folder, weights=weights, unfinished=unfinished)}")


def _next_steps(run: Run, folder: Path, *, weights: bool, unfinished: bool) -> str:
    bayesnn = program_name()
    program = f" --model {run.model['file']}" if "file" in run.model else ""
    first = ["What to type next"]
    if unfinished:
        first.append(f"  {bayesnn} resume {folder}{program}")
    if not weights:
        return "\n".join(
            (
                *first,
                f"  {bayesnn} report {folder}",
                f"  {bayesnn} evaluate {folder} --json",
                f"  {bayesnn} diagnose {folder}",
            )
        )
    return "\n".join(
        (
            *first,
            f"  {bayesnn} report {folder}{program}",
            f"  {bayesnn} predict {folder}{program} --out predictions.csv",
            f"  {bayesnn} evaluate {folder}{program} --json",
            f"  {bayesnn} diagnose {folder}{program}",
        )
    )


def chosen_model(
    arguments: argparse.Namespace, dataset: Any
) -> tuple[Any, dict[str, Any], Path | None]:
    """The program, what brings it back, and the user's file if it is the user's."""
    given = {
        name: value for name in MODEL_OPTIONS if (value := getattr(arguments, name)) is not None
    }
    temperature = arguments.posterior_temperature
    if not zoo.is_file(arguments.model):
        zoo.check_inputs(arguments.model, dataset.train.x)
        program = zoo.build(arguments.model, given, task=dataset.task, classes=dataset.classes)
        if temperature != 1.0:
            program = bnn.cold(program, temperature)
        return program, {"zoo": arguments.model, "options": given}, None
    path, name = split_name(arguments.model)
    if given:
        flags = ", ".join(f"--{option.replace('_', '-')}" for option in given)
        raise ValueError(
            f"The options {flags} are for models of the zoo; `{path}` is a program of your own. "
            "Set these things there."
        )
    program = load_program(path, name)
    if temperature != 1.0:
        program = bnn.cold(program, temperature)
    return program, {"file": str(arguments.model), "name": name, "sha256": source_hash(path)}, path


def draw(
    program: Any,
    dataset: Any,
    options: dict[str, Any],
    *,
    mesh: Any,
    progress: bool,
    out: Path | None,
    keep: Any = None,
    until: dict[str, Any] | None = None,
    callback: Any,
) -> Any:
    """Run the kernel of the options, and stream the draws to the folder, if there is one.

    Raises:
        InterruptedError: Ctrl-C before the first draw; later it ends the run early.
    """
    with interrupt_told(out):
        return bnn.sample(
            make_kernel(program, chosen_kernel(options)),
            *dataset.train,
            warmup=options["warmup"],
            draws=options["draws"],
            chains=options["chains"],
            seed=options["seed"],
            chain_method=options["chain_method"],
            mesh=mesh,
            init=_start(options["init"]),
            thinning=options["thinning"],
            float64=options["float64"],
            progress=progress,
            out=out,
            keep=keep,
            until=until,
            callback=callback,
        )


def _start(word: str) -> Any:
    """`init` of `sample` for the word of `--init`."""
    if word == "prior":
        return None
    return bnn.approximations.Ensemble() if word == "ensemble" else word


@contextmanager
def reserved(folder: Path) -> Iterator[None]:
    """Make the folder before the work, so that hours of it cannot end in nowhere to write.

    A folder in which nothing has been drawn when the block fails is removed again.
    """
    made = not folder.exists()
    with storage.writing_to(folder, lambda: "Choose another folder with --out."):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if made and folder.is_dir() and not (folder / "commit.json").exists():
            shutil.rmtree(folder)
        raise
