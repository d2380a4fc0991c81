"""A fit that is ready to begin: it solves its problem and keeps the result."""

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.util import constrain_fn

from bayesnn_ppl.core.arguments import natural
from bayesnn_ppl.core.identity import StaticValue, describe
from bayesnn_ppl.core.mesh import default_mesh
from bayesnn_ppl.inference.fitting.approximation import Approximation, Fitted
from bayesnn_ppl.inference.fitting.on_workers import solve_on_workers
from bayesnn_ppl.inference.runtime.draw_writers import FolderSink, MemorySink
from bayesnn_ppl.inference.runtime.keep import Keep, Probe, with_kept_groups
from bayesnn_ppl.inference.runtime.provenance import describe_common, kept
from bayesnn_ppl.inference.training.checkpoints import TrainingRecord
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.modeling.training_noise import clean
from bayesnn_ppl.posterior.mixture import function_record
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.storage import STARTS, RunFolder, variable_names

__all__ = ["Fit"]

_BLOCK = 64  # draws that are mapped to the model's space at once
# Keys of predictive samples at the probe, apart from every key of an approximation.
_PREDICTIVE = 2**31


@dataclass(frozen=True)
class Fit:
    """A fit that has passed every check and not begun."""

    approximation: Approximation
    problem: Problem
    keep: Keep
    probe: Probe | None
    standardisation: Any
    dataset: Any
    columns: list[str] | None
    client: Any = None  # of the cluster that solves it

    def describe(self, fitted: Fitted | None, **happened: Any) -> dict[str, Any]:
        """The provenance, with the result as far as that is known.

        A reader finds the method where a run has its kernel, and what the method found under
        "approximation".
        """
        problem, units = self.problem, self.standardisation
        approximation: Any = self.approximation
        mesh = default_mesh(1) if problem.mesh is None else problem.mesh
        shape = (0, 0) if fitted is None else fitted.shape
        summary = problem.summary
        model = problem.model if fitted is None else fitted.opened_with(problem)
        if model is not problem.model:
            summary = problem.with_model(model).summary
        described = describe_common(
            model,
            summary,
            problem.x,
            problem.y,
            mesh,
            arrangement="map",
            float64=problem.float64,
            run={
                "warmup": 0,
                "draws": shape[1],
                "draws_requested": shape[1],
                "chains": shape[0],
                "thinning": 1,
                "seed": problem.seed,
                "start": "trained",
                "interrupted": fitted is not None and fitted.interrupted,
                "ended": {"by": "fit"},
                "standardisation": None if units is None else units.to_dict(),
                **kept(self.keep, self.probe),
                "dataset": self.dataset,
                "input_columns": self.columns,
                **happened,
            },
        )
        settings = {
            field.name: getattr(approximation, field.name)
            for field in dataclasses.fields(approximation)
            if field.name != "model"
        }
        found = None
        if fitted is not None:
            findings = [{"kind": f.kind, "sentence": f.sentence} for f in fitted.findings]
            found = {**fitted.record, "findings": findings}
        return described | {
            "kernel": type(approximation).__name__,
            "kernel_settings": {
                name: value if isinstance(value, bool | int | float | str) else describe(value)
                for name, value in settings.items()
                if value is not None
            },
            "approximation": found,
        }

    def with_data(self, posterior: Posterior) -> Posterior:
        """Let the posterior know its training data, which are not stored with it."""
        posterior.data = (self.problem.x, self.problem.y)
        return posterior

    def in_memory(self) -> Posterior:
        """Fit, and keep nothing on disk."""
        began = time.perf_counter()
        fitted = self._solved(self.problem)
        return self._with_groups(self._gathered(fitted, time.perf_counter() - began))

    def _solved(self, problem: Problem) -> Fitted:
        if self.client is None:
            return self.approximation.solve(problem)
        return solve_on_workers(self.approximation, problem, self.client)

    def _with_groups(self, posterior: Posterior, folder: RunFolder | None = None) -> Posterior:
        return with_kept_groups(self.with_data(posterior), self.keep, folder)

    def _gathered(self, fitted: Fitted, seconds: float) -> Posterior:
        sink = MemorySink(fitted.shape[1], self.keep)
        self._fill(sink, fitted)
        return Posterior.from_groups(
            sink.filled(),
            self.describe(fitted, site_names=sink.site_names, seconds=_total(seconds)),
            moments=None if sink.moments is None else sink.moments.arrays(),
            probe=None if self.probe is None else self.probe.arrays(),
            starts=sink.starts,
            model=fitted.model or self.problem.model,
        )

    def in_folder(self, folder: RunFolder) -> Posterior:
        """Fit, with checkpoints of each stage in the folder, and write the result there.

        A fit that was interrupted leaves its checkpoint there, and what it came to is returned
        from memory.
        """
        problem = replace(self.problem, record=TrainingRecord(folder))
        fitted = self._solved(problem)
        if fitted.interrupted:
            return self._gathered(fitted, folder.seconds)
        sink = FolderSink(folder, self.keep)
        self._fill(sink, fitted)
        sink.finish({}, complete=True, **self.describe(fitted, seconds=_total(folder.seconds)))
        return self._with_groups(Posterior.load(folder.path, fitted.opened_with(problem)), folder)

    def _fill(self, sink: MemorySink | FolderSink, fitted: Fitted) -> None:
        """Map the draws to the model's space, block by block, and let the sink have them."""
        chains, draws = fitted.shape
        problem, probe = self.problem, self.probe
        model = StaticValue(fitted.model or problem.model)
        points = None if probe is None else (probe.x, probe.y)
        keys = jax.random.split(problem.key(_PREDICTIVE), (chains, draws))
        block = -(-draws // -(-draws // _BLOCK))  # blocks of one size, as far as may be
        for begin in range(0, draws, block):
            # The last block reaches back, so that all have one shape and compile once.
            first = min(begin, draws - block)
            z = {name: a[:, first : first + block] for name, a in fitted.positions.items()}
            sites, functions = _groups(
                model, z, problem.x, problem.y, points, keys[:, first : first + block]
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
            if self.keep.weights != "none":
                groups["posterior"] = {n: np.asarray(sites[s])[:, new] for s, n in names.items()}
            if functions is not None:
                groups["predictions"] = {n: np.asarray(a)[:, new] for n, a in functions.items()}
            sink.append(groups)


def _total(seconds: float) -> dict[str, float]:
    return {"total": round(seconds, 3)}


@partial(jax.jit, static_argnames="model")
def _groups(model: StaticValue, z: Mapping[str, Any], x: Any, y: Any, probe: Any, keys: Any) -> Any:
    """All sites of each draw in the model's space, and what it says at the probe inputs."""

    def one(pair: Any) -> Any:
        position, key = pair
        sites = constrain_fn(clean(model.value), (x, y), {}, position, return_deterministic=True)
        if probe is None:
            return sites, None
        latents = {name: sites[name] for name in position}
        return sites, function_record(model.value, latents, probe[0], probe[1], key)

    return jax.lax.map(lambda chain: jax.lax.map(one, chain), (jax.tree.map(jnp.asarray, z), keys))
