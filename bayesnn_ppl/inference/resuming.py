"""Going on with a run on disk: `resume` after a crash or a stop, `extend` for more draws."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh
from numpyro.infer.mcmc import MCMCKernel

from bayesnn_ppl.core.arguments import PACKAGE, whole_number
from bayesnn_ppl.core.mesh import device_mesh
from bayesnn_ppl.distributed import current
from bayesnn_ppl.inference.fitting.fitter import require_same, resume_fit
from bayesnn_ppl.inference.fitting.problem import Approximation
from bayesnn_ppl.inference.runtime.draw_writers import FolderSink
from bayesnn_ppl.inference.runtime.keep import Keep
from bayesnn_ppl.inference.runtime.provenance import made_elsewhere, versions_here
from bayesnn_ppl.inference.runtime.stopping_rule import Until
from bayesnn_ppl.inference.sampling.plan import Plan, execute, make_plan
from bayesnn_ppl.inference.sampling.run import Progress
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.storage import RunFolder, SharedFolder, fetched

__all__ = ["extend", "resume"]


def resume(
    path: str | Path,
    kernel: MCMCKernel | Approximation,
    x: Any,
    y: Any,
    *,
    mesh: Mesh | None = None,
    progress: bool = True,
    callback: Callable[[Any], Any] | None = None,
    until: Mapping[str, Any] | None = None,
) -> Posterior:
    """Go on with a run that was ended before it had all its draws.

    On the same machine with the same versions and as many processor cores the result has the bits
    of a run that was never ended; where versions or cores are others a warning says so. A run that
    is complete is returned as it is.

    Args:
        path: the folder given to `sample` or `fit` as `out`.
        kernel, x, y: those of the run, for `fit` the approximation; a run holds no code and no
            data.
        mesh: another mesh than that of the run; then the law is the same, the bits are not.
        progress, callback, until: as in `sample`; R-hat and ESS need a run with a probe.

    Raises:
        FileNotFoundError: there is no run.
        BlockingIOError: another process writes to the run.
        ValueError: kernel, model or data are not those of the run, or a file is damaged.
    """
    return _go_on(
        path, kernel, x, y, None, mesh=mesh, progress=progress, callback=callback, until=until
    )


def extend(
    path: str | Path,
    kernel: MCMCKernel,
    x: Any,
    y: Any,
    *,
    draws: int,
    mesh: Mesh | None = None,
    progress: bool = True,
    callback: Callable[[Progress], Any] | None = None,
    until: Mapping[str, Any] | None = None,
) -> Posterior:
    """Make `draws` more draws per chain than the run was asked for.

    The result has the bits of a run that was asked for all of them at once. The other arguments
    and errors are those of `resume`.
    """
    draws = whole_number(draws, "`draws`", at_least=1)
    return _go_on(
        path, kernel, x, y, draws, mesh=mesh, progress=progress, callback=callback, until=until
    )


def _go_on(
    path: str | Path,
    kernel: Any,
    x: Any,
    y: Any,
    more: int | None,
    *,
    mesh: Mesh | None,
    progress: bool,
    callback: Callable[[Any], Any] | None,
    until: Mapping[str, Any] | None,
) -> Posterior:
    place = fetched(path)
    if current().count > 1:
        return _go_on_together(
            place,
            kernel,
            x,
            y,
            more,
            mesh=mesh,
            progress=progress,
            callback=callback,
            until=until,
        )
    folder = RunFolder.reopen(place)
    try:
        if isinstance(kernel, Approximation) or "approximation" in folder.config:
            _check_fit(folder, kernel, more=more, until=until)
            return resume_fit(
                folder,
                kernel,
                x,
                y,
                mesh=mesh,
                progress=progress,
                callback=callback,
                keep=_same_keep(folder),
            )
        plan = _same_plan(folder, kernel, x, y, mesh, until)
        return _execute(folder, plan, more, progress=progress, callback=callback)
    finally:
        folder.release()


def _go_on_together(
    path: Path,
    kernel: Any,
    x: Any,
    y: Any,
    more: int | None,
    *,
    mesh: Mesh | None,
    progress: bool,
    callback: Callable[[Any], Any] | None,
    until: Mapping[str, Any] | None,
) -> Posterior:
    """`_go_on` in each of several processes."""
    if isinstance(kernel, Approximation):
        raise ValueError("A fit is made by one process: resume it in one.")
    team = current()
    with team.guarded(path):
        if team.leads:  # to have it checked, and to know that nobody else writes
            RunFolder.reopen(path).release()
        team.agree("the run can be opened")
        # A view without any chains, to plan by; which chains are written depends on the mesh.
        folder: RunFolder = SharedFolder.shared(path, team, (0, 0))
        try:
            plan = _same_plan(folder, kernel, x, y, mesh, until)
        finally:
            folder.release()
        folder = SharedFolder.shared(path, team, plan.share.chains)
    try:
        return _execute(folder, plan, more, progress=progress, callback=callback)
    finally:
        folder.release()


def _execute(
    folder: RunFolder,
    plan: Plan,
    more: int | None,
    *,
    progress: bool,
    callback: Callable[[Any], Any] | None,
) -> Posterior:
    wanted = folder.config["draws_requested"] + (more or 0)
    if more:
        folder.update_config(draws_requested=wanted)
    sink = FolderSink(folder, plan.keep)
    # One that was killed between its last draw and its end has only the end to be made.
    if sink.done >= wanted and folder.commit_record["complete"]:
        return Posterior.load(folder.path, plan.settings.kernel.model)
    changed = made_elsewhere(folder.config)
    if changed and plan.share.team.leads:
        warnings.warn(changed, skip_file_prefixes=(PACKAGE,))
        later = [*folder.config.get("versions_later", []), versions_here()]
        folder.update_config(versions_later=later)
    return execute(plan, sink, wanted, progress=progress, callback=callback)


def _check_fit(
    folder: RunFolder, approximation: Any, *, more: int | None, until: Mapping[str, Any] | None
) -> None:
    """Refuse what does not apply to a fit, or to a run of a sampler."""
    if "approximation" not in folder.config or not isinstance(approximation, Approximation):
        raise ValueError(
            f"The run `{folder.path}` was made by {folder.config['kernel']}, and given is "
            f"{type(approximation).__name__}. Give what it was made by."
        )
    if more is not None or until is not None:
        raise ValueError(
            f"The run `{folder.path}` was made by `fit`, which has no number of draws to extend "
            "and nothing to wait for: `extend` and `until` are for runs of `sample`."
        )


def _same_plan(
    folder: RunFolder,
    kernel: MCMCKernel,
    x: Any,
    y: Any,
    mesh: Mesh | None,
    until: Mapping[str, Any] | None,
) -> Plan:
    """The plan of the run, from its configuration and what the caller brought."""
    run = folder.config
    if folder.commit_record["checkpoint"] is None and (
        folder.commit_record["complete"] or run["start"] not in ("drawn", "network")
    ):
        raise ValueError(
            f"The run `{folder.path}` has no sampler's state to go on from: it was saved from "
            "memory, repaired, or killed before its first commit. A run that can go on is made by "
            "`sample(..., out=...)`."
        )
    keep = _same_keep(folder)
    done_when = Until.parse(until)
    if done_when is not None and done_when.watches_functions and keep.probe is None:
        raise ValueError(
            f"The run `{folder.path}` keeps no function values, so `until` cannot watch them: give "
            "max_time alone, or sample anew with `keep=Keep(probe=...)`."
        )
    parallel = run["chain_method"] == "parallel"
    if mesh is None and parallel:
        mesh = _mesh_of(run)
    plan = make_plan(
        kernel,
        x,
        y,
        warmup=run["warmup"],
        chains=run["chains"],
        seed=run["seed"],
        chain_method=run["chain_method"],
        mesh=mesh,
        init="network" if run["start"] == "network" else None,
        thinning=run["thinning"],
        float64=run["precision"] == "float64",
        keep=keep,
        until=until,
        on_disk=True,
    )
    require_same(
        folder,
        plan.describe(),
        {
            "kernel": "kernel",
            "kernel_settings": "kernel's settings",
            "model": "model",
            "data_sha256": "data",
        },
    )
    return plan


def _mesh_of(run: Mapping[str, Any]) -> Mesh | None:
    """The mesh of the run, or the default one where there are fewer devices or other processes."""
    shape = run["devices"]["mesh"]
    same = run.get("processes", 1) == current().count
    if not same or len(jax.devices()) < shape["chain"] * shape["data"]:
        return None
    return device_mesh(shape["chain"], shape["data"])


def _same_keep(folder: RunFolder) -> Keep:
    """What the run keeps, with the probe that it holds."""
    kept = folder.config.get("keep", {"weights": "all", "every": 1, "bfloat16": False})
    probe = folder.load_probe()
    return Keep(
        weights=kept["weights"],
        every=kept["every"],
        bfloat16=kept["bfloat16"],
        probe=None if probe is None else (probe["x"], probe.get("y")),
        groups=tuple(kept.get("groups", ())),
    )
