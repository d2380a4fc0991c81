"""What a run needs, checked before anything is compiled."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.core.arrays import column_names
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.inference.kernels.common.model_kernel import has_accept_step
from bayesnn_ppl.inference.runtime.device_placement import place_chains
from bayesnn_ppl.inference.runtime.keep import Keep, Probe, check_keep
from bayesnn_ppl.inference.runtime.provenance import describe_common, kept, kernel_settings
from bayesnn_ppl.inference.runtime.run_inputs import RunInputs
from bayesnn_ppl.inference.runtime.stopping_rule import Until
from bayesnn_ppl.inference.sampling.chain_starts import check_starts, network_sites, resolve_start
from bayesnn_ppl.inference.sampling.kernel_checks import check_kernel, check_noise, tempered
from bayesnn_ppl.inference.sampling.process_share import Share, check_sharing, share_of
from bayesnn_ppl.inference.sampling.traced_functions import Settings, rows_at_once
from bayesnn_ppl.inference.sampling.training_rows import HeldRows, StreamedRows, open_rows
from bayesnn_ppl.modeling.contract import (
    ModelSummary,
    check_task,
    inspect_model,
)
from bayesnn_ppl.modeling.temperature import warn_of_cold_latents
from bayesnn_ppl.modeling.unfitted_parameters import refuse_unfitted
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.posterior.starting_points import first_starts, origin, starting_draws

__all__ = ["Plan", "SampleInputs", "make_plan"]


@dataclass(frozen=True, kw_only=True)
class SampleInputs(RunInputs):
    """What `sample` is asked for, as it was given; see there.

    Attributes:
        first_chain: the number of the first chain, where others of the run are made elsewhere.
    """

    warmup: int
    chains: int = 4
    first_chain: int = 0
    chain_method: str = "parallel"
    superchains: int | None = None
    init: Any = None
    thinning: int = 1
    until: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Plan:
    """A run that has passed every check and not begun.

    Attributes:
        inputs: what was asked for.
        settings: what its program is compiled for.
        summary: what the model declares.
        rows: the training data.
        values: where chains start, site -> (chains of this program, ...), as far as that is given.
        keep, probe, until: what is kept of the draws, and when the run is done.
        share: this process's part.
        trainer: of the starts, such as an `Ensemble`; else None.
        started: what it says of them, or which run they are of.
        first_starts: site -> where the chains of that run began.
    """

    inputs: SampleInputs
    settings: Settings
    summary: ModelSummary
    rows: HeldRows | StreamedRows
    values: Mapping[str, np.ndarray]
    keep: Keep
    probe: Probe | None
    until: Until | None
    share: Share
    trainer: Any = None
    started: Any = None
    first_starts: Mapping[str, np.ndarray] | None = None

    @property
    def start(self) -> str:
        """Where chains start, in a word."""
        if self.trainer is not None:
            return "trained"
        if self.settings.networks:
            return "network"
        return "given" if self.values else "drawn"

    def keys(self, stream: int = 0) -> jax.Array:
        """One key for each chain of this program; chain i has the same whatever their number."""
        inputs, settings = self.inputs, self.settings
        first = stream + inputs.first_chain
        numbers = np.arange(first, first + settings.chains, dtype=np.uint32)
        return _fold_in(jax.random.key(inputs.seed), numbers)

    def start_keys(self) -> jax.Array:
        """The key of each chain's start: that of the first chain of its superchain."""
        keys, groups = self.keys(), self.inputs.superchains
        size = 1 if groups is None else len(keys) // groups
        return keys if size == 1 else keys[np.arange(len(keys)) // size * size]

    @property
    def superchains(self) -> int | None:
        """How many groups there are of chains that depend on each other, if there are."""
        return self.inputs.superchains or getattr(self.settings.kernel, "superchains", None)

    def on_targets(self, y: np.ndarray, seed: int) -> "Plan":
        """The plan on other targets for the same held inputs, with another seed."""
        return replace(self, rows=replace(self.rows, y=y), inputs=replace(self.inputs, seed=seed))

    def describe(self, **more: Any) -> dict[str, Any]:
        """The provenance of the run, as JSON-ready values, with `more` of what happened."""
        inputs, kernel, units = self.inputs, self.settings.kernel, self.rows.standardisation
        with arithmetic(float64=self.settings.float64):
            described = describe_common(
                kernel.model,
                self.summary,
                self.rows.x,
                self.rows.y,
                self.settings.mesh,
                arrangement=self.settings.arrangement,
                float64=self.settings.float64,
                run={
                    "warmup": self.settings.warmup,
                    "draws": 0,
                    "chains": inputs.chains,
                    **({"first_chain": inputs.first_chain} if inputs.first_chain else {}),
                    **({"superchains": self.superchains} if self.superchains else {}),
                    "processes": self.share.team.count,
                    "thinning": inputs.thinning,
                    "seed": inputs.seed,
                    "chain_method": inputs.chain_method,
                    "start": self.started or self.start,
                    "interrupted": False,
                    "standardisation": None if units is None else units.to_dict(),
                    "dataset": self.rows.dataset,
                    "input_columns": column_names(inputs.x),
                    **kept(self.keep, self.probe),
                    **more,
                },
            )
            return (
                described
                | {
                    "kernel": type(kernel).__name__,
                    "kernel_settings": kernel_settings(kernel),
                    "accept_step": has_accept_step(kernel),
                }
                | self.rows.describe()
            )


@jax.jit
def _fold_in(key: jax.Array, index: jax.Array) -> jax.Array:
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index)


def make_plan(given: SampleInputs) -> Plan:
    """Check every argument of `sample`; see there."""
    kernel, float64, on_disk = given.method, given.float64, given.on_disk
    check_kernel(kernel)
    inputs = replace(
        given,
        warmup=integer(given.warmup, "`warmup`", at_least=0),
        chains=integer(given.chains, "`chains`", at_least=1),
        thinning=integer(given.thinning, "`thinning`", at_least=1),
        seed=integer(given.seed, "`seed`", at_least=0, below=2**32),
    )
    chains, init, keep = inputs.chains, inputs.init, inputs.keep
    check_starts(kernel, init, chains, inputs.superchains)
    rows = open_rows(inputs.x, inputs.y, kernel, init, float64=float64)
    until = Until.parse(inputs.until)
    # Set either way: the caller's own setting is not part of what is compiled.
    with arithmetic(float64=float64):
        summary = inspect_model(
            kernel.model,
            rows.x,
            rows.y,
            kernel=kernel,
            all_rows=rows.complete and not inputs.simulated,
        )
        check_task(inputs.y, summary)
        refuse_unfitted(summary.unfitted, type(kernel).__name__)
        summary = tempered(summary, kernel)
        check_noise(kernel, summary)
        if summary.discrete:
            rows = replace(rows, y=rows.y.astype(np.int32))
        warn_of_cold_latents(summary)
        trainer = init if callable(getattr(init, "starts", None)) else None
        check_sharing(kernel, trainer)
        networks: tuple[str, ...] = ()
        if isinstance(init, str) and init == "network":
            networks, init = network_sites(kernel.model, summary, rows.x, rows.y, chains), {}
        started = begun = None
        if isinstance(init, Posterior):
            other, started = init, origin(init)
            init = starting_draws(other, summary, chains, argument="init", draw=-1)
            begun = first_starts(other, summary, chains)
        strategy, values = resolve_start(None if trainer else init, kernel, summary, chains)
        mesh, arrangement = place_chains(
            inputs.chain_method,
            inputs.mesh,
            chains,
            kernel.model,
            rows.x,
            rows.y,
            rows_at_once=rows_at_once(kernel),
            discrete=bool(summary.discrete),
        )
        if until and until.watches_functions:
            keep = _watched(keep, rows, float64)
        keep, probe = check_keep(
            keep,
            kernel.model,
            summary,
            rows.x,
            columns=column_names(inputs.x),
            on_disk=on_disk,
            float64=float64,
        )
    settings = Settings(
        kernel,
        strategy,
        inputs.warmup,
        chains,
        mesh,
        arrangement,
        float64,
        weights=keep.weights != "none",
        discrete=tuple(summary.discrete_latents),
        networks=networks,
    )
    if keep.groups and not rows.complete:
        raise ValueError(
            "`Keep(groups=...)` needs all training data as arrays, and these are streamed. Leave "
            "it out, or give arrays."
        )
    share = share_of(mesh, chains, on_disk=on_disk)
    with arithmetic(float64=float64):
        rows = rows.planned(settings, summary, seed=inputs.seed)
    return Plan(
        inputs, settings, summary, rows, values, keep, probe, until, share, trainer, started, begun
    )


def _watched(keep: Keep | None, rows: HeldRows | StreamedRows, float64: bool) -> Keep:
    """`until` needs function values: without probe inputs, those at training inputs."""
    keep = Keep() if keep is None else keep
    if not isinstance(keep, Keep) or keep.probe is not None:
        return keep
    return replace(keep, probe=rows.spread(float64=float64))
