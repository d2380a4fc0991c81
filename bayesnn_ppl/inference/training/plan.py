"""What training needs, checked before anything is compiled."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from numpyro import handlers

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.core.mesh import check_mesh, default_mesh, device_mesh
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.inference.runtime.device_placement import members_together
from bayesnn_ppl.inference.training.compiled_program import Recipe
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.inference.training.settings import NEVER, TrainingSettings
from bayesnn_ppl.modeling.contract import ModelSummary
from bayesnn_ppl.modeling.network_initialisers import check_initialised, initialised_sites
from bayesnn_ppl.modeling.training_noise import clean

__all__ = [
    "TrainingPlan",
    "check_minibatches",
    "make_training_plan",
    "resolve_training_start",
]

# Set apart from the keys of chains, `fold_in(seed, chain)`, which may have the same seed.
_STREAM = 0x7472_6169


@dataclass(frozen=True)
class TrainingPlan:
    """A training that has passed every check."""

    recipe: Recipe
    data: tuple[np.ndarray, ...]  # x, y and the held-out x, y
    seed: int
    first_member: int = 0

    @property
    def patience(self) -> int:
        """Epochs without a lower held-out loss after which a member stops."""
        patience = self.recipe.settings.patience
        return NEVER if patience is None else patience

    def keys(self, attempt: int) -> jax.Array:
        """One key a member and attempt, whatever the number of members."""
        members = np.arange(self.recipe.members, dtype=np.uint32) + np.uint32(self.first_member)
        return _member_keys(jax.random.key(self.seed), members, np.uint32(attempt))


@jax.jit
def _member_keys(key: jax.Array, members: Any, attempt: Any) -> jax.Array:
    key = jax.random.fold_in(key, _STREAM)

    def one(member: Any) -> jax.Array:
        return jax.random.fold_in(jax.random.fold_in(key, member), attempt)

    return jax.vmap(one)(members)


def make_training_plan(problem: Problem, settings: TrainingSettings, members: int) -> TrainingPlan:
    """Check the settings of `train` against the model and its data; see there."""
    members = integer(members, "`members`", at_least=1)
    model, summary, batch_size = problem.model, problem.summary, settings.batch_size
    held = _held_out_rows(len(problem.x), settings.validation_fraction, problem.seed)
    patience, start = settings.patience, settings.start
    if patience is not None and not held.any():
        raise ValueError(
            f"`patience` is {patience}, but no rows are held out to judge by. Set "
            "`validation_fraction`, or leave patience out to train for all epochs."
        )
    rows = int((~held).sum())
    if batch_size is not None and batch_size >= rows:
        batch_size = None
    data = tuple(array[part] for part in (~held, held) for array in (problem.x, problem.y))
    with arithmetic(float64=problem.float64):
        check_minibatches(model, summary, data[0], data[1], batch_size, bool(held.any()))
        if start != "prior":
            start = resolve_training_start(start, model, summary, data[0], data[1], members)
        mesh = default_mesh(members) if problem.mesh is None else problem.mesh
        # The data are not spread, so any number of rows will do.
        check_mesh(mesh, chains=members, rows=mesh.devices.size)
        mesh = device_mesh(*mesh.devices.shape, devices=list(mesh.devices.flat))
        batch = (array[: batch_size or rows] for array in data[:2])
        arrangement = members_together(mesh, members, model, *batch, may_stop=patience is not None)
    recipe = Recipe(
        model=model,
        latents=tuple(summary.latents),
        settings=replace(settings, batch_size=batch_size, start=start),
        members=members,
        held_out=bool(held.any()),
        mesh=mesh,
        arrangement=arrangement,
        float64=problem.float64,
    )
    return TrainingPlan(recipe, data, problem.seed, problem.first_member)


def _held_out_rows(rows: int, fraction: Any, seed: int) -> np.ndarray:
    """A mask of the rows held out; none when the fraction is 0."""
    if isinstance(fraction, bool) or not isinstance(fraction, int | float | np.floating):
        raise TypeError(f"`validation_fraction` must be a number, not {fraction!r}.")
    if not 0 <= fraction < 1:
        raise ValueError(
            f"`validation_fraction` must be at least 0 and below 1, not {fraction}: it is the "
            "share of the rows that judge when to stop."
        )
    held = np.zeros(rows, bool)
    if fraction:
        count = max(1, round(fraction * rows))
        if count >= rows:
            raise ValueError(
                f"With `validation_fraction` {fraction}, {count} of {rows} rows are held out and "
                "none is left to train on. Lower it, or give more rows."
            )
        held[np.random.default_rng([seed, _STREAM]).permutation(rows)[:count]] = True
    return held


def check_minibatches(
    model: Any, summary: ModelSummary, x: Any, y: Any, batch_size: int | None, held_out: bool
) -> None:
    """Raise ValueError unless the model can be trained on so many rows at a time."""
    if summary.local and (batch_size is not None or held_out):
        raise ValueError(
            f"The latent sites {list(summary.local)} have one value for each training row, which "
            "neither minibatches nor held-out rows have: train with batch_size=None, "
            "validation_fraction=0 and patience=None."
        )
    trace: dict[str, Any] = {}
    options = {} if batch_size is None else {"batch_size": batch_size}

    def run(x: Any, y: Any) -> None:
        seeded = handlers.seed(clean(model), jax.random.key(0))
        trace.update(handlers.trace(seeded).get_trace(x, y, **options))

    try:
        jax.eval_shape(run, x, y)
    except TypeError as error:
        if batch_size is None or "batch_size" not in str(error):
            raise
        raise ValueError(
            "The model takes no `batch_size`, so it cannot be trained on minibatches. Write it "
            "as `model(x, y=None, *, batch_size=None)`, or train with batch_size=None."
        ) from error
    discrete = [n for n in summary.latents if trace[n]["fn"].support.is_discrete]
    if discrete:
        raise ValueError(
            f"The latent sites {discrete} are discrete and have no gradient to train by. "
            "Sum them out of the model."
        )
    taken = trace["data"]["args"][1]
    if batch_size is not None and taken != batch_size:
        raise ValueError(
            f'The model was asked for minibatches of {batch_size} rows, but its plate "data" '
            f"takes {'all' if taken is None else taken}. Give the plate "
            "`subsample_size=batch_size` and take the rows with `minibatch(x, y)`."
        )


def resolve_training_start(
    start: str, model: Any, summary: ModelSummary, x: Any, y: Any, members: int
) -> str:
    """Whether members start by the initialisers of the model's networks or at the prior."""
    known = {n: v for n, v in initialised_sites(model, x, y).items() if n in summary.latents}
    if start == "auto":
        return "network" if any(known.values()) else "prior"
    check_initialised(
        known,
        word='start="network"',
        who="members",
        several=members > 1,
        instead='Use start="prior"',
    )
    return start
