"""What is kept of a draw: its sites, what its network says at the probe inputs, statistics."""

from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.infer.mcmc import MCMCKernel

from bayesnn_ppl.inference.kernels.common.model_kernel import ModelKernel
from bayesnn_ppl.modeling.discrete_latents import constrained
from bayesnn_ppl.posterior.mixture import function_record

__all__ = ["draw_groups", "draw_statistics", "everything_kept", "start_groups"]

# Statistic in ArviZ's words -> where NumPyro's kernels keep it; the first path that exists counts.
_STATISTICS = {
    "diverging": ("diverging", "hmc_state.diverging"),
    "energy": ("energy", "hmc_state.energy"),
    "potential_energy": ("potential_energy", "hmc_state.potential_energy"),
    "n_steps": ("num_steps", "hmc_state.num_steps"),
    "acceptance_rate": ("accept_prob", "hmc_state.accept_prob", "inner_state.accept_prob"),
    "step_size": ("step_size", "adapt_state.step_size", "hmc_state.adapt_state.step_size"),
}
_ARVIZ = {"num_steps": "n_steps", "accept_prob": "acceptance_rate"}


def draw_groups(
    model: Any, constrain: Any, probe: Any, z: Any, key: Any, *, weights: bool
) -> dict[str, Any]:
    """What is kept of one draw besides statistics: weights, function values, or both.

    Args:
        model: the model.
        constrain: z -> the values of all sites.
        probe: None, or (x, y) with y perhaps None.
        z: unconstrained values.
        key: of a predictive sample.
        weights: whether the sites are kept.
    """
    sites = constrain(z)
    groups = {"posterior": sites} if weights else {}
    if probe is not None:
        latents = {name: sites[name] for name in z}
        groups["predictions"] = function_record(model, latents, probe[0], probe[1], key)
    return groups


def start_groups(
    model: Any, discrete: tuple[str, ...], x: Any, y: Any, probe: Any, z: Any
) -> dict[str, Any]:
    """Where a chain starts, and what its network says there."""
    latents = constrained(model, (x, y), z, discrete)
    groups: dict[str, Any] = {"starts": latents}
    if probe is not None:
        # Of the sample in it nobody takes notice, so any key will do.
        record = function_record(model, latents, probe[0], None, jax.random.key(0))
        groups["starts_functions"] = {name: a for name, a in record.items() if name != "y"}
    return groups


def everything_kept(
    model: Any, z: Any, x: Any, y: Any, probe: Any, *, discrete: tuple[str, ...] = ()
) -> Any:
    """All that could be kept of a draw of every chain; called for its shapes alone."""

    def one(z: Any) -> Any:
        sites = constrained(model, (x, y), z, discrete, return_deterministic=True)
        if probe is None:
            return sites
        latents = {name: sites[name] for name in z}
        return sites, function_record(model, latents, probe[0], probe[1], jax.random.key(0))

    return jax.vmap(one)(z)


def draw_statistics(kernel: MCMCKernel, state: Any, *, chains: int | None = None) -> dict[str, Any]:
    """The statistics of the kernel's last draw, in ArviZ's words.

    Args:
        kernel, state: of one chain, or of an ensemble.
        chains: of an ensemble; a number that all of it shares is given to every chain.
    """
    if isinstance(kernel, ModelKernel):
        told = state.statistics
        return {_ARVIZ.get(name, name): told[name] for name in kernel.recorded if name in told}
    found = {}
    for name, paths in _STATISTICS.items():
        for path in paths:
            try:
                value = attrgetter(path)(state)
            except AttributeError:
                continue
            if jnp.shape(value) not in ((), () if chains is None else (chains,)):
                continue
            found[name] = value if chains is None else jnp.broadcast_to(value, (chains,))
            break
    return found
