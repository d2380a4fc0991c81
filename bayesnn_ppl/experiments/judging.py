"""Diagnose and score a run, and keep both in its folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.experiments.execution import Made
from bayesnn_ppl.settings.saved.hmc_references import reference_of
from bayesnn_ppl.settings.saved.rows import held_out

__all__ = ["Judged", "judge_run"]


@dataclass(frozen=True)
class Judged:
    """What a run is worth: its diagnosis and its scores, None where there is none."""

    diagnosis: Any
    scores: Any


def judge_run(made: Made, *, diagnose: bool = True) -> Judged:
    """Diagnose and score a run that is saved, and keep both in its folder.

    Args:
        made: of `make_run` or `resume_run`, with a posterior.
        diagnose: False leaves the diagnosis out.
    """
    folder, posterior, run = made.folder, made.posterior, made.run
    # Without weights there is the probe alone, which the run has kept.
    weights, probe = posterior.has_weights, posterior.probe
    try:
        diagnosis = scores = None
        if diagnose and (weights or probe is not None):
            # Few draws with weights would say less of the chains than all draws at the probe.
            at_probe = posterior.knows_more_at_probe
            diagnosis = posterior.diagnose(None if at_probe else held_out(made.dataset)[0])
        if diagnosis is not None:  # for `bayesnn runs`, and for readers without the model
            _write(folder / "diagnosis.json", diagnosis)
        if len(made.dataset.test) and (weights or probe is not None):
            rows = tuple(made.dataset.test) if weights else ()
            of = {"reference": reference_of(run)} if weights else {}
            scores = bnn.metrics.evaluate(posterior, *rows, class_names=run.class_names, **of)
            _write(folder / "metrics.json", scores)
    finally:
        storage.send(folder)  # what was written after the last commit
    return Judged(diagnosis, scores)


def _write(path: Path, found: Any) -> None:
    path.write_text(found.to_json() + "\n", encoding="utf-8")
