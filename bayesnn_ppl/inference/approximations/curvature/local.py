"""A model near a mode, as a function of a flat vector of some of its latent sites."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import Unit

from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.inference.approximations.curvature.fisher import whitened_parameters

__all__ = ["Layer", "LocalModel", "Point", "Rows", "in_chunks", "in_layers", "layer_of"]


class Layer(NamedTuple):
    """Sites that belong together, the parameters of one layer, and their part of the vector."""

    name: str
    sites: tuple[str, ...]
    begin: int
    end: int

    @property
    def part(self) -> slice:
        """The place of the layer in a flat vector."""
        return slice(self.begin, self.end)


class Point(NamedTuple):
    """Where a model is looked at, and in which units.

    Attributes:
        centre: (d,), the mode.
        unit: (d,), the prior's standard deviations: coordinates t have θ = centre + unit · t, so
            that the prior's precision of t is one.
        fixed: values of the latent sites that are not moved.
    """

    centre: Any
    unit: Any
    fixed: Mapping[str, Any]


class Rows(NamedTuple):
    """Data in chunks of equal size, the last filled up with rows of weight 0.

    Attributes:
        x: (chunks, B, ...).
        weight: (chunks, B), 1 or 0.
    """

    x: Any
    weight: Any


def in_chunks(x: np.ndarray, size: int) -> Rows:
    """The rows of x (N, ...) in chunks of `size`, or of all rows where these are fewer."""
    size = min(size, len(x))
    index = np.arange(-(-len(x) // size) * size)
    filled = x[np.minimum(index, len(x) - 1)]
    return Rows(
        filled.reshape(-1, size, *x.shape[1:]),
        (index < len(x))
        .astype(np.result_type(float, x) if x.dtype == np.float64 else np.float32)
        .reshape(-1, size),
    )


@dataclass(frozen=True)
class LocalModel:
    """A model as a function of the sites that are moved; all others keep their values.

    Attributes:
        model: the NumPyro model.
        sites: those in the vector, in its order: layer by layer.
        shapes: of their values.
        target: shape of y in one row.
        discrete: whether y is.
        parameters: which parameters of the observed distribution they move, see `fisher`.
    """

    model: StaticValue
    sites: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    target: tuple[int, ...] = ()
    discrete: bool = False
    parameters: tuple[int, ...] = ()

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        return (0, *np.cumsum([prod(shape) for shape in self.shapes]).tolist())

    @property
    def dimension(self) -> int:
        """d, the length of the vector."""
        return self._ends[-1]

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The sites of one layer in a row: `net/Dense_0.kernel` and `net/Dense_0.bias`."""
        found, begin = [], 0
        for owner, group in groupby(self.sites, key=layer_of):
            sites = tuple(group)
            end = begin + len(sites)
            found.append(Layer(owner, sites, self._ends[begin], self._ends[end]))
            begin = end
        return tuple(found)

    def ravel(self, values: Mapping[str, Any]) -> Any:
        """Values (..., *shape) of each site as one vector (..., d)."""
        flat = [
            values[name].reshape(*values[name].shape[: values[name].ndim - len(shape)], -1)
            for name, shape in zip(self.sites, self.shapes, strict=True)
        ]
        return np.concatenate(flat, axis=-1)

    def unravel(self, vector: Any) -> dict[str, Any]:
        """The values (..., *shape) of each site in a vector (..., d)."""
        parts = zip(self.sites, self.shapes, pairwise(self._ends), strict=True)
        return {
            name: vector[..., begin:end].reshape((*vector.shape[:-1], *shape))
            for name, shape, (begin, end) in parts
        }

    def trace(self, vector: Any, fixed: Mapping[str, Any], x: Any, y: Any = None) -> dict[str, Any]:
        """The model's trace at a vector, on rows x."""
        values = dict(fixed) | self.unravel(vector)
        model = handlers.substitute(self.model.value, data=values)
        trace: dict[str, Any] = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(
            x, y
        )
        return trace

    def outputs(self, t: Any, point: Point, x: Any) -> Any:
        r"""u(t), shape (B, R), with Σ_n J_nᵀ J_n the Fisher information of rows x at t = 0.

        J_n = ∂u_n/∂t. What the model weights a row by, such as 1/T, is in u as a square root.
        """
        # Any y will do, but there must be one: temperatures scale observed sites alone.
        kind = jnp.int32 if self.discrete else jnp.result_type(float)
        y = jnp.zeros((x.shape[0], *self.target), kind)
        site = self.trace(point.centre + point.unit * t, point.fixed, x, y)["y"]
        return self.weigh(site, whitened_parameters(site["fn"], self.parameters))

    def weigh(self, site: dict[str, Any], u: Any) -> Any:
        """u (B, R) times the root of the site's scale."""
        if site["scale"] is None:
            return u
        return u * jnp.sqrt(jnp.broadcast_to(site["scale"], u.shape[:1]))[:, None]

    def row_log_likelihood(self, t: Any, point: Point, x: Any, y: Any) -> Any:
        """log p(y_n|x_n, θ) times its weight in the model, shape (B,)."""
        site = self.trace(point.centre + point.unit * t, point.fixed, x, y)["y"]
        log_p = site["fn"].log_prob(y)
        return log_p if site["scale"] is None else site["scale"] * log_p

    def log_prior(self, vector: Any, fixed: Mapping[str, Any], x: Any, y: Any) -> Any:
        """The log density of the moved sites.

        The model's own factors count by their derivatives alone: they are not densities, and
        those that are constant here, such as the -Σ log τ of weights in units of their scales τ,
        would be part of no evidence. The Jacobians of other sites do not count.
        """
        total = jnp.zeros(())
        for name, site in self.trace(vector, fixed, x, y).items():
            if site["type"] != "sample" or name == "y":
                continue
            factor = isinstance(site["fn"], Unit) and not name.endswith("_log_det")
            if name in self.sites or (site["is_observed"] and factor):
                log_p = site["fn"].log_prob(site["value"])
                log_p = jnp.sum(log_p if site["scale"] is None else site["scale"] * log_p)
                total += log_p - jax.lax.stop_gradient(log_p) if factor else log_p
        return total


def layer_of(site: str) -> str:
    """The layer that a site belongs to: `net/Dense_0` of `net/Dense_0.kernel`."""
    return site.rpartition(".")[0] or site


def in_layers(sites: Sequence[str]) -> tuple[str, ...]:
    """The sites ordered by layer, as these first occur, and in each kernels first."""
    owners = list(dict.fromkeys(layer_of(site) for site in sites))
    return tuple(
        sorted(sites, key=lambda s: (owners.index(layer_of(s)), not s.endswith("kernel"), s))
    )
