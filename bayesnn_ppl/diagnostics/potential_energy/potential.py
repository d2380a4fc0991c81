"""Positions and gradients of U at a posterior's draws: what the configurational temperature needs.

U is T times the negative log density that the run was to sample, in unconstrained coordinates: the
likelihood of all rows, the priors, and the Jacobians of constrained sites, which a whole-posterior
temperature leaves at weight 1 in the target and which so count T times in U. Where the model is
random in training, U is the mean over its noise and each gradient has a noise of its own. It is
unbiased, as a gradient of some of the rows is, and a temperature is linear in it.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.infer.util import potential_energy, unconstrain_fn

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.core.arrays import check_array, check_targets, has_hash
from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.diagnostics.posterior_protocol import PosteriorDraws
from bayesnn_ppl.modeling.temperature import ColdModel, cold
from bayesnn_ppl.modeling.training_noise import KeyedModel, clean

__all__ = [
    "Energies",
    "WrongDataError",
    "affordable_gradients",
    "check_data",
    "energies_at_draws",
    "minibatch_gradients",
    "ready_run",
    "run_temperature",
    "target_of",
    "unconstrained",
]

_ROWS_AT_ONCE = 4096
# What gradients at the draws may cost where nobody asked for them: a few seconds of two cores.
_GRADIENTS, _OPERATIONS, _ROWS_TIMES_WEIGHTS = 2000, 1e11, 2e10


class WrongDataError(ValueError):
    """Data that are not those of the run."""


class Energies(NamedTuple):
    """Draws of a run with their gradients.

    Attributes:
        positions: variable name -> unconstrained θ, (chain, draw, ...), in the order of the flat
            vector that samplers move, which is that of sorted site names.
        gradients: variable name -> ∇U, the same shapes.
        temperature: T of the run.
        draws: the indices of the draws, among those of the run.
    """

    positions: dict[str, np.ndarray]
    gradients: dict[str, np.ndarray]
    temperature: float
    draws: np.ndarray


@partial(jax.jit, static_argnames="target")
def unconstrained(target: StaticValue, draws: Any, x: Any, y: Any) -> Any:
    """The unconstrained coordinates of draws, site -> (draws, ...)."""
    return jax.lax.map(lambda one: unconstrain_fn(clean(target.value), (x, y), {}, one), draws)


@partial(jax.jit, static_argnames=("target", "whole"))
def _gradients(
    target: StaticValue, whole: bool, z: Any, rows: Any, x: Any, y: Any, seed: Any = 0
) -> Any:
    """∇ of the potential at each z, of its own rows, as if they were all, and its own noise."""
    count = len(next(iter(z.values())))

    def one(own: Any) -> Any:
        z, rows, key = own
        keyed = KeyedModel(target.value, key)
        if whole:
            return jax.grad(lambda z: potential_energy(keyed, (x, y), {}, z))(z)
        # The plate takes these rows and scales them; data the model looks at outside stay whole.
        model = handlers.substitute(keyed, data={"data": rows})
        kwargs = {"batch_size": rows.shape[0]}
        return jax.grad(lambda z: potential_energy(model, (x, y), kwargs, z))(z)

    return jax.lax.map(one, (z, rows, jax.random.split(jax.random.key(seed), count)))


def run_temperature(posterior: PosteriorDraws) -> float:
    """The whole-posterior temperature of the draws: of the kernel, or of a `cold` model.

    Raises:
        ValueError: the temperature changed over the kept draws, or was 0.
    """
    temperature = float(posterior.provenance.get("posterior_temperature") or 1.0)
    recorded = posterior.statistics.get("temperature")
    if recorded is not None and not isinstance(posterior.model, ColdModel) and recorded.size:
        low, high = float(recorded.min()), float(recorded.max())
        if not math.isclose(low, high, rel_tol=1e-4):
            raise ValueError(
                f"The temperature went from {low:g} to {high:g} over the kept draws, and a "
                "temperature needs one to compare with. Let the schedule end in the warm-up, or "
                "keep the draws made at one temperature."
            )
        if high == 0:
            raise ValueError(
                "The run was made at temperature 0, as an optimiser: there is no temperature to "
                "measure."
            )
        # Alone it is that of the kernel; of a cold model loaded without it, the other one.
        temperature = temperature if high == 1.0 else high
    return temperature


def energies_at_draws(
    posterior: PosteriorDraws,
    x: Any,
    y: Any,
    *,
    gradients: int = 256,
    rows: int | None = None,
    chains: Any = None,
    seed: int = 0,
) -> Energies:
    """θ and ∇U at evenly spaced draws of each chain.

    Args:
        posterior: with its model and its weights.
        x, y: the data of the run, prepared as they were for `sample`.
        gradients: how many are computed in all, at most; each passes over the data once.
        rows: rows drawn again for each gradient, without replacement, instead of all of them. The
            temperature stays unbiased and its interval widens.
        chains: indices of the chains; None for all.
        seed: of the rows, and of the noise of a model that is random in training.

    Raises:
        ValueError: no model or no weights, other data than those of the run, or too few
            gradients for 4 draws a chain.
        TypeError: an argument or the data are not what they must be.
    """
    run, x, y, latents, names = ready_run(posterior, x, y)
    gradients = integer(gradients, "`gradients`", at_least=4)
    kept = next(iter(latents.values())).shape
    chains = np.arange(kept[0]) if chains is None else np.asarray(chains)
    each = min(kept[1], gradients // len(chains))
    if each < 4:
        raise ValueError(
            f"{gradients} gradients over {len(chains)} chains of {kept[1]} draws leave {each} a "
            "chain, and a temperature needs 4 at least: raise `gradients`, or keep more draws."
        )
    draws = np.linspace(0, kept[1] - 1, each).round().astype(int)
    chosen = {s: a[chains][:, draws].reshape(-1, *a.shape[2:]) for s, a in latents.items()}
    temperature, target = target_of(posterior)
    with arithmetic(float64=run.get("precision") == "float64"):
        z = unconstrained(StaticValue(posterior.model), chosen, x, y)
        found = _summed(target, z, x, y, rows, run.get("local"), seed)

    def by_chain(arrays: Mapping[str, Any], factor: float) -> dict[str, np.ndarray]:
        shaped = {s: np.asarray(a, np.float64) * factor for s, a in arrays.items()}
        return {
            names[s]: shaped[s].reshape(len(chains), each, *shaped[s].shape[1:]) for s in latents
        }

    return Energies(by_chain(z, 1.0), by_chain(found, temperature), temperature, draws)


def affordable_gradients(posterior: PosteriorDraws, x: Any, y: Any) -> int:
    """At how many draws, at most 2000, the gradient over all data costs a few seconds.

    Args:
        posterior: with its model and its weights.
        x, y: the data of the run.
    """
    draws = posterior.draws
    weights = sum(int(np.prod(array.shape[2:])) for array in draws.values())
    bound = _ROWS_TIMES_WEIGHTS / max(len(x) * weights, 1)
    if bound < 1:  # before all the data are read
        return 0
    run, x, y, latents, _ = ready_run(posterior, x, y)
    target = target_of(posterior)[1]
    with arithmetic(float64=run.get("precision") == "float64"):
        z = unconstrained(
            StaticValue(posterior.model), {site: a[0, :1] for site, a in latents.items()}, x, y
        )
        lowered = _gradients.lower(target, True, z, jnp.zeros((1, 1), jnp.int32), x, y)
        cost = lowered.cost_analysis()
    operations = (cost or {}).get("flops", 0.0)
    # Loops over time or depth count once among the operations; rows times weights bounds them.
    return min(_GRADIENTS, int(min(_OPERATIONS / max(operations, 1.0), bound)))


def minibatch_gradients(
    posterior: PosteriorDraws, x: Any, y: Any, *, batch_size: int, minibatches: int, seed: int = 0
) -> dict[str, np.ndarray]:
    """∇Û of many minibatches at the last draw of the first chain, name -> (minibatches, ...).

    Args:
        posterior: with its model and its weights.
        x, y: the data of the run.
        batch_size: rows of each, drawn with replacement.
        minibatches: how many.
        seed: of the rows.

    Raises:
        ValueError, TypeError: as `energies_at_draws`.
    """
    run, x, y, latents, names = ready_run(posterior, x, y)
    if run.get("local"):
        raise ValueError(f"The model has latent sites for each row, {run['local']}.")
    batch_size = integer(batch_size, "`batch_size`", at_least=1, below=len(x) + 1)
    rows = np.random.default_rng(seed).integers(len(x), size=(minibatches, batch_size))
    last = {site: array[0, -1:] for site, array in latents.items()}
    temperature, target = target_of(posterior)
    with arithmetic(float64=run.get("precision") == "float64"):
        z = unconstrained(StaticValue(posterior.model), last, x, y)
        repeated = jax.tree.map(lambda a: jnp.repeat(a, minibatches, axis=0), z)
        found = _gradients(target, False, repeated, rows.astype(np.int32), x, y, seed)
    return {names[s]: temperature * np.asarray(found[s], np.float64) for s in latents}


def ready_run(
    posterior: PosteriorDraws, x: Any, y: Any
) -> tuple[Any, Any, Any, Any, dict[str, str]]:
    """Provenance, data, draws by sorted site, and the variables' names; or what is missing."""
    if posterior.model is None:
        raise ValueError(
            "This posterior was loaded without its model, and the gradient of U needs it: "
            "`load(path, model=...)`."
        )
    if not posterior.has_weights:
        raise ValueError("The run kept no draws of its weights, and a temperature needs them.")
    run = posterior.provenance
    x, y = check_data(posterior, x, y)
    names, draws = {site: name for name, site in run["site_names"].items()}, posterior.draws
    return run, x, y, {site: draws[names[site]] for site in sorted(run["latents"])}, names


def target_of(posterior: PosteriorDraws) -> tuple[float, StaticValue]:
    """T, and the model whose negative log density is U/T."""
    temperature, model = run_temperature(posterior), posterior.model
    if not isinstance(model, ColdModel) and temperature != 1.0:
        model = cold(model, temperature)
    return temperature, StaticValue(model)


def _summed(
    target: StaticValue, z: Any, x: Any, y: Any, rows: int | None, local: Any, seed: int
) -> dict[str, np.ndarray]:
    """The gradient over all rows, in blocks of them, or over rows drawn for each z."""
    count, total = len(next(iter(z.values()))), len(x)
    if rows is not None and local:
        raise ValueError(
            f"The model has latent sites for each row, {local}, so all rows are needed: "
            "leave out `rows`."
        )
    if rows is not None:
        rows = integer(rows, "`rows`", at_least=1, below=total + 1)
        generator = np.random.default_rng(seed)
        own = np.stack([generator.choice(total, rows, replace=False) for _ in range(count)])
        return _gradients(target, False, z, own.astype(np.int32), x, y, seed)
    if total <= _ROWS_AT_ONCE or local:
        return _gradients(target, True, z, jnp.zeros((count, 1), jnp.int32), x, y, seed)
    found: dict[str, np.ndarray] = {}
    blocks = np.array_split(np.arange(total, dtype=np.int32), -(-total // _ROWS_AT_ONCE))
    for number, block in enumerate(blocks):
        own = np.broadcast_to(block, (count, len(block)))
        part = _gradients(target, False, z, own, x, y, seed + number)
        # Each block speaks for all rows, prior included, so their weighted mean is the whole.
        for site, array in part.items():
            share = np.asarray(array, np.float64) * (len(block) / total)
            found[site] = found[site] + share if site in found else share
    return found


def check_data(posterior: PosteriorDraws, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The data as arrays.

    Raises:
        WrongDataError: they are not those of the run.
    """
    run = posterior.provenance
    float64 = run.get("precision") == "float64"
    x, y = check_array(x, "x", float64=float64), check_targets(y, "y", float64=float64)
    known = run.get("data_sha256")
    if isinstance(known, str) and not has_hash(x, y, known):
        raise WrongDataError(
            f"`x` {x.shape} and `y` {y.shape} are not the data of the run ({run.get('rows')} "
            "rows): the gradient of U is that of the training data. Pass what `sample` was "
            "given, prepared the same way."
        )
    return x, y
