"""Continue a run on disk: `resume` after a crash or a stop, `extend` for more draws."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh
from numpyro.infer.mcmc import MCMCKernel

from bayesnn_ppl.core.arguments import PACKAGE, integer, strict_switches
from bayesnn_ppl.core.mesh import device_mesh
from bayesnn_ppl.distributed import current
from bayesnn_ppl.distributed.clusters import connected
from bayesnn_ppl.inference.fitting.approximation import Approximation
from bayesnn_ppl.inference.fitting.fitter import require_same, resume_fit
from bayesnn_ppl.inference.runtime.draw_writers import FolderSink
from bayesnn_ppl.inference.runtime.keep import Keep
from bayesnn_ppl.inference.runtime.provenance import made_elsewhere, versions_here
from bayesnn_ppl.inference.runtime.run_inputs import RunInputs
from bayesnn_ppl.inference.runtime.stopping_rule import Until
from bayesnn_ppl.inference.sampling.clusters.gathering import execute_on_cluster
from bayesnn_ppl.inference.sampling.execution import execute
from bayesnn_ppl.inference.sampling.plan import Plan, SampleInputs, make_plan
from bayesnn_ppl.inference.sampling.process_share import check_cluster
from bayesnn_ppl.inference.sampling.run import Progress
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.storage import RunFolder, SharedFolder, absolute, fetched

__all__ = ["extend", "resume"]


@strict_switches
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
    cluster: Any = None,
) -> Posterior:
    """Resume a run that was ended before it had all its draws.

    On the same machine with the same versions and as many processor cores the result is
    bit-for-bit that of a run that was never ended; where versions or cores are others a warning
    says so. A run that is complete is returned as it is.

    Args:
        path: the folder given to `sample` or `fit` as `out`.
        kernel, x, y: those of the run, for `fit` the approximation; a run holds no code and no
            data.
        mesh: another mesh than that of the run; then draws have the same distribution, and other
            rounding.
        progress, callback, until: as in `sample`; R-hat and ESS need a run with probe inputs.
        cluster: as in `sample`. A run that ended on a cluster before it had gathered its chains
            needs one.

    Raises:
        FileNotFoundError: there is no run.
        BlockingIOError: another process writes to the run.
        ValueError: kernel, model or data are not those of the run, or a file is damaged.
    """
    return _continue(path, _Wanted(kernel, x, y, None, mesh, progress, callback, until, cluster))


@strict_switches
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
    cluster: Any = None,
) -> Posterior:
    """Make `draws` more draws per chain than the run was asked for.

    The result is bit-for-bit that of a run that was asked for all of them at once. The other
    arguments and errors are those of `resume`.
    """
    draws = integer(draws, "`draws`", at_least=1)
    return _continue(path, _Wanted(kernel, x, y, draws, mesh, progress, callback, until, cluster))


@dataclass(frozen=True)
class _Wanted:
    """What the caller of `resume` or `extend` brings; `more` draws than the run was asked for."""

    kernel: Any
    x: Any
    y: Any
    more: int | None
    mesh: Mesh | None
    progress: bool
    callback: Callable[[Any], Any] | None
    until: Mapping[str, Any] | None
    cluster: Any


def _continue(path: str | Path, wanted: _Wanted) -> Posterior:
    if wanted.cluster is not None:
        if isinstance(wanted.kernel, Approximation):
            raise ValueError(
                "A fit is continued by one process, since workers of a cluster keep no checkpoints "
                "of it. Leave `cluster` out."
            )
        check_cluster(wanted.kernel, None, path)
    place = fetched(path)
    if current().count > 1:
        return _continue_together(place, wanted)
    folder = RunFolder.reopen(place)
    try:
        if isinstance(wanted.kernel, Approximation) or "approximation" in folder.config:
            _check_fit(folder, wanted)
            inputs = RunInputs(
                method=wanted.kernel,
                x=wanted.x,
                y=wanted.y,
                seed=folder.config["seed"],
                mesh=wanted.mesh,
                float64=folder.config["precision"] == "float64",
                keep=_same_keep(folder),
                on_disk=True,
            )
            return resume_fit(folder, inputs, wanted.progress, wanted.callback)
        plan = _same_plan(folder, wanted)
        return _execute(folder, plan, wanted, absolute(path))
    finally:
        folder.release()


def _continue_together(path: Path, wanted: _Wanted) -> Posterior:
    """`_continue` in each of several processes."""
    if isinstance(wanted.kernel, Approximation):
        raise ValueError("A fit is made by one process: resume it in one.")
    team = current()
    with team.guarded(path):
        if team.leads:  # to have it checked, and to know that nobody else writes
            RunFolder.reopen(path).release()
        team.agree("the run can be opened")
        # A view without any chains, to plan by; which chains are written depends on the mesh.
        folder: RunFolder = SharedFolder.shared(path, team, (0, 0))
        try:
            plan = _same_plan(folder, wanted)
        finally:
            folder.release()
        folder = SharedFolder.shared(path, team, plan.share.chains)
    try:
        return _execute(folder, plan, wanted)
    finally:
        folder.release()


def _execute(folder: RunFolder, plan: Plan, wanted: _Wanted, place: str | None = None) -> Posterior:
    draws = folder.config["draws_requested"] + (wanted.more or 0)
    if wanted.more:
        folder.update_config(draws_requested=draws)
    sink = FolderSink(folder, plan.keep)
    # One that was killed between its last draw and its end has only the end to be made.
    if sink.done >= draws and folder.commit_record["complete"]:
        return Posterior.load(folder.path, plan.settings.kernel.model)
    changed = made_elsewhere(folder.config)
    if changed and plan.share.team.leads:
        warnings.warn(changed, skip_file_prefixes=(PACKAGE,))
        later = [*folder.config.get("versions_later", []), versions_here()]
        folder.update_config(versions_later=later)
    shown: dict[str, Any] = {"progress": wanted.progress, "callback": wanted.callback}
    if wanted.cluster is None or place is None:
        return execute(plan, sink, draws, **shown)
    with connected(wanted.cluster, plan.inputs.chains) as client:
        return execute_on_cluster(plan, folder, draws, client, out=place, **shown)


def _check_fit(folder: RunFolder, wanted: _Wanted) -> None:
    """Refuse what does not apply to a fit, or to a run of a sampler."""
    if "approximation" not in folder.config or not isinstance(wanted.kernel, Approximation):
        raise ValueError(
            f"The run `{folder.path}` was made by {folder.config['kernel']}, and given is "
            f"{type(wanted.kernel).__name__}. Give what it was made by."
        )
    if wanted.more is not None or wanted.until is not None:
        raise ValueError(
            f"The run `{folder.path}` was made by `fit`, which has no number of draws to extend "
            "and nothing to wait for: `extend` and `until` are for runs of `sample`."
        )


def _same_plan(folder: RunFolder, wanted: _Wanted) -> Plan:
    """The plan of the run, from its configuration and what the caller brought."""
    run, record = folder.config, folder.commit_record
    in_parts = bool(run.get("parts")) and record["checkpoint"] is None
    if in_parts and wanted.cluster is None:
        raise ValueError(
            f"The chains of the run `{folder.path}` are in parts, which workers of a cluster were "
            'making when it ended. Continue it on a cluster: `cluster="local"`, `--cluster local`, '
            "or the address of a scheduler whose workers see these parts."
        )
    if (
        not in_parts
        and record["checkpoint"] is None
        and (record["complete"] or record["draws"] or run["start"] not in ("drawn", "network"))
    ):
        raise ValueError(
            f"The run `{folder.path}` has no sampler's state to resume from: it was saved from "
            "memory, repaired, or killed before its first commit. A run that can be resumed is "
            "made by `sample(..., out=...)`."
        )
    keep = _same_keep(folder)
    until = Until.parse(wanted.until)
    if until is not None and until.watches_functions and keep.probe is None:
        raise ValueError(
            f"The run `{folder.path}` keeps no function values, so `until` cannot watch them: give "
            "max_time alone, or sample again with `keep=Keep(probe=...)`."
        )
    mesh = wanted.mesh
    if mesh is None and run["chain_method"] == "parallel":
        mesh = _mesh_of(run)
    # A kernel's own groups are not asked for.
    own = getattr(wanted.kernel, "superchains", None)
    plan = make_plan(
        SampleInputs(
            method=wanted.kernel,
            x=wanted.x,
            y=wanted.y,
            warmup=run["warmup"],
            chains=run["chains"],
            superchains=None if own else run.get("superchains"),
            first_chain=run.get("first_chain", 0),
            seed=run["seed"],
            chain_method=run["chain_method"],
            mesh=mesh,
            init="network" if run["start"] == "network" else None,
            thinning=run["thinning"],
            float64=run["precision"] == "float64",
            keep=keep,
            until=wanted.until,
            on_disk=True,
        )
    )
    require_same(
        folder,
        plan.describe(),
        {
            "kernel": "another kernel",
            "kernel_settings": "other settings of the kernel",
            "model": "another model",
            "data_sha256": "other data",
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
    """What the run keeps, with the probe inputs that it holds."""
    kept = folder.config.get("keep", {"weights": "all", "every": 1, "bfloat16": False})
    probe = folder.load_probe()
    return Keep(
        weights=kept["weights"],
        every=kept["every"],
        bfloat16=kept["bfloat16"],
        probe=None if probe is None else (probe["x"], probe.get("y")),
        groups=tuple(kept.get("groups", ())),
    )
