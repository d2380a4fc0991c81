"""The potential of a model on a minibatch of its rows, at full scale and at a temperature."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from bayesnn_ppl.inference.kernels.common.density import Density, Terms, potential_energy
from bayesnn_ppl.modeling.temperature import SiteWeights
from bayesnn_ppl.modeling.training_noise import KeyedModel
from bayesnn_ppl.nn.rows_last import with_rows_last

__all__ = ["MinibatchDensity", "MinibatchGradient", "full_gradient"]


@dataclass(frozen=True)
class MinibatchDensity:
    """The model as a function of its rows.

    On B of N rows, with log J the Jacobians of constrained sites,

        Û(θ) = -(N/B) log p(D_B|θ) - log p(θ) - T log J(θ),

    so that exp(-U/T) is the density of [p(D|θ) p(θ)]^{1/T} in unconstrained coordinates.

    Attributes:
        model: the NumPyro model, of (x, y); it sees the minibatch as its data.
        rows: N.
        unravel, dimension: as in `Density`.
    """

    model: Any
    rows: int
    unravel: Any
    dimension: int

    @classmethod
    def of(cls, density: Density, rows: int) -> "MinibatchDensity":
        """Of the same model, in the same coordinates."""
        return cls(density.model, rows, density.unravel, density.dimension)

    def terms(
        self,
        vector: Any,
        x: Any,
        y: Any,
        *,
        temperature: Any = 1.0,
        share: float = 1.0,
        key: Any = None,
    ) -> Terms:
        """Site -> its log densities, element by element, as they count in -Û.

        Args:
            vector: θ, shape (d,).
            x, y: the minibatch, with leading axis B.
            temperature: T, shape ().
            share: the part of the prior that counts, where several minibatches make one.
            key: of a model that is random in training; with none it is refused.
        """
        weights = SiteWeights(
            self.model if key is None else KeyedModel(self.model, key),
            data=share * self.rows / x.shape[0],
            share=share,
            temperature=temperature,
        )
        return Density(weights, (x, y), {}, self.unravel, self.dimension).terms(vector)

    def potential(self, vector: Any, x: Any, y: Any, **settings: Any) -> Any:
        """Û, a scalar; settings are those of `terms`."""
        return potential_energy(self.terms(vector, x, y, **settings))

    def gradient(self, vector: Any, x: Any, y: Any, **settings: Any) -> Any:
        """∇Û, shape (d,); settings are those of `terms`."""
        # Bound, not passed: a temperature of 1 that is traced would be taken for another.
        potential = partial(self.potential, x=x, y=y, **settings)
        return with_rows_last(jax.grad(potential), x.shape[0])(vector)


@dataclass(frozen=True)
class MinibatchGradient:
    """θ -> ∇Û(θ), shape (d,), on one minibatch; `potential` is Û itself.

    Attributes:
        density: the model.
        fetch: the number of a part -> its rows (x, y).
        parts: how many parts the minibatch has; they are gone through one after another, in the
            memory of one.
        share: what a part counts of the whole, 1/parts.
        temperature: T.
        key: of a model that is random in training: one noise a minibatch, at any position.
    """

    density: MinibatchDensity
    fetch: Callable[[Any], tuple[Any, Any]]
    parts: int
    share: float
    temperature: Any
    key: Any = None

    def __call__(self, vector: Any) -> Any:
        return self._summed(self.density.gradient, vector)

    def potential(self, vector: Any) -> Any:
        """Û(θ), a scalar."""
        return self._summed(self.density.potential, vector)

    def _summed(self, function: Callable[..., Any], vector: Any) -> Any:
        def part(number: Any) -> Any:
            key = self.key
            if key is not None and self.parts > 1:
                key = jax.random.fold_in(key, number)
            settings = {"temperature": self.temperature, "share": self.share, "key": key}
            return function(vector, *self.fetch(number), **settings)

        if self.parts == 1:
            return part(0)
        return jax.lax.fori_loop(1, self.parts, lambda i, total: total + part(i), part(0))


def full_gradient(density: MinibatchDensity, x: Any, y: Any, at_once: int, temperature: Any) -> Any:
    """θ -> ∇U(θ) of all rows, shape (d,), `at_once` rows at a time."""
    rows = x.shape[0]
    at_once = min(at_once, rows)
    parts, rest = divmod(rows, at_once)

    def fetch(number: Any) -> tuple[Any, Any]:
        def cut(array: Any) -> Any:
            return jax.lax.dynamic_slice_in_dim(array, number * at_once, at_once)

        return cut(x), cut(y)

    whole = MinibatchGradient(density, fetch, parts, at_once / rows, temperature)
    if not rest:
        return whole
    tail = (x[rows - rest :], y[rows - rest :])
    last = MinibatchGradient(density, lambda _: tail, 1, rest / rows, temperature)
    return lambda vector: whole(vector) + last(vector)
