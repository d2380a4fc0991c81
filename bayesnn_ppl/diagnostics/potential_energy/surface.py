"""The log posterior in the plane through three draws, and on the line through two."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.infer.util import potential_energy

from bayesnn_ppl.core.arguments import integer, readable
from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.diagnostics.posterior_protocol import PosteriorDraws
from bayesnn_ppl.diagnostics.potential_energy.potential import ready_run, target_of, unconstrained
from bayesnn_ppl.modeling.temperature import ColdModel, SiteWeights

__all__ = ["Segment", "Surface", "plane_basis", "posterior_segment", "posterior_surface"]

_ROWS_AT_ONCE = 4096
type Place = tuple[int, int]


@readable
@dataclass(frozen=True)
class Segment:
    """Log densities along the line through two draws.

    Attributes:
        position: t of θ_0 + t(θ_1 - θ_0), shape (g,): the draws are at 0 and 1.
        log_likelihood: of all rows, without any temperature, shape (g,), nats.
        log_prior: density of the unconstrained coordinates, Jacobians included, shape (g,).
        log_posterior: of what was sampled, temperatures included, up to a constant, shape (g,).
        length: |θ_1 - θ_0|.
    """

    position: np.ndarray
    log_likelihood: np.ndarray
    log_prior: np.ndarray
    log_posterior: np.ndarray
    length: float


@readable
@dataclass(frozen=True)
class Surface:
    """Log densities in the plane through three draws.

    Attributes:
        first, second: coordinates of the grid, shapes (g,) and (h,), in units of `lengths`.
        coordinates: of the three draws, shape (3, 2): (0, 0), (1, 0) and (p, 1), where p is the
            projection of the third on the line through the others.
        log_likelihood, log_prior, log_posterior: as of `Segment`, shape (h, g).
        lengths: Euclidean length of a unit along each axis.
    """

    first: np.ndarray
    second: np.ndarray
    coordinates: np.ndarray
    log_likelihood: np.ndarray
    log_prior: np.ndarray
    log_posterior: np.ndarray
    lengths: tuple[float, float]


def plane_basis(points: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two orthogonal vectors that span the plane through three points, by Gram and Schmidt.

        u = θ_1 - θ_0,    v = (θ_2 - θ_0) - p u,    p = ⟨θ_2 - θ_0, u⟩/⟨u, u⟩

    Neither is of length 1: θ_0 + a u + b v is θ_0, θ_1 and θ_2 at (0, 0), (1, 0) and (p, 1).

    Args:
        points: θ_0, θ_1 and θ_2, shape (3, d).

    Returns:
        The basis (u, v), shape (2, d), and the coordinates (3, 2) of the points.

    Raises:
        ValueError: the points are not three, or lie on one line.
    """
    points = np.asarray(points, np.float64)
    if points.ndim != 2 or len(points) != 3:
        raise ValueError(f"A plane goes through three points, shape (3, d), not {points.shape}.")
    first, other = points[1] - points[0], points[2] - points[0]
    square = float(first @ first)
    if square == 0:
        raise ValueError("The first two draws are the same point. Choose draws that differ.")
    share = float(other @ first) / square
    second = other - share * first
    # What is left of a point on the line is rounding.
    if not float(second @ second) > 1e-20 * (float(other @ other) + square):
        raise ValueError(
            "The three draws lie on one line, and a plane needs a third direction. Choose draws "
            "that differ, or `posterior_segment` for the line."
        )
    return np.stack([first, second]), np.array([[0.0, 0.0], [1.0, 0.0], [share, 1.0]])


def posterior_surface(
    posterior: PosteriorDraws,
    x: Any,
    y: Any,
    *,
    draws: Sequence[Place] | None = None,
    limits: tuple[tuple[float, float], tuple[float, float]] = ((-0.25, 1.25), (-0.25, 1.25)),
    grid: int = 20,
) -> Surface:
    """Log posterior, likelihood and prior in the plane through three draws.

    The cost is grid² evaluations of the density on all rows.

    Args:
        posterior: with its model and its weights.
        x, y: the data of the run.
        draws: three pairs (chain, draw); None for the last draws of the first three chains, or,
            where there are fewer, for the first, middle and last draw of the first chain.
        limits: of the two axes, in units in which the draws are at (0, 0), (1, 0) and (p, 1).
        grid: points along each axis.

    Raises:
        ValueError: no model or no weights, other data than those of the run, a draw that is not
            there, three on one line, or limits that are none.
        TypeError: an argument or the data are not what they must be.

    References:
        Izmailov et al. (2021), arXiv:2104.14421, Figure 3, after Garipov et al. (2018).
    """
    line = _Line(posterior, x, y)
    points = line.positions(line.chosen(draws, 3))
    basis, coordinates = plane_basis(points)
    first, second = (_grid(bounds, grid) for bounds in limits)
    steps = np.stack(np.meshgrid(first, second), axis=-1)
    likelihood, prior, whole = (
        values.reshape(steps.shape[:2])
        for values in line.values(points[0] + steps.reshape(-1, 2) @ basis)
    )
    lengths = np.linalg.norm(basis, axis=1)
    return Surface(
        first=first,
        second=second,
        coordinates=coordinates,
        log_likelihood=likelihood,
        log_prior=prior,
        log_posterior=whole,
        lengths=(float(lengths[0]), float(lengths[1])),
    )


def posterior_segment(
    posterior: PosteriorDraws,
    x: Any,
    y: Any,
    *,
    draws: Sequence[Place] | None = None,
    limits: tuple[float, float] = (-0.25, 1.25),
    grid: int = 50,
) -> Segment:
    """Log posterior, likelihood and prior on the line through two draws.

    Args:
        posterior, x, y: as of `posterior_surface`.
        draws: two pairs (chain, draw); None for the last draws of the first two chains, or, of a
            single chain, for its first and last draw.
        limits: of the position, in units in which the draws are at 0 and 1.
        grid: points of the line.

    Raises:
        ValueError, TypeError: as of `posterior_surface`.
    """
    line = _Line(posterior, x, y)
    points = line.positions(line.chosen(draws, 2))
    step = points[1] - points[0]
    length = float(np.linalg.norm(step))
    if length == 0:
        raise ValueError("The two draws are the same point. Choose draws that differ.")
    position = _grid(limits, grid)
    return Segment(position, *line.values(points[0] + position[:, None] * step), length)


class _Line:
    """A run and its data, ready for densities at points between its draws."""

    def __init__(self, posterior: PosteriorDraws, x: Any, y: Any) -> None:
        self.run, self.x, self.y, self.latents, _ = ready_run(posterior, x, y)
        if self.run.get("local"):
            raise ValueError(
                f"The model has latent sites for each row, {self.run['local']}, and the plane "
                "would have those of all rows. Marginalise them out."
            )
        self.temperature, self.target = target_of(posterior)
        self.model = posterior.model
        self.float64 = self.run.get("precision") == "float64"

    def chosen(self, draws: Sequence[Place] | None, count: int) -> list[Place]:
        """The draws that were asked for, or well-known ones."""
        chains, kept = next(iter(self.latents.values())).shape[:2]
        if draws is None:
            if chains >= count:
                return [(chain, kept - 1) for chain in range(count)]
            spread = np.linspace(0, kept - 1, count).round().astype(int)
            return [(0, int(draw)) for draw in spread]
        places = [tuple(place) for place in draws]
        if len(places) != count or any(len(place) != 2 for place in places):
            raise ValueError(f"`draws` must be {count} pairs (chain, draw), not {draws!r}.")
        for chain, draw in places:
            integer(chain, "A chain of `draws`", at_least=0, below=chains)
            integer(draw, "A draw of `draws`", at_least=0, below=kept)
        return [(chain, draw) for chain, draw in places]

    def positions(self, places: Sequence[Place]) -> np.ndarray:
        """Unconstrained coordinates of draws, (places, d)."""
        chosen = {
            site: np.stack([array[place] for place in places])
            for site, array in self.latents.items()
        }
        with arithmetic(float64=self.float64):
            z = unconstrained(StaticValue(self.model), chosen, self.x, self.y)
            one = jax.tree.map(lambda a: a[0], z)
            self.unravel = ravel_pytree(one)[1]
            flat = jax.vmap(lambda z: ravel_pytree(z)[0])(z)
        return np.asarray(flat, np.float64)

    def values(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log likelihood, prior and posterior at points (n, d), each (n,)."""
        model = self.model.model if isinstance(self.model, ColdModel) else self.model
        base, whole = StaticValue(model), self.target
        tempered = float(self.run.get("likelihood_temperature") or 1.0)
        with arithmetic(float64=self.float64):
            z = jax.vmap(self.unravel)(jnp.asarray(points))
            one = (self.x[:1], self.y[:1])
            prior = _log_density(base, False, z, *one)
            rest = prior if whole == base else _log_density(whole, False, z, *one)
            data = np.zeros(len(points))
            for begin in range(0, len(self.x), _ROWS_AT_ONCE):
                rows = slice(begin, begin + _ROWS_AT_ONCE)
                data += _log_density(base, True, z, self.x[rows], self.y[rows])
        return data * tempered, prior, rest + data / self.temperature


def _log_density(target: StaticValue, data: bool, z: Any, x: Any, y: Any) -> np.ndarray:
    """The log density of the rows alone, or of everything else alone, at each z."""
    return np.asarray(_compiled(target, data, z, x, y), np.float64)


@partial(jax.jit, static_argnames=("target", "data"))
def _compiled(target: StaticValue, data: bool, z: Any, x: Any, y: Any) -> Any:
    def one(z: Any) -> Any:
        weights = SiteWeights(target.value, data=float(data), share=float(not data))
        return -potential_energy(weights, (x, y), {}, z)

    return jax.lax.map(one, z)


def _grid(bounds: Any, count: int) -> np.ndarray:
    integer(count, "`grid`", at_least=2)
    low, high = (float(bound) for bound in bounds)
    if not (np.isfinite([low, high]).all() and low < high):
        raise ValueError(f"`limits` must rise from a number to a larger one, not {bounds!r}.")
    return np.linspace(low, high, count)
