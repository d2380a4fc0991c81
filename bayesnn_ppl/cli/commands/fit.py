"""`bayesnn fit APPROXIMATION`: approximate a posterior, judge and save it."""

from typing import Any

from bayesnn_ppl.cli.commands.sample import MODEL, TITLES
from bayesnn_ppl.cli.shared.options import TYPED, Command, Output
from bayesnn_ppl.cli.shared.output import note
from bayesnn_ppl.cli.shared.processes import CLUSTER, ClusterSettings
from bayesnn_ppl.cli.shared.run_results import FolderSettings, show_run
from bayesnn_ppl.experiments.execution import make_run, prepare
from bayesnn_ppl.settings.jobs import GROUPS, Fit
from bayesnn_ppl.settings.methods.approximations import (
    approximation_group,
    approximation_kinds,
    approximation_summary,
)
from bayesnn_ppl.settings.models import zoo

__all__ = ["command", "words"]


def words() -> list[str]:
    """Approximations, the usual one first."""
    return list(approximation_kinds())


def command(word: str) -> Command:
    """The command of one approximation."""

    def run(
        *,
        settings: Any,
        folder: FolderSettings,
        workers: ClusterSettings,
        output: Output,
        model: str = "mlp",
        **groups: Any,
    ) -> int:
        zoo.check_name(model, "fit", groups["data"].target)
        job = Fit(word, settings, model, **groups)
        prepare(job)
        made = make_run(
            job,
            folder.out,
            command=TYPED.get(),
            say=None if folder.quiet or output.json else note,
            progress=not folder.quiet,
            cluster=workers.cluster,
        )
        return show_run(made, folder, json=output.json, headline=f"Saved in {made.folder}")

    return Command(
        word,
        approximation_summary(word),
        run,
        (MODEL,),
        {f"Approximation {word}": ("settings", approximation_group(word))}
        | {TITLES[name]: (name, group) for name, group in GROUPS[Fit].items()}
        | {
            CLUSTER: ("workers", ClusterSettings),
            "Where the run goes": ("folder", FolderSettings),
        },
    )
