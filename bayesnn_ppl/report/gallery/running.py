"""Runs of the real kernels for the gallery: every kernel is compiled once.

What a reader can change goes in as *data*: a row with a weight for each target, which the
temperature divides, and the step, which is a change of units: z = step · u, so that a kernel with
step one in u has the wanted step in z. For minibatches the target is split over rows, each with a
linear term of its own; these add up to nothing, and are the gradients' noise.
"""

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
from numpy.typing import NDArray
from numpyro.infer import NUTS

from bayesnn_ppl.diagnostics import ess_bulk, rhat
from bayesnn_ppl.inference import kernels
from bayesnn_ppl.inference.approximations.trained_networks.stein import stein_direction
from bayesnn_ppl.inference.sampling.sampler import sample
from bayesnn_ppl.modeling.bayesian_networks import minibatch
from bayesnn_ppl.report.gallery.targets import TARGETS

CHAINS = 4
TEMPERATURES = (0.25, 1.0, 4.0)
FACTORS = (0.3, 1.0, 3.0)  # of a sampler's own step size
LOOKS = 20  # at which R-hat and effective sample size are known
_ROWS, _BATCH = 32, 8
_NOISE = 1.0  # standard deviation of the minibatch gradient, in units of z
_PARTICLES = 20
_STARTS = np.array([[1.0, 0.5], [-1.0, 0.8], [1.4, 0.9], [-1.3, -0.4]], np.float32)


@dataclass(frozen=True)
class Sampler:
    """A kernel of the gallery.

    Attributes:
        kernel: with step one, as `step` counts; None for SVGD, which is not a Markov chain.
        step: the step size that serves most of the targets.
        meaning: what the step size is.
        gradients: for each draw, in words.
        stochastic: whether it takes minibatches.
    """

    kernel: Any
    step: float
    meaning: str
    gradients: str
    stochastic: bool = False


@dataclass(frozen=True)
class Run:
    """What one run of the gallery shows.

    Attributes:
        draws: (chain, draw, 2).
        rhat, ess: largest R-hat and smallest bulk effective sample size at `LOOKS` moments, (k,).
        accepted: mean acceptance, NaN without an accept step.
        configurational: of each draw, a mean over chains, (draw,); its mean is T.
        kinetic: the same of the momenta; None where none are recorded.
    """

    draws: NDArray[np.float32]
    rhat: NDArray[np.float64]
    ess: NDArray[np.float64]
    accepted: float
    configurational: NDArray[np.float64]
    kinetic: NDArray[np.float64] | None


def _log_densities(z: Any) -> Any:
    return jnp.stack([target(z[0], z[1]) for target in TARGETS.values()])


def _model(x: Any, y: Any = None, *, batch_size: int | None = None) -> None:
    # So wide a prior that it does not matter: the target is all there is.
    u = numpyro.sample("u", dist.Normal(0.0, 1e4).expand([2]).to_event(1))

    def log_target(row: Any) -> Any:
        weights, slope, step = row[:-3], row[-3:-1], row[-1]
        return weights @ _log_densities(step * u) + slope @ (step * u)

    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = minibatch(x, y)
        numpyro.sample("y", dist.Delta(0.0, log_density=jax.vmap(log_target)(x)), obs=y)


def _samplers() -> dict[str, Sampler]:
    fixed: dict[str, Any] = {"adapt_step_size": False}
    few: dict[str, Any] = {"batch_size": _BATCH}
    return {
        "random walk": Sampler(
            kernels.RandomWalk(_model, step_size=1.0, **fixed),
            1.0,
            "standard deviation of a proposal",
            "none",
        ),
        "MALA": Sampler(
            kernels.MALA(_model, step_size=0.5, **fixed), 0.4, "√(2η) of the drift η∇U", "1"
        ),
        "SGLD": Sampler(
            kernels.SGLD(_model, step_size=0.5, steps_per_draw=1, **few),
            0.3,
            "√(2ε) of the drift ε∇U",
            "¼, a minibatch",
            stochastic=True,
        ),
        "SGHMC": Sampler(
            kernels.SGHMC(_model, step_size=1.0, momentum_decay=0.9, steps_per_draw=10, **few),
            0.1,
            "√ε, a step in time",
            "2½, ten minibatches",
            stochastic=True,
        ),
        "HMC": Sampler(
            kernels.HMC(_model, step_size=1.0, num_leapfrogs=10, jitter=0.5, **fixed),
            0.2,
            "a leapfrog",
            "10 on average",
        ),
        "NUTS": Sampler(
            NUTS(_model, step_size=1.0, adapt_mass_matrix=False, **fixed),
            0.2,
            "a leapfrog",
            "as many as the tree has",
        ),
        "MCLMC": Sampler(
            kernels.MCLMC(
                _model,
                step_size=1.0,
                length=15.0,
                steps_per_draw=5,
                preconditioning="identity",
                **fixed,
            ),
            0.3,
            "a step along the path",
            "10",
        ),
        "SVGD": Sampler(None, 0.1, "the rate of Adam", "1 for each particle"),
    }


SAMPLERS = _samplers()


def run(target: str, sampler: str, step: float, temperature: float, draws: int, seed: int) -> Run:
    """Four chains of one sampler, without warm-up; the step is in units of the plane."""
    chosen = SAMPLERS[sampler]
    weights = np.array([name == target for name in TARGETS], np.float32) / temperature
    rows = _ROWS if chosen.stochastic else 1
    slopes = np.zeros((rows, 2))
    if chosen.stochastic:
        slopes = np.random.default_rng(0).normal(size=(rows, 2))
        slopes = (slopes - slopes.mean(0)) / slopes.std(0)
        slopes *= _NOISE * np.sqrt(_BATCH) / rows / temperature
    x = np.column_stack([np.tile(weights / rows, (rows, 1)), slopes, np.full(rows, step)])
    with warnings.catch_warnings():
        # One device suffices for chains of a millisecond.
        warnings.simplefilter("ignore")
        posterior = sample(
            chosen.kernel,
            x.astype(np.float32),
            np.zeros(rows, np.float32),
            warmup=0,
            draws=draws,
            chains=CHAINS,
            chain_method="vectorized",
            seed=seed,
            init={"u": _STARTS / step},
            progress=False,
        )
    z = _to_the_end(np.asarray(posterior.draws["u"] * step, np.float32), draws)
    statistics = posterior.statistics
    accepted, kinetic = map(statistics.get, ("acceptance_rate", "kinetic_temperature"))
    if kinetic is not None:
        # The model's weights hold 1/T, so momenta of the tempered density read 1 where T is right.
        kinetic = temperature * _to_the_end(np.asarray(kinetic, np.float64), draws).mean((0, 2))
    return _looked_at(
        target,
        z,
        accepted=float("nan") if accepted is None else float(np.mean(accepted)),
        kinetic=kinetic,
    )


def _to_the_end(a: NDArray[Any], draws: int) -> NDArray[Any]:
    """Draws (chain, k, ...) as (chain, draws, ...): a run ends where the last chain has stopped,
    and a chain that has stopped stays where it was.
    """
    missing = draws - a.shape[1]
    return np.pad(a, [(0, 0), (0, missing)] + [(0, 0)] * (a.ndim - 2), mode="edge")


def stein(target: str, rate: float, temperature: float, draws: int, seed: int) -> Run:
    """Particles of SVGD as chains, by the library's own step and Adam; their R-hat is NaN."""
    index = list(TARGETS).index(target)
    weights = jnp.zeros(len(TARGETS)).at[index].set(1.0 / temperature)
    start = 0.7 * jax.random.normal(jax.random.key(seed), (_PARTICLES, 2)) + jnp.array([1.0, 0.5])
    z = np.asarray(_stein_path(weights, start, rate, draws), np.float32).swapaxes(0, 1)
    return _looked_at(target, z, accepted=float("nan"), kinetic=None)


@partial(jax.jit, static_argnums=3)
def _stein_path(weights: Any, particles: Any, rate: Any, steps: int) -> Any:
    score = jax.vmap(jax.grad(lambda z: weights @ _log_densities(z)))
    optimiser = optax.inject_hyperparams(optax.adam)(learning_rate=rate)

    def move(state: Any, _: Any) -> Any:
        z, inner = state
        change, inner = optimiser.update(-stein_direction(z, score(z)), inner)
        z = optax.apply_updates(z, change)
        return (z, inner), z

    return jax.lax.scan(move, (particles, optimiser.init(particles)), None, steps)[1]


@jax.jit
def _gradients(weights: Any, z: Any) -> Any:
    flat = z.reshape(-1, 2)
    return jax.vmap(jax.grad(lambda one: -weights @ _log_densities(one)))(flat).reshape(z.shape)


def _looked_at(target: str, z: NDArray[np.float32], *, accepted: float, kinetic: Any) -> Run:
    weights = np.array([name == target for name in TARGETS], np.float32)
    force = np.asarray(_gradients(weights, z), np.float64)
    # ⟨z - c, ∇U⟩/d is T for any constant c; the origin is near every target.
    configurational = np.clip((z * force).sum(-1) / 2, -1e4, 1e4).mean(0)
    moments = looks(z.shape[1])
    found = np.full((2, len(moments)), np.nan)
    if kinetic is not None or len(z) == CHAINS:  # and no particles: one set, and no chains
        for place, count in enumerate(moments):
            part = z[:, :count]
            found[:, place] = float(np.max(rhat(part))), float(np.min(ess_bulk(part)))
    return Run(z, found[0], found[1], accepted, configurational, kinetic)


def looks(draws: int) -> NDArray[np.int64]:
    """The numbers of draws at which convergence is known."""
    return np.unique(np.linspace(draws / LOOKS, draws, LOOKS).astype(int))
