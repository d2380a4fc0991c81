"""`fit`: run an approximation on any model; the result is a `Posterior` like that of `sample`."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpyro.infer.util import constrain_fn

from bayesnn_ppl.core.arguments import natural, whole_number
from bayesnn_ppl.core.arrays import check_array, check_targets
from bayesnn_ppl.core.identity import StaticProgram
from bayesnn_ppl.core.mesh import default_mesh
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.inference.fitting.problem import Approximation, Fitted, Problem
from bayesnn_ppl.inference.fitting.provenance import describe_fit
from bayesnn_ppl.inference.runtime.draw_writers import FolderSink, MemorySink
from bayesnn_ppl.inference.runtime.keep import Keep, Probe, check_keep, with_kept_groups
from bayesnn_ppl.inference.runtime.reachable_targets import warn_beyond_prior
from bayesnn_ppl.inference.runtime.run_inputs import RunInputs
from bayesnn_ppl.inference.training.checkpoints import TrainingRecord
from bayesnn_ppl.modeling.contract import (
    RANDOM_DENSITY,
    WITHOUT_NOISE,
    ModelSummary,
    check_task,
    inspect_model,
)
from bayesnn_ppl.modeling.training_noise import clean
from bayesnn_ppl.posterior.mixture import function_record
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.storage import STARTS, RunFolder, variable_names, working_copy

__all__ = ["Fit", "fit", "make_fit", "require_same", "resume_fit"]

_BLOCK = 64  # draws that are mapped to the program's space at once
# Keys of predictive samples at the probe, apart from every key of an approximation.
_PREDICTIVE = 2**31


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
) -> Posterior:
    """Approximate the posterior of `approximation.model` given `x` and `y`.

    Args:
        approximation: one of `bayesnn_ppl.approximations`, built from a model.
        x: inputs, shape (N, ...), numbers without NaN.
        y: targets, shape (N, ...). Targets from `data.load` carry their units.
        seed: of all randomness; the same seed on the same machine gives the same bits.
        mesh: devices that members are spread over, see `device_mesh`.
        float64: compute in double precision.
        progress: show a bar.
        callback: called with a `TrainingProgress` after each block of epochs or steps; ends that
            stage when it returns true. A fit around a mode whose training it ended is made around
            what that came to.
        out: a new or empty folder that the result is written to, as that of `sample`. Trainings,
            climbs and what else goes step by step leave checkpoints and `metrics.csv` there, and
            `resume` goes on from them after a crash or a stop.
        keep: what is kept of each draw, by default all weights; see `Keep`.

    Returns:
        A `Posterior`. Members that were trained independently are its chains. The provenance's
        "approximation" says how it was found and what came of it, and `diagnose()` whether it
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
    began = time.perf_counter()
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
        warn_beyond_prior(problem.model, problem.x, problem.y, problem.summary, float64=float64)
        if out is None:
            return prepared.with_data(prepared.in_memory(began))
        folder = RunFolder.create(
            working_copy(out),
            prepared.describe(None),
            every={"posterior": prepared.keep.every},
            probe=None if prepared.probe is None else prepared.probe.arrays(),
        )
        try:
            return prepared.with_data(prepared.in_folder(folder, began))
        finally:
            folder.release()


def resume_fit(
    folder: RunFolder, inputs: RunInputs, progress: bool, callback: Callable[[Any], Any] | None
) -> Posterior:
    """Go on with a fit whose training was ended; see `resume`.

    Raises:
        ValueError: approximation, model or data are not those of the fit.
    """
    began = time.perf_counter()
    with arithmetic(float64=inputs.float64):
        prepared = make_fit(inputs, progress, callback)
        require_same(
            folder,
            prepared.describe(None),
            {
                "kernel": "approximation",
                "kernel_settings": "approximation's settings",
                "model": "model",
                "data_sha256": "data",
            },
        )
        if folder.commit_record["complete"]:
            return prepared.with_data(Posterior.load(folder.path, prepared.problem.model))
        return prepared.with_data(prepared.in_folder(folder, began))


@dataclass(frozen=True)
class Fit:
    """A fit that has passed every check and not begun."""

    approximation: Approximation
    problem: Problem
    keep: Keep
    probe: Probe | None
    standardisation: Any
    dataset: Any

    def describe(self, fitted: Fitted | None, **happened: Any) -> dict[str, Any]:
        """The provenance, of what came of it as far as that is known."""
        mesh = self.problem.mesh
        return describe_fit(
            self.approximation,
            self.problem,
            fitted,
            keep=self.keep,
            probe=self.probe,
            standardisation=self.standardisation,
            dataset=self.dataset,
            mesh=default_mesh(1) if mesh is None else mesh,
            **happened,
        )

    def with_data(self, posterior: Posterior) -> Posterior:
        """Let the posterior know its training data, which are not stored with it."""
        posterior.data = (self.problem.x, self.problem.y)
        return posterior

    def in_memory(self, began: float) -> Posterior:
        """Fit, and keep nothing on disk."""
        return self._with_groups(self._gathered(self.approximation.solve(self.problem), began))

    def _with_groups(self, posterior: Posterior, folder: RunFolder | None = None) -> Posterior:
        return with_kept_groups(self.with_data(posterior), self.keep, folder)

    def _gathered(self, fitted: Fitted, began: float) -> Posterior:
        sink = MemorySink(_shape(fitted)[1], self.keep)
        _fill(sink, fitted, self.problem, self.keep, self.probe)
        return Posterior.from_groups(
            sink.filled(),
            self.describe(fitted, site_names=sink.site_names, seconds=_since(began)),
            moments=None if sink.moments is None else sink.moments.arrays(),
            probe=None if self.probe is None else self.probe.arrays(),
            starts=sink.starts,
            model=fitted.model or self.problem.model,
        )

    def in_folder(self, folder: RunFolder, began: float) -> Posterior:
        """Fit, with checkpoints of each stage in the folder, and write the result there.

        A fit that was interrupted leaves its checkpoint there, and what it came to is returned
        from memory.
        """
        problem = replace(self.problem, record=TrainingRecord(folder))
        fitted = self.approximation.solve(problem)
        if fitted.interrupted:
            return self._gathered(fitted, began)
        sink = FolderSink(folder, self.keep)
        _fill(sink, fitted, problem, self.keep, self.probe)
        sink.finish({}, complete=True, **self.describe(fitted, seconds=_since(began)))
        return self._with_groups(Posterior.load(folder.path, fitted.opened_with(problem)), folder)


def make_fit(inputs: RunInputs, progress: bool, callback: Callable[[Any], Any] | None) -> Fit:
    """Check every argument of `fit`; see there."""
    approximation, float64 = inputs.method, inputs.float64
    model = _model_of(approximation)
    seed = whole_number(inputs.seed, "`seed`", at_least=0, below=2**32)
    x = check_array(inputs.x, "x", float64=float64)
    y = check_targets(inputs.y, "y", float64=float64)
    summary = inspect_model(model, x, y, all_rows=not inputs.simulated)
    check_task(inputs.y, summary)
    _check_noise(approximation, summary)
    if summary.discrete:
        y = y.astype(np.int32)
    keep, probe = check_keep(
        inputs.keep, model, summary, x, on_disk=inputs.on_disk, float64=float64
    )
    problem = Problem(model, x, y, summary, seed, float64, inputs.mesh, progress, callback)
    units, dataset = (getattr(inputs.y, name, None) for name in ("standardisation", "dataset"))
    return Fit(approximation, problem, keep, probe, units, dataset)


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
    """Raise ValueError unless a run was made by what is given now; entry -> what it is."""
    run = folder.config
    for entry, what in entries.items():
        if now[entry] != run[entry]:
            raise ValueError(
                f"The {what} are not those of the run `{folder.path}`. The run has\n"
                f"  {run[entry]}\nand given are\n  {now[entry]}"
            )


def _since(began: float) -> dict[str, float]:
    return {"total": round(time.perf_counter() - began, 3)}


def _shape(fitted: Fitted) -> tuple[int, int]:
    """Chains and draws."""
    chains, draws = next(iter(fitted.positions.values())).shape[:2]
    return chains, draws


def _fill(
    sink: MemorySink | FolderSink,
    fitted: Fitted,
    problem: Problem,
    keep: Keep,
    probe: Probe | None,
) -> None:
    """Map the draws to the program's space, block by block, and let the sink have them."""
    chains, draws = _shape(fitted)
    program = StaticProgram(fitted.model or problem.model)
    points = None if probe is None else (probe.x, probe.y)
    keys = jax.random.split(problem.key(_PREDICTIVE), (chains, draws))
    block = -(-draws // -(-draws // _BLOCK))  # blocks of one size, as far as may be
    for begin in range(0, draws, block):
        # The last block reaches back, so that all have one shape and compile once.
        first = min(begin, draws - block)
        z = {name: a[:, first : first + block] for name, a in fitted.positions.items()}
        sites, functions = _groups(
            program, z, problem.x, problem.y, points, keys[:, first : first + block]
        )
        names = variable_names(natural(sites))
        sink.site_names = {name: site for site, name in names.items()}
        if fitted.centre is not None and begin == 0:
            kept = {f"{STARTS[0]}/{names[s]}": a for s, a in fitted.centre.items()}
            sink.take_starts(kept)
        new = slice(begin - first, None)
        groups = {
            "sample_stats": {
                name: a[:, begin : first + block] for name, a in fitted.statistics.items()
            }
        }
        if keep.weights != "none":
            groups["posterior"] = {n: np.asarray(sites[s])[:, new] for s, n in names.items()}
        if functions is not None:
            groups["predictions"] = {n: np.asarray(a)[:, new] for n, a in functions.items()}
        sink.append(groups)


@partial(jax.jit, static_argnames="program")
def _groups(
    program: StaticProgram, z: Mapping[str, Any], x: Any, y: Any, probe: Any, keys: Any
) -> Any:
    """All sites of each draw in the program's space, and what it says at the probe."""

    def one(pair: Any) -> Any:
        position, key = pair
        sites = constrain_fn(clean(program.model), (x, y), {}, position, return_deterministic=True)
        if probe is None:
            return sites, None
        latents = {name: sites[name] for name in position}
        return sites, function_record(program.model, latents, probe[0], probe[1], key)

    return jax.lax.map(lambda chain: jax.lax.map(one, chain), (jax.tree.map(jnp.asarray, z), keys))
