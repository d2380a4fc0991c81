"""A kernel or an approximation with its settings, run in memory on rows of one's own choice."""

from dataclasses import replace
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl.experiments.execution import chosen_method, prepare, sample_job
from bayesnn_ppl.experiments.run_places import interrupt_told
from bayesnn_ppl.settings.declaring import given
from bayesnn_ppl.settings.devices import chain_mesh
from bayesnn_ppl.settings.jobs import Fit, Sample
from bayesnn_ppl.settings.methods.approximations import make_approximation
from bayesnn_ppl.settings.methods.kernels import make_kernel
from bayesnn_ppl.settings.sampling import until

__all__ = ["Method"]


class Method:
    """What a job trains, without its data.

    Args:
        job: its settings.

    Raises:
        ValueError: settings that mean nothing for a training in memory.
    """

    def __init__(self, job: Sample | Fit) -> None:
        idle = {**given(job.keep), **given(job.score)}
        if isinstance(job, Sample) and job.run.tensorboard:
            idle["tensorboard"] = True
        for name, value in idle.items():
            raise ValueError(
                f"`{name}` is {value!r}, but here every training stays in memory, with all its "
                'weights, and is compared with nothing. Leave it out, or set it to "".'
            )
        self.job = job
        prepare(job)

    def train(self, model: Any, x: Any, y: Any, seed: int) -> Any:
        """A posterior of the model given these rows, in memory.

        Raises:
            KeyboardInterrupt: it was ended from outside.
        """
        job = self.job
        if isinstance(job, Fit):
            posterior = bnn.fit(
                make_approximation(model, chosen_method(job, model, x, y)),
                x,
                y,
                seed=seed,
                float64=job.fit.float64,
                progress=False,
            )
        else:
            posterior = self._sampled(job, model, x, y, seed)
        if posterior.provenance.get("interrupted"):
            raise KeyboardInterrupt
        return posterior

    def _sampled(self, job: Sample, model: Any, x: Any, y: Any, seed: int) -> Any:
        run = replace(job.run, seed=seed)
        job = replace(job, run=run)
        assert run.chains is not None
        mesh = chain_mesh(run.chains, run.devices, run.chain_method)
        with interrupt_told(None):
            return sample_job(
                job,
                make_kernel(model, chosen_method(job, model, x, y)),
                (x, y),
                mesh,
                progress=False,
                until=until(job.ending, probe=False),
            )
