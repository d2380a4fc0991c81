"""Make a run of settings in a folder, or continue one; nothing is printed from here."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.core.wording import program_name
from bayesnn_ppl.distributed import current
from bayesnn_ppl.experiments.run_places import (
    ELSEWHERE,
    interrupt_told,
    place_for_run,
    time_in_warmup,
)
from bayesnn_ppl.experiments.stopping import Stop, stop_on_sigterm
from bayesnn_ppl.settings.datasets import load_data
from bayesnn_ppl.settings.devices import chain_mesh, devices_here, prepare_devices
from bayesnn_ppl.settings.jobs import Fit, Sample
from bayesnn_ppl.settings.methods.approximations import chosen_approximation, make_approximation
from bayesnn_ppl.settings.methods.kernels import chosen_kernel, find_step, make_kernel
from bayesnn_ppl.settings.models import zoo
from bayesnn_ppl.settings.models.user_models import failures_named, shared_by
from bayesnn_ppl.settings.sampling import EndingSettings, start_of, until, what_is_kept
from bayesnn_ppl.settings.saved.hmc_references import check_reference
from bayesnn_ppl.settings.saved.opening import open_run
from bayesnn_ppl.settings.saved.run_file import Run, default_folder, remember, require_new

__all__ = [
    "TENSORBOARD",
    "Made",
    "chosen_method",
    "make_run",
    "prepare",
    "resume_run",
    "sample_job",
]

TENSORBOARD = "tensorboard"  # folder of the events, in that of the run

type Say = Callable[[str], None]


@dataclass(frozen=True)
class Made:
    """A run on disk.

    Attributes:
        folder: of the run, its working copy where it is sent elsewhere.
        run: what `run.json` holds.
        dataset: the data.
        posterior: None where SIGTERM came, and in processes other than the first.
        limits: the `until` that was asked.
        stopped: whether SIGTERM ended it.
    """

    folder: Path
    run: Run
    dataset: Any
    posterior: Any = None
    limits: dict[str, Any] | None = None
    stopped: bool = False


def prepare(job: Sample | Fit, processes: int | None = None) -> None:
    """Give JAX the devices of a job, before it starts.

    Args:
        job: what is about to run.
        processes: that make the run together on one mesh.
    """
    if isinstance(job, Fit):
        prepare_devices(int(getattr(job.settings, "members", None) or 1), None)
        return
    run = job.run
    assert run.chains is not None
    prepare_devices(run.chains, devices_here(run.devices, run.data_devices, processes))


def make_run(
    job: Sample | Fit,
    out: str | None = None,
    *,
    command: str | None = None,
    say: Say | None = None,
    progress: bool = False,
    cluster: Any = None,
) -> Made:
    """Sample or fit, and save the run.

    Args:
        job: all its settings.
        out: folder, new or empty, or an address; None chooses one in `runs/`.
        command: what was typed, which the run remembers.
        say: told what happens, a line at a time.
        progress: whether a progress bar is shown.
        cluster: workers that share the chains, as in `sample`.

    Raises:
        ValueError: settings that do not go together, or with the model or the data.
        FileExistsError: the folder holds something.
        InterruptedError: Ctrl-C before there was anything to keep.
    """
    team = current()
    fits = isinstance(job, Fit)
    if isinstance(job, Sample) and team.count > 1 and _auto(job):
        raise ValueError(
            f"--step-size auto makes short runs in one process, and this run has {team.count}. "
            "Find the step size in one, and give it."
        )
    zoo.check_name(job.model, "fit" if fits else "sample", job.data.target)
    if out is not None and team.leads:
        require_new(storage.working_copy(out))
    mesh = None if isinstance(job, Fit) or cluster is not None else _mesh(job)
    dataset, loaded_by = load_data(job.data, needed=job.zoo.standardised)
    model, described, path = zoo.chosen_model(job.model, job.zoo, job.any_model, dataset)
    with failures_named(path):
        x, y = dataset.train
        chosen = chosen_method(job, model, x, y, say)
        method = make_approximation if fits else make_kernel
        kernel = method(model, chosen)  # which checks its settings
    run = remember(
        dataset,
        made_by="bayesnn fit" if fits else "bayesnn sample",
        model=described,
        posterior_temperature=job.any_model.posterior_temperature,
        data=loaded_by,
        kernel=chosen,
        reference=job.score.reference,
        command=command,
    )
    check_reference(run, weights=job.keep.keep == "weights")
    label = Path(run.model_label).stem + (f"-{job.approximation}" if isinstance(job, Fit) else "")
    place = team.agree(out or str(default_folder(run.data_label, label)))[0]
    folder = storage.working_copy(place)
    if say is not None:
        say(f"{run.model_label} on {dataset!r}")
        if storage.is_address(place):
            say(f"The run is sent to {place} with each commit; its working copy is {folder}")
    keep = what_is_kept(job.keep, dataset)
    made = Made(folder, run, dataset)
    more = {"progress": progress, "out": place, "keep": keep} | shared_by(cluster, path)
    with failures_named(path), place_for_run(folder) if team.leads else nullcontext():
        with storage.writing_to(folder, lambda: ELSEWHERE):
            if team.leads:
                run.write(folder)
        if isinstance(job, Fit):
            return _fit(job, made, kernel, more)
        limits = until(job.ending, probe=keep.probe is not None)

        def draw(**given: Any) -> Any:
            return sample_job(job, kernel, dataset.train, mesh, **given, **more)

        return _drawn(replace(made, limits=limits), draw, tensorboard=job.run.tensorboard)


def _auto(job: Sample) -> bool:
    return getattr(job.settings, "step_size", None) == "auto"


def _mesh(job: Sample) -> Any:
    run = job.run
    assert run.chains is not None
    return chain_mesh(run.chains, run.devices, run.chain_method, run.data_devices)


def chosen_method(
    job: Sample | Fit, model: Any, x: Any, y: Any, say: Say | None = None
) -> dict[str, Any]:
    """The kernel or approximation as `run.json` holds it; `auto` becomes a step size here.

    Args:
        job: its settings.
        model, x, y: what a step size is looked for on.
        say: told each line of the search.
    """
    if isinstance(job, Fit):
        return chosen_approximation(job.approximation, job.settings)
    run = job.run
    assert run.warmup is not None and run.chains is not None
    chosen = chosen_kernel(job.kernel, job.settings, warmup=run.warmup)
    if _auto(job):
        if say is not None:
            say("Looking for a step size by short runs.")
        step = find_step(model, x, y, chosen, chains=run.chains, seed=run.seed, report=say)
        chosen["settings"]["step_size"] = step
    return chosen


def sample_job(job: Sample, kernel: Any, train: Any, mesh: Any, **more: Any) -> Any:
    """`bnn.sample` with the settings of a job.

    Args:
        job: its settings.
        kernel: of `make_kernel`.
        train: inputs and targets.
        mesh: devices, or None.
        **more: of `sample`.
    """
    run = job.run
    alike = "warmup draws chains superchains seed chain_method thinning float64".split()
    more |= {name: getattr(run, name) for name in alike}
    return bnn.sample(kernel, *train, mesh=mesh, init=start_of(run.init), **more)


def _drawn(made: Made, draw: Callable[..., Any], *, tensorboard: bool) -> Made:
    """What `draw` makes in the folder; SIGTERM and Ctrl-C end it with what is there."""
    team, folder = current(), made.folder
    with stop_on_sigterm() as stop:
        if tensorboard and team.leads:
            stop.also = bnn.TensorBoard(folder / TENSORBOARD)
        posterior = None
        with stop.expected(), time_in_warmup(folder), interrupt_told(folder):
            posterior = draw(until=made.limits, callback=stop.asked)
        if stop.came_to_any():
            return replace(made, stopped=True)
    return replace(made, posterior=posterior if team.leads else None)


def _fit(job: Fit, made: Made, approximation: Any, more: dict[str, Any]) -> Made:
    posterior, elsewhere = None, "cluster" in more
    # Of a fit on workers nothing is kept on the way: SIGTERM ends it as it ends any program.
    with nullcontext(Stop()) if elsewhere else stop_on_sigterm() as stop, stop.expected():
        try:
            posterior = bnn.fit(
                approximation,
                *made.dataset.train,
                seed=job.fit.seed,
                float64=job.fit.float64,
                callback=None if elsewhere else stop.asked,
                **more,
            )
        except KeyboardInterrupt:
            raise InterruptedError(
                f"Interrupted in training. `{program_name()} resume {made.folder}` continues from "
                "here."
            ) from None
    return replace(made, posterior=posterior, stopped=stop.came)


def resume_run(
    place: str | Path,
    *,
    model: str | None = None,
    more_draws: int | None = None,
    ending: EndingSettings | None = None,
    progress: bool = False,
    cluster: Any = None,
) -> Made:
    """Continue a run that was ended early, or make more draws of one.

    Args:
        place: folder or address of the run.
        model: the user's `.py` file, for a run that was made with one.
        more_draws: draws to add to those that were asked for.
        ending: what ends it early.
        progress: whether a progress bar is shown.
        cluster: workers that share the chains, as in `sample`.

    Raises:
        ValueError: it was made in a way that cannot be continued from settings.
    """
    folder = storage.fetched(place)
    run = open_run(folder)
    if not run.kernel:
        raise ValueError(
            f"The run `{folder}` was made by `{run.made_by}` and cannot be continued here. Only "
            "runs of `bayesnn sample` and `bayesnn fit` can; one from Python is resumed there: "
            "`bayesnn_ppl.resume(folder, kernel, x, y)`."
        )
    limits = until(ending or EndingSettings(), probe=(folder / "probe.npz").exists())
    built, path = run.load_model(model)
    dataset = run.load_data()
    make = make_approximation if "approximation" in run.kernel else make_kernel
    kernel, train = make(built, run.kernel), dataset.train
    made = Made(folder, run, dataset, limits=limits)

    def draw(**given: Any) -> Any:
        given |= {"progress": progress} | shared_by(cluster, path)
        if more_draws is None:
            return bnn.resume(place, kernel, *train, **given)
        return bnn.extend(place, kernel, *train, draws=more_draws, **given)

    with failures_named(path):
        return _drawn(made, draw, tensorboard=(folder / TENSORBOARD).is_dir())
