"""The log density of a model, as a function of one vector of unconstrained coordinates."""

import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.flatten_util import ravel_pytree
from numpyro import handlers
from numpyro.infer.util import _unconstrain_reparam

from bayesnn_ppl.modeling.temperature import JACOBIAN
from bayesnn_ppl.nn.rows_last import with_rows_last

__all__ = ["Density", "Terms", "jacobian_sites", "log_ratio", "potential_energy"]

type Terms = dict[str, Any]


@dataclass(frozen=True)
class Density:
    """A model given its data, in NumPyro's unconstrained coordinates θ ∈ R^d.

    Attributes:
        model, args, kwargs: the model and what it is called with.
        unravel: vector (d,) -> site name -> unconstrained value.
        dimension: d.
    """

    model: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    unravel: Any
    dimension: int

    @classmethod
    def at(cls, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], z: Any) -> "Density":
        """The density whose coordinates are laid out as the unconstrained values `z`."""
        vector, unravel = ravel_pytree(z)
        return cls(model, args, kwargs, unravel, vector.shape[0])

    def terms(self, vector: Any) -> Terms:
        """Site -> its log densities, element by element, scaled as the model scales them.

        The likelihood has one for each row and a prior one for each of its coordinates, so that
        differences between two points can be formed one by one: in float32 the spacing of numbers
        near 5e5 is 0.03, and near 8e7 it is 8.
        """
        model = handlers.substitute(
            self.model,
            substitute_fn=partial(_unconstrain_reparam, self.unravel(vector)),
        )
        trace = handlers.trace(model).get_trace(*self.args, **self.kwargs)
        terms = {}
        for name, site in trace.items():
            if site["type"] != "sample":
                continue
            if site["intermediates"]:
                log_p = site["fn"].log_prob(site["value"], site["intermediates"])
            else:
                log_p = _one_by_one(site).log_prob(site["value"])
            terms[name] = log_p if site["scale"] is None else site["scale"] * log_p
        return terms

    def potential(self, vector: Any) -> Any:
        """U(θ) = -log p(y, θ) of the vector (d,), Jacobians included; a scalar."""
        return potential_energy(self.terms(vector))

    def gradient(self, vector: Any) -> Any:
        """∇U, shape (d,), without the value."""
        return with_rows_last(jax.grad(self.potential), self._rows)(vector)

    def gradient_and_terms(self, vector: Any) -> tuple[Any, Terms]:
        """∇U, shape (d,), and the terms at the same point, for what one gradient costs."""

        def potential(vector: Any) -> tuple[Any, Terms]:
            terms = self.terms(vector)
            return potential_energy(terms), terms

        return with_rows_last(jax.grad(potential, has_aux=True), self._rows)(vector)

    @property
    def _rows(self) -> int:
        """Of the data, which are the model's first argument; 0 if it has none."""
        shape = getattr(next(iter(self.args), None), "shape", ())
        return shape[0] if shape else 0


def jacobian_sites(terms: Iterable[str], latents: Collection[str]) -> set[str]:
    """The names among those of the terms by which NumPyro adds the Jacobians of latent sites."""
    found = {name: JACOBIAN.search(name) for name in terms}
    return {name for name, match in found.items() if match and match[1] in latents}


def potential_energy(terms: Terms) -> Any:
    """U of the terms at one point; a scalar."""
    return -sum((jnp.sum(term) for term in terms.values()), start=jnp.zeros(()))


def log_ratio(new: Terms, old: Terms, *differences: Any) -> Any:
    """log p(θ_new) - log p(θ_old), and what is to be added to it; a scalar.

    Sums are formed after the differences, term by term, and all in one sum that carries its
    rounding errors along: a trajectory of millions of coordinates may turn 1e7 of potential into
    kinetic energy, and what counts is 0.01 of what is left.

    Args:
        new, old: terms at the two points.
        differences: further addends of any shape, such as kinetic energies by coordinate.
    """
    addends = [*(new[name] - old[name] for name in new), *differences]
    high, low = functools.reduce(_two_sum, (_compensated_sum(addend) for addend in addends))
    return high + low


def _one_by_one(site: Mapping[str, Any]) -> Any:
    """A site's distribution; of a latent array, that of its elements where they are independent.

    A scale of its own shape counts for whole events, so such a site is left alone.
    """
    fn = site["fn"]
    if site["is_observed"] or jnp.ndim(0.0 if site["scale"] is None else site["scale"]):
        return fn
    while isinstance(fn, dist.Independent):
        fn = fn.base_dist
    return fn


def _compensated_sum(array: Any) -> tuple[Any, Any]:
    """The sum of all elements, as a sum of two numbers of which the second is a rounding error.

    Nothing is reshaped, so that rows on several devices stay there.
    """
    # A model's factor may be an integer, or of bfloat16.
    array = jnp.asarray(array, jnp.result_type(array, jnp.float32))
    zero = jnp.zeros((), array.dtype)
    return jax.lax.reduce(
        (array, jnp.zeros_like(array)), (zero, zero), _two_sum, tuple(range(array.ndim))
    )


def _two_sum(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
    """(a, a') + (b, b') with about twice the digits of either.

    What a + b loses to rounding is itself a number of that precision: with s = fl(a + b) and
    v = s - a, it is (a - (s - v)) + (b - v).

    References:
        Knuth, The Art of Computer Programming, volume 2, section 4.2.2, theorem B; Dekker (1971),
        Numerische Mathematik 18.
    """
    (a, a_low), (b, b_low) = one, other
    total = a + b
    v = total - a
    low = (a - (total - v)) + (b - v) + (a_low + b_low)
    high = total + low
    finite = jnp.isfinite(total)  # else total is all there is to say
    return jnp.where(finite, high, total), jnp.where(finite, low - (high - total), 0.0)
