"""`bayesnn sample KERNEL`: draw from a posterior, judge and save it."""

from typing import Any

from bayesnn_ppl.cli.shared.options import TYPED, Argument, Command, Output
from bayesnn_ppl.cli.shared.output import note
from bayesnn_ppl.cli.shared.processes import ProcessSettings, join
from bayesnn_ppl.cli.shared.run_results import FolderSettings, show_run
from bayesnn_ppl.experiments.execution import make_run, prepare
from bayesnn_ppl.settings.devices import devices_here
from bayesnn_ppl.settings.jobs import GROUPS, Sample
from bayesnn_ppl.settings.methods.kernels import METHODS, kernel_group, kernel_kinds, kernel_summary
from bayesnn_ppl.settings.models import zoo

__all__ = ["MODEL", "command", "words"]

MODEL = Argument(
    "model",
    "a name of `bayesnn models`, or a path to a .py file that defines the model "
    "`model(x, y=None, *, batch_size=None)`; FILE.py:NAME takes another name [default: mlp]",
    "MODEL",
    default="mlp",
)
TITLES = {
    "data": "Data",
    "run": "Sampling",
    "fit": "Computing",
    "ending": "End early",
    "zoo": "Models of the zoo, as far as they have the setting",
    "any_model": "Any model",
    "keep": "What is kept",
    "score": "Scores",
}


def words() -> list[str]:
    """Kernels and methods, the usual one first."""
    return [*kernel_kinds(), *METHODS]


def command(word: str) -> Command:
    """The command of one kernel or method."""

    def run(
        *,
        settings: Any,
        processes: ProcessSettings,
        folder: FolderSettings,
        output: Output,
        model: str = "mlp",
        **groups: Any,
    ) -> int:
        workers = processes.workers()
        zoo.check_name(model, "sample", groups["data"].target)
        job = Sample(word, settings, model, **groups)
        if workers is not None and (job.run.devices or job.run.data_devices > 1):
            raise ValueError(
                "--devices and --data-devices share the devices of this process, and each worker "
                "of a cluster has its own. Leave them out."
            )
        if processes.num_processes is not None:  # checked before the others are waited for
            devices_here(job.run.devices, job.run.data_devices, processes.num_processes)
        team = join(processes)
        prepare(job, team.count)
        talk = team.leads and not (folder.quiet or output.json)
        with team.guarded(folder.out):
            made = make_run(
                job,
                folder.out,
                command=TYPED.get(),
                say=note if talk else None,
                progress=team.leads and not folder.quiet,
                cluster=workers,
            )
            return show_run(made, folder, json=output.json, headline=f"Saved in {made.folder}")

    return Command(
        word,
        kernel_summary(word),
        run,
        (MODEL,),
        {f"Kernel {word}": ("settings", kernel_group(word))}
        | {TITLES[name]: (name, group) for name, group in GROUPS[Sample].items()}
        | {
            "Several processes": ("processes", ProcessSettings),
            "Where the run goes": ("folder", FolderSettings),
        },
    )
