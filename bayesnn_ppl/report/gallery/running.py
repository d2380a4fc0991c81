"""Runs of the real kernels for the gallery: all runs of a sampler are one compiled program.

What a reader can change goes in as *data*: a row with a weight for each target, which the
temperature divides, and the step, which is a change of units: z = step · u, so that a kernel with
step one in u has the wanted step in z. For minibatches the target is split over rows, each with a
linear term of its own; these add up to nothing, and are the gradients' noise.
"""

import copy
import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from bayesnn_ppl.inference.approximations.trained_networks.stein import stein_direction
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.report.gallery.recording import leapfrog_path
from bayesnn_ppl.report.gallery.results import STARTS, Runs, looked_at
from bayesnn_ppl.report.gallery.samplers import BATCH, LEAPFROGS, SAMPLERS, Sampler
from bayesnn_ppl.report.gallery.targets import TARGETS, log_densities

__all__ = ["CHAINS", "FACTORS", "PARTICLES", "TEMPERATURES", "run_all"]

CHAINS = len(STARTS)
TEMPERATURES = (0.25, 1.0, 4.0)
FACTORS = (0.3, 1.0, 3.0)  # of a sampler's own step size
PARTICLES = 20
_ROWS = 32
_NOISE = 1.0  # standard deviation of the minibatch gradient, in units of z
_SHORT = 120  # steps of the particles, which are many


# Chains overflow just before they stop, and so does what is computed of them.
@np.errstate(over="ignore", invalid="ignore")
def run_all(name: str, targets: tuple[str, ...], draws: int, seed: int) -> Runs:
    """Every target, step size and temperature of one sampler, without a warm-up."""
    sampler = SAMPLERS[name]
    # Axes: target, step, temperature.
    weights = np.array([[one == target for one in TARGETS] for target in targets], np.float32)
    steps = np.array(FACTORS, np.float32) * sampler.step
    shape = len(targets), len(FACTORS), len(TEMPERATURES)
    tempered = weights[:, None, None] / np.array(TEMPERATURES, np.float32)[:, None]
    tempered = np.broadcast_to(tempered, (*shape, len(TARGETS))).reshape(-1, len(TARGETS))
    steps = np.broadcast_to(steps[:, None], shape).reshape(-1)
    if sampler.kernel is None:
        draws = min(draws, _SHORT)
        z = np.asarray(_particles(tempered, steps, draws, jax.random.key(seed)), np.float32)
        told: dict[str, Any] = {"z": z}
    else:
        keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(seed), np.arange(CHAINS))
        rows = _rows(sampler, tempered, steps)
        with warnings.catch_warnings():
            # NumPyro's and ours, about settings that are what is shown here.
            warnings.simplefilter("ignore")
            found = _chains(sampler, draws)(keys, STARTS / steps[:, None, None], rows)
        told = {key: np.asarray(value) for key, value in found.items()}
        # Computed in units of the step: (run, chain, draw, ..., 2).
        for key in ("z", "points", "proposed"):
            if key in told:
                told[key] = _times(told[key], steps)
        if "seen" in told:
            told["seen"] = _times(told["seen"], 1 / steps)
    return looked_at(sampler, told, shape, tempered)


def _times(a: NDArray[Any], steps: NDArray[Any]) -> NDArray[Any]:
    return a * steps.reshape(-1, *[1] * (a.ndim - 1))


def _rows(sampler: Sampler, tempered: NDArray[Any], steps: NDArray[Any]) -> NDArray[np.float32]:
    """The data of each run, (run, row, ...)."""
    runs, rows = len(steps), _ROWS if sampler.stochastic else 1
    slopes = np.zeros((rows, 2))
    if sampler.stochastic:
        slopes = np.random.default_rng(0).normal(size=(rows, 2))
        slopes = (slopes - slopes.mean(0)) / slopes.std(0)
        slopes *= _NOISE * np.sqrt(BATCH) / rows
    # The noise of ∇U has the same size at every temperature; the target holds U/T.
    heat = tempered.sum(1)[:, None, None]
    parts = (
        np.repeat(tempered[:, None] / rows, rows, axis=1),
        slopes * heat,
        np.broadcast_to(steps[:, None, None], (runs, rows, 1)),
    )
    return np.concatenate(parts, axis=-1).astype(np.float32)


@functools.cache
def _chains(sampler: Sampler, draws: int) -> Any:
    """A compiled function of keys, starts and rows: all runs and chains of a sampler."""
    # Of its own: `init` binds a kernel to a trace.
    kernel = copy.copy(sampler.kernel)

    def chain(key: Any, start: Any, rows: Any) -> dict[str, Any]:
        args = rows, jnp.zeros(rows.shape[0])
        begun = kernel.init(key, 0, {"u": start}, args, {})

        def step(state: Any, _: Any) -> tuple[Any, dict[str, Any]]:
            after = kernel.sample(state, args, {})
            told = {"z": after.z["u"], **_told(after)}
            if sampler.path in ("leapfrogs", "tree"):
                told["before"], told["key"] = state.z["u"], state.rng_key
            return after, told

        told = jax.lax.scan(step, begun, None, draws * sampler.steps)[1]
        return {name: a.reshape(draws, sampler.steps, *a.shape[1:]) for name, a in told.items()}

    def path(told: dict[str, Any], rows: Any) -> dict[str, Any]:
        density = Density.at(
            kernel.model, (rows, jnp.zeros(rows.shape[0])), {}, {"u": jnp.zeros(2)}
        )
        state = told.pop("key")[:, 0], told.pop("before")[:, 0]
        if tree := sampler.tree:
            found = jax.vmap(lambda k, z: tree(k, z, density))(*state)
            return dict(zip(("points", "forward"), found, strict=True))
        most = LEAPFROGS * 3 // 2
        return {"points": jax.vmap(lambda k, z: leapfrog_path(k, z, density, most=most))(*state)}

    def run(keys: Any, starts: Any, rows: Any) -> dict[str, Any]:
        told = jax.vmap(chain, (0, 0, None))(keys, starts, rows)
        if "key" not in told:
            return told
        first = {name: told.pop(name)[0] for name in ("key", "before")}
        return {**told, **path(first, rows)}

    return jax.jit(jax.vmap(run, (None, 0, 0)))


def _told(state: Any) -> dict[str, Any]:
    """What a step says of itself, by the names of `looked_at`."""
    statistics = getattr(state, "statistics", None)
    if statistics is None:  # of NumPyro
        return {"accept_prob": state.accept_prob, "num_steps": state.num_steps}
    names = "accept_prob", "num_steps", "proposed", "stopped", "kinetic_temperature"
    told = {name: statistics[name] for name in names if name in statistics}
    if "macro_steps" in statistics:  # the points of its path, of which each took several gradients
        told["num_steps"] = statistics["macro_steps"]
    seen = getattr(getattr(state, "variables", None), "seen", None)
    if seen is not None:
        told["seen"] = seen
    return told


def _particles(tempered: Any, rates: Any, steps: int, key: Any) -> Any:
    """SVGD by the library's own step and Adam; (run, particle, step, 1, 2)."""
    start = 0.7 * jax.random.normal(key, (PARTICLES, 2)) + STARTS[0]

    def one(weights: Any, rate: Any) -> Any:
        score = jax.vmap(jax.grad(lambda z: weights @ log_densities(z)))
        optimiser = optax.inject_hyperparams(optax.adam)(learning_rate=rate)

        def move(state: Any, _: Any) -> Any:
            z, inner = state
            change, inner = optimiser.update(-stein_direction(z, score(z)), inner)
            z = optax.apply_updates(z, change)
            return (z, inner), z

        path = jax.lax.scan(move, (start, optimiser.init(start)), None, steps)[1]
        return path.swapaxes(0, 1)[:, :, None]

    return jax.jit(jax.vmap(one))(tempered, rates)
