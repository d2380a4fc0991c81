r"""The temperature of function outputs: is their spread that of the target, direction by direction?

The temperature of a parameter array is a mean over all its elements, in which one direction that
is far too hot disappears; the outputs may depend on just that one. For an output f and any constant
direction v, integration by parts gives, at draws of exp(-U/T),

    E[(f - c) v·∇U] = T E[v·∇f].

With v = Cov(θ, f) the left side of a Gaussian is the variance of f, so the ratio of both sides is
T times the variance of the draws over that of the target. v and c come from the other half of the
same chain, which is nearly independent and of the same mode. In the same way

    E[v·∇U] = 0,

and for a Gaussian v·∇U/T is how far f lies from its mean under the target: a mean that is off, as
that of a sampler which keeps out of a narrow region, shows there.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from numpyro.infer.util import constrain_fn

from bayesnn_ppl.core.derivatives import derivatives_along
from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.diagnostics.posterior_protocol import PosteriorDraws
from bayesnn_ppl.diagnostics.potential_energy.potential import Energies, target_of, unconstrained
from bayesnn_ppl.modeling.training_noise import clean

__all__ = ["function_series"]

type Array = NDArray[np.float64]

_DIRECTIONS = 16
_ROWS = 32
_EXPLAINED = 0.999  # of the variance of the standardised outputs, by the directions together
_MOST_VALUES = 4e7  # coordinates of all draws that are held at once; more draws are thinned
_FEWEST_DRAWS = 8


@partial(jax.jit, static_argnames="target")
def _constrained(target: StaticValue, z: Any, directions: Any, x: Any, y: Any) -> Any:
    """Latent values at each z, and their derivatives along its directions."""

    def one(pair: Any) -> Any:
        position, own = pair
        constrain = partial(constrain_fn, clean(target.value), (x, y), {})
        return derivatives_along(constrain, position, own)

    return jax.lax.map(one, (z, directions))


class _Directions:
    """Principal directions of standardised outputs, found from all draws."""

    def __init__(self, values: Mapping[str, Array]) -> None:
        self._brief = {name: array.shape[1] for name, array in values.items()}
        flat = self._flat(values)
        self._sd = np.where(np.ptp(flat, axis=0) > 0, flat.std(axis=0), np.inf)
        if not np.isfinite(self._sd).any():
            raise ValueError("No output varies over the draws.")
        standard = (flat - flat.mean(axis=0)) / self._sd
        _, sizes, axes = np.linalg.svd(standard, full_matrices=False)
        share = np.cumsum(sizes**2) / np.sum(sizes**2)
        count = min(_DIRECTIONS, int(np.searchsorted(share, _EXPLAINED)) + 1)
        self._axes = axes[:count].T

    def _flat(self, values: Mapping[str, Array]) -> Array:
        """(draw, output): every element, of an sd that all rows share the first one alone."""
        parts = [np.asarray(values[name], float)[:, :rows] for name, rows in self._brief.items()]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    def scores(self, values: Mapping[str, Array]) -> Array:
        """Outputs (draw, row, ...) along the directions, (draw, K)."""
        return (self._flat(values) / self._sd) @ self._axes

    def slopes(self, slopes: Mapping[str, Array]) -> Array:
        """Of derivatives (draw, K, row, ...) the k-th along the k-th direction, (draw, K)."""
        parts = [self.scores({name: a[:, k] for name, a in slopes.items()})[:, k] for k in self]
        return np.stack(parts, axis=1)

    def __iter__(self) -> Any:
        return iter(range(self._axes.shape[1]))


def function_series(
    posterior: PosteriorDraws, found: Energies, chains: Any, x: Any, y: Any, probe: Any
) -> tuple[Array, Array]:
    """Series whose means are the temperature and the shift of principal directions of the outputs.

    Args:
        posterior: with its model and its weights.
        found: positions and gradients of `chains`.
        chains: indices of those chains.
        x, y: the data of the run.
        probe: inputs (N, ...) whose outputs are looked at; at most 32 rows of them are used.

    Returns:
        Temperatures, and shifts of the mean in standard deviations, each (chain, draw, K); 16
        directions at most, the largest first.

    Raises:
        ValueError: the outputs cannot be computed or do not vary, or there are too few draws.
    """
    rows = np.asarray(probe)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), _ROWS)).astype(int)]
    run, kept = posterior.provenance, posterior.draws
    names = {site: name for name, site in run["site_names"].items()}
    sites = sorted(run["latents"])
    count = kept[names[sites[0]]].shape[1]
    if count < _FEWEST_DRAWS:
        raise ValueError(f"{count} draws a chain are too few for two halves.")
    size = sum(int(np.prod(kept[names[site]].shape[2:])) for site in sites)
    most = max(_FEWEST_DRAWS, int(_MOST_VALUES / (size * len(chains))))
    used = np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))
    values = {
        name: _joined(array[chains][:, used])
        for name, array in posterior.function_values(rows).items()
    }
    directions = _Directions(values)
    scores = directions.scores(values).reshape(len(chains), len(used), -1)
    target = target_of(posterior)[1]
    float64 = run.get("precision") == "float64"
    with arithmetic(float64=float64):
        latents = {site: _joined(kept[names[site]][chains][:, used]) for site in sites}
        z = unconstrained(StaticValue(posterior.model), latents, x, y)
    theta = _flat(z, sites, len(chains))

    half = len(used) // 2
    work, shifts, slopes = [], [], []
    for other, inside in (
        (slice(half, None), found.draws < used[half]),
        (slice(None, half), found.draws >= used[half]),
    ):
        centre = scores[:, other].mean(axis=1, keepdims=True)
        moved = theta[:, other] - theta[:, other].mean(axis=1, keepdims=True)
        v = np.einsum("cdk,cdi->cki", scores[:, other] - centre, moved) / moved.shape[1]
        positions = {site: _joined(found.positions[names[site]][:, inside]) for site in sites}
        forces = {site: _joined(found.gradients[names[site]][:, inside]) for site in sites}
        each = len(positions[sites[0]]) // len(chains)
        with arithmetic(float64=float64):
            at, along = _constrained(target, positions, _split(v, positions, each), x, y)
        said, along_draws = posterior.function_slopes(rows, _numpy(at), _numpy(along))
        f = directions.scores(said).reshape(len(chains), each, -1)
        push = np.einsum("cdi,cki->cdk", _flat(forces, sites, len(chains)), v)
        work.append((f - centre) * push)
        shifts.append(push)
        slopes.append(directions.slopes(along_draws).reshape(len(chains), each, -1))
    slope = np.concatenate(slopes, axis=1)
    mean = slope.mean(axis=(0, 1))
    # A slope that differs from its mean moves the work by T times the difference.
    excess = np.concatenate(work, axis=1) - found.temperature * slope
    sd = np.sqrt(np.where(mean > 0, mean, np.nan))
    shift = np.concatenate(shifts, axis=1) / (found.temperature * sd)
    return found.temperature + excess / mean, shift


def _joined(array: Any) -> Any:
    """(chain, draw, ...) -> (chain · draw, ...)."""
    return array.reshape(-1, *array.shape[2:])


def _flat(arrays: Mapping[str, Any], sites: list[str], chains: int) -> Array:
    """Site -> (chain · draw, ...) as one array (chain, draw, coordinate)."""
    parts = [np.asarray(arrays[site], np.float64) for site in sites]
    return np.concatenate([a.reshape(chains, len(a) // chains, -1) for a in parts], axis=2)


def _split(v: Array, positions: Mapping[str, Array], each: int) -> dict[str, Array]:
    """Directions (chain, K, coordinate) by site, for each of a chain's draws."""
    found, begin = {}, 0
    for site, array in positions.items():
        size = int(np.prod(array.shape[1:]))
        part = v[:, :, begin : begin + size].reshape(*v.shape[:2], *array.shape[1:])
        found[site] = np.repeat(part, each, axis=0).astype(array.dtype)
        begin += size
    return found


def _numpy(arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(a) for name, a in arrays.items()}
