"""What the gallery shows of its runs: draws until a chain stops, convergence, paths, gradients."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from bayesnn_ppl.diagnostics import ess_bulk, rhat
from bayesnn_ppl.report.gallery.samplers import Sampler
from bayesnn_ppl.report.gallery.targets import log_densities

__all__ = ["LOOKS", "STARTS", "Runs", "looked_at", "looks"]

LOOKS = 20  # moments at which R-hat, effective sample size and temperatures are known
_HOT = 1e4
STARTS = np.array([[1.0, 0.5], [-1.0, 0.8], [1.4, 0.9], [-1.3, -0.4]], np.float32)


@dataclass(frozen=True)
class Runs:
    """All runs of one sampler. First axes of every array: target, step size, temperature.

    The path, its flags and the gradients are those of the first chain.

    Attributes:
        draws: (..., chain, draw, 2); a chain that has stopped stays where it was.
        made: (..., chain), draws before the chain stopped.
        rhat, ess: the largest R-hat and the smallest bulk effective sample size of the two
            coordinates, (..., look); NaN where a chain has stopped, and for particles.
        accepted: mean acceptance so far, (..., look), or None without an accept step.
        configurational, kinetic: mean temperatures so far, (..., look); kinetic may be None.
        points, counts: the path of each draw, (..., draw, most, 2), and how many points of it
            there are, (..., draw), or None; a proposal is the last point.
        moved: (..., draw), whether the proposal was accepted, or None.
        forward: (..., draw, depth), whether a doubling went forward in time, or None.
        gradient, noise: (..., draw, 2), of ∇U/T where the draw began, and what its first minibatch
            added to it; or None.
    """

    draws: NDArray[np.float32]
    made: NDArray[np.int64]
    rhat: NDArray[np.float64]
    ess: NDArray[np.float64]
    accepted: NDArray[np.float64] | None
    configurational: NDArray[np.float64]
    kinetic: NDArray[np.float64] | None
    points: NDArray[np.float32] | None = None
    counts: NDArray[np.int64] | None = None
    moved: NDArray[np.bool_] | None = None
    forward: NDArray[np.int64] | None = None
    gradient: NDArray[np.float32] | None = None
    noise: NDArray[np.float32] | None = None


def looked_at(
    sampler: Sampler, told: dict[str, Any], shape: tuple[int, ...], tempered: NDArray[Any]
) -> Runs:
    """What is shown of what a sampler's program returned.

    Args:
        sampler: whose runs they are.
        told: arrays (run, chain, draw, step, ...) in the units of the plane: `z`, and what the
            sampler tells besides; `points` and `forward` are of the first chain, (run, draw, ...).
        shape: of the runs: target, step size, temperature.
        tempered: for each run, the weight 1/T of its target, (run, target).
    """
    every = told["z"]
    stopped = told.get("stopped", ~np.isfinite(every).all(-1)).any(-1)
    made = (~np.logical_or.accumulate(stopped, axis=2)).sum(2)
    z = _held(every[..., -1, :], made)
    runs, _, draws = z.shape[:3]
    heat = 1 / tempered.sum(1)[:, None, None]
    force = _forces(tempered, z)
    # ⟨z - c, ∇U⟩/d is T for any constant c; the origin is near every target.
    temperature = np.nan_to_num(heat * (z * force).sum(-1) / 2, nan=_HOT).clip(-_HOT, _HOT)
    kinetic, accepted = told.get("kinetic_temperature"), told.get("accept_prob")
    if kinetic is not None:
        # The model's weights hold 1/T, so momenta of the tempered density read 1 where T is right.
        kinetic = _so_far(heat * kinetic[..., -1, 0], made)
    convergence = np.full((2, runs, len(looks(draws))), np.nan)
    if sampler.kernel is not None:
        convergence = _convergence(z, made)
    whole: dict[str, Any] = {
        "draws": z,
        "made": made,
        "rhat": convergence[0],
        "ess": convergence[1],
        "accepted": None if accepted is None else _so_far(accepted.mean(-1), made),
        "configurational": _so_far(temperature, made),
        "kinetic": kinetic,
        **_moves(sampler, told, z, made, tempered),
    }
    shaped: dict[str, Any] = {
        name: None if a is None else np.reshape(a, (*shape, *np.shape(a)[1:]))
        for name, a in whole.items()
    }
    return Runs(**shaped)


def _moves(
    sampler: Sampler, told: dict[str, Any], z: Any, made: Any, tempered: Any
) -> dict[str, Any]:
    """How the first chain came to each draw."""
    runs, _, draws = z.shape[:3]
    here = z[:, 0]
    before = np.concatenate([np.broadcast_to(STARTS[0], (runs, 1, 2)), here[:, :-1]], axis=1)
    found: dict[str, Any] = {name: told[name] for name in ("points", "forward") if name in told}
    if "points" in found:
        found["counts"] = told["num_steps"][:, 0, :, 0]
    elif "proposed" in told:
        found["points"] = told["proposed"][:, 0]
        found["counts"] = np.ones((runs, draws), np.int64)
    elif sampler.steps > 1:
        # Four between two draws; where a chain has stopped there are none.
        stride = max(1, sampler.steps // 5)
        found["points"] = np.nan_to_num(told["z"][:, 0, :, stride - 1 : -1 : stride])
        running = np.arange(draws) < made[:, :1]
        found["counts"] = np.where(running, found["points"].shape[2], 0)
    if sampler.exact and sampler.path != "tree":
        found["moved"] = (here != before).any(-1)
    if sampler.drift or sampler.stochastic:
        found["gradient"] = _forces(tempered, before[:, None])[:, 0]
    if sampler.stochastic:
        found["noise"] = np.nan_to_num(told["seen"][:, 0, :, 0] - found["gradient"])
    return found


def looks(draws: int) -> NDArray[np.int64]:
    """The numbers of draws at which convergence is known."""
    return np.unique(np.linspace(draws / LOOKS, draws, LOOKS).astype(int))


def _held(z: NDArray[Any], made: NDArray[np.int64]) -> NDArray[Any]:
    """Draws (run, chain, draw, 2), of which those after a stop repeat the last one before it."""
    z = np.where(np.isfinite(z), z, 0.0)
    starts = np.broadcast_to(
        STARTS[np.arange(z.shape[1]) % len(STARTS)][:, None], z[:, :, :1].shape
    )
    last = np.minimum(np.arange(z.shape[2]), made[..., None] - 1) + 1
    whole = np.concatenate([starts, z], axis=2)
    return np.take_along_axis(whole, last[..., None], axis=2).astype(np.float32)


def _so_far(series: NDArray[Any], made: NDArray[np.int64]) -> NDArray[np.float64]:
    """Means over all draws made so far by all chains, (run, look), of (run, chain, draw)."""
    running = np.arange(series.shape[2]) < made[..., None]
    totals = np.where(running, series, 0.0).sum(1, dtype=np.float64).cumsum(-1)
    counts = running.sum(1).cumsum(-1)
    means = np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)
    return means[:, looks(series.shape[2]) - 1]


def _convergence(z: NDArray[Any], made: NDArray[np.int64]) -> NDArray[np.float64]:
    """R-hat and effective sample size of every run at every look, (2, run, look)."""
    moments = looks(z.shape[2])
    by_chain = np.moveaxis(z, 0, 2)  # (chain, draw, run, 2)
    found = np.full((2, len(z), len(moments)), np.nan)
    for place, count in enumerate(moments):
        part = by_chain[:, :count]
        found[0, :, place] = np.max(rhat(part), axis=-1)
        found[1, :, place] = np.min(ess_bulk(part), axis=-1)
    # They say nothing of chains that stand still.
    found[:, made.min(1)[:, None] < moments] = np.nan
    return found


def _forces(tempered: NDArray[Any], z: NDArray[Any]) -> NDArray[np.float64]:
    """∇U/T, of the shape of z, (run, chain, draw, 2)."""
    return np.asarray(_gradients(tempered, z.reshape(len(z), -1, 2)), np.float64).reshape(z.shape)


@jax.jit
def _gradients(tempered: Any, z: Any) -> Any:
    def gradient(weights: Any, z: Any) -> Any:
        return jax.grad(lambda one: -weights @ log_densities(one))(z)

    return jax.vmap(jax.vmap(gradient, (None, 0)))(tempered, z)
