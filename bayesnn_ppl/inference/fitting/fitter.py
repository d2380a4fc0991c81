"""`fit`: run an approximation on any model; the result is a `Posterior` like that of `sample`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from jax.sharding import Mesh

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.core.arrays import column_names
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.distributed.clusters import connected
from bayesnn_ppl.inference.fitting.approximation import Approximation
from bayesnn_ppl.inference.fitting.on_workers import check_fit_on_workers, members_of
from bayesnn_ppl.inference.fitting.prepared_fit import Fit
from bayesnn_ppl.inference.runtime.keep import Keep, check_every, check_keep, check_memory
from bayesnn_ppl.inference.runtime.reachable_targets import warn_beyond_prior
from bayesnn_ppl.inference.runtime.run_inputs import RunInputs
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.modeling.contract import RANDOM_DENSITY, WITHOUT_NOISE, ModelSummary, check_task
from bayesnn_ppl.modeling.unfitted_parameters import refuse_unfitted
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.storage import RunFolder, working_copy

__all__ = ["fit", "make_fit", "require_same", "resume_fit"]


@strict_switches
def fit(
    approximation: Approximation,
    x: Any,
    y: Any,
    *,
    seed: int = 0,
    mesh: Mesh | None = None,
    float64: bool = False,
    progress: bool = True,
    callback: Callable[[Any], Any] | None = None,
    out: str | Path | None = None,
    keep: Keep | None = None,
    cluster: Any = None,
) -> Posterior:
    """Approximate the posterior of `approximation.model` given `x` and `y`.

    Args:
        approximation: one of `bayesnn_ppl.approximations`, built from a model.
        x: inputs, shape (N, ...), numbers without NaN.
        y: targets, shape (N, ...). Targets from `data.load` carry their units.
        seed: of all randomness; on one machine the same seed gives bit-for-bit identical results.
        mesh: devices that members are spread over, see `device_mesh`.
        float64: compute in double precision.
        progress: show a bar.
        callback: called with a `TrainingProgress` after each block of epochs or steps; ends that
            stage when it returns true. A fit around a mode whose training it ended is made around
            what that came to.
        out: a new or empty folder that the result is written to, as that of `sample`. Trainings
            and other optimisations leave checkpoints and `metrics.csv` there, and `resume`
            continues from them after a crash or a stop.
        keep: what is kept of each draw, by default all weights; see `Keep`.
        cluster: workers of Dask that make the fit, as in `sample`: the members of an `Ensemble` are
            shared among them, any other approximation is made by one. What a lost worker was
            making is begun again by another; there are no checkpoints of it.

    Returns:
        A `Posterior`. Members that were trained independently are its chains. The provenance's
        "approximation" says how it was found and with what result, and `diagnose()` whether it
        went well.

    Raises:
        FileExistsError: the folder `out` is not empty.
        TypeError, ValueError: an argument, the data or the model is not what it must be; said
            before anything is compiled.
        RuntimeError: no attempt to train ended at finite parameters, where the method needs one;
            or the callback ended a burn-in, before there was anything to return.
        KeyboardInterrupt: Ctrl-C came before there was anything to return, or while a mode was
            trained.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> data = bnn.data.load("diabetes")
        >>> members = bnn.approximations.Ensemble(bnn.models.mlp(hidden=(5,)), members=2, epochs=5)
        >>> posterior = bnn.fit(members, *data.train, seed=0, progress=False)
        >>> posterior.predict(data.test.x).mean.shape == data.test.y.shape
        True
    """
    with arithmetic(float64=float64):
        inputs = RunInputs(
            method=approximation,
            x=x,
            y=y,
            seed=seed,
            mesh=mesh,
            float64=float64,
            keep=keep,
            on_disk=out is not None,
        )
        prepared = make_fit(inputs, progress, callback)
        problem = prepared.problem
        if cluster is not None:
            check_fit_on_workers(mesh, callback)
        warn_beyond_prior(problem.model, problem.x, problem.y, problem.summary, float64=float64)
        with _solved_by(cluster, prepared) as ready:
            if out is None:
                return ready.with_data(ready.in_memory())
            folder = RunFolder.create(
                working_copy(out),
                ready.describe(None),
                every={"posterior": ready.keep.every},
                probe=None if ready.probe is None else ready.probe.arrays(),
            )
            try:
                return ready.with_data(ready.in_folder(folder))
            finally:
                folder.release()


@contextmanager
def _solved_by(cluster: Any, prepared: Fit) -> Iterator[Fit]:
    """The fit with the client of a cluster that makes it, which is connected within the block."""
    if cluster is None:
        yield prepared
        return
    with connected(cluster, members_of(prepared.approximation)) as client:
        yield replace(prepared, client=client)


def resume_fit(
    folder: RunFolder, inputs: RunInputs, progress: bool, callback: Callable[[Any], Any] | None
) -> Posterior:
    """Resume a fit whose training was ended; see `resume`.

    Raises:
        ValueError: approximation, model or data are not those of the fit.
    """
    with arithmetic(float64=inputs.float64):
        prepared = make_fit(inputs, progress, callback)
        require_same(
            folder,
            prepared.describe(None),
            {
                "kernel": "another approximation",
                "kernel_settings": "other settings of the approximation",
                "model": "another model",
                "data_sha256": "other data",
            },
        )
        if folder.commit_record["complete"]:
            return prepared.with_data(Posterior.load(folder.path, prepared.problem.model))
        return prepared.with_data(prepared.in_folder(folder))


def make_fit(inputs: RunInputs, progress: bool, callback: Callable[[Any], Any] | None) -> Fit:
    """Check every argument of `fit`; see there."""
    approximation, float64 = inputs.method, inputs.float64
    problem = Problem.of(
        _model_of(approximation),
        inputs.x,
        inputs.y,
        seed=inputs.seed,
        float64=float64,
        all_rows=not inputs.simulated,
        mesh=inputs.mesh,
        progress=progress,
        callback=callback,
    )
    summary = problem.summary
    check_task(inputs.y, summary)
    if not getattr(approximation, "fits_parameters", False):
        refuse_unfitted(summary.unfitted, type(approximation).__name__)
    _check_noise(approximation, summary)
    columns = column_names(inputs.x)
    keep, probe = check_keep(
        inputs.keep,
        problem.model,
        summary,
        problem.x,
        columns=columns,
        on_disk=inputs.on_disk,
        float64=float64,
    )
    draws = getattr(approximation, "draws", 1)
    check_every(keep, draws)
    check_memory(
        summary,
        chains=members_of(approximation),
        draws=draws,
        float64=float64,
        instead=f"Give {type(approximation).__name__} fewer `draws`.",
    )
    units, dataset = (getattr(inputs.y, name, None) for name in ("standardisation", "dataset"))
    return Fit(approximation, problem, keep, probe, units, dataset, columns)


def _check_noise(approximation: Any, summary: ModelSummary) -> None:
    """Raise ValueError unless the approximation asks no more of the density than gradients."""
    if summary.noisy and not getattr(approximation, "takes_noise", False):
        raise ValueError(
            f"{RANDOM_DENSITY}, and {type(approximation).__name__} evaluates it for more than a "
            "step of training: as a curvature, an evidence, a bound or a force, where each number "
            "would be another one. `MAP` and `Ensemble` take it, with fresh noise each step; "
            "so do minibatch kernels such as `bnn.kernels.SGHMC`. Use one of these, "
            f"{WITHOUT_NOISE}"
        )


def _model_of(approximation: Any) -> Any:
    if isinstance(approximation, type) or not isinstance(approximation, Approximation):
        hint = " Build it from your model: `MAP(model)`." if callable(approximation) else ""
        raise TypeError(
            "`fit` takes an approximation such as `bayesnn_ppl.approximations.MAP(model)`, "
            f"not {approximation!r}.{hint} MCMC kernels are for `sample`."
        )
    if approximation.model is None:
        name = type(approximation).__name__
        raise ValueError(f"The approximation has no model: `{name}(model)`.")
    return approximation.model


def require_same(folder: RunFolder, now: Mapping[str, Any], entries: Mapping[str, str]) -> None:
    """Raise ValueError unless a run was made by what is given now.

    Args:
        folder: of the run.
        now: the provenance that it would have.
        entries: entry -> what the run was made with, where it differs.
    """
    run = folder.config
    for entry, what in entries.items():
        if now[entry] != run[entry]:
            raise ValueError(
                f"The run `{folder.path}` was made with {what}. It has\n"
                f"  {run[entry]}\nand given are\n  {now[entry]}"
            )
