"""The log density of a model, evaluated a block of rows at a time, in the memory of one block."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp

from bayesnn_ppl.inference.kernels.common.density import Density, Terms, potential_energy
from bayesnn_ppl.inference.kernels.common.minibatch_density import MinibatchDensity
from bayesnn_ppl.inference.kernels.common.minibatches import data_shards
from bayesnn_ppl.inference.kernels.common.row_independence import check_rows_independent
from bayesnn_ppl.modeling.temperature import SiteWeights
from bayesnn_ppl.nn.rows_last import with_rows_last

__all__ = ["BlockwiseDensity"]


@dataclass(frozen=True)
class BlockwiseDensity(Density):
    """`Density` with the rows gone through in blocks, one after another.

        U(θ) = -log p(θ) - Σ_b log p(D_b|θ),    ∇U(θ) = -∇ log p(θ) - Σ_b ∇ log p(D_b|θ)

    The gradient is added up block by block, so that what is kept for it is one block's. The terms
    are those of `Density`, element by element; only the order of sums differs, by rounding.

    Attributes:
        rows_at_once: of a block, over all shards of the data; the last block may have fewer.
    """

    rows_at_once: int

    @classmethod
    def of(cls, density: Density, rows_at_once: int) -> Self:
        """Of the same model, in the same coordinates.

        Raises:
            ValueError: the model is not run on `(x, y)`, or is not a sum over rows, each by itself
                whatever their number and order.
        """
        if len(density.args) != 2 or density.kwargs or density.args[1] is None:
            raise ValueError(
                "`rows_at_once` is for models of the arguments `(x, y)`, both given: blocks are "
                "cut out of both."
            )
        x, y = density.args
        check_rows_independent(MinibatchDensity.of(density, x.shape[0]), x, y, rows_at_once)
        return cls(
            density.model,
            density.args,
            density.kwargs,
            density.unravel,
            density.dimension,
            rows_at_once,
        )

    def terms(self, vector: Any) -> Terms:
        """As `Density.terms`."""
        return self._swept(lambda x, y: (None, self._terms(vector, x, y)))[1]

    def gradient(self, vector: Any) -> Any:
        """As `Density.gradient`."""
        return self.gradient_and_terms(vector)[0]

    def gradient_and_terms(self, vector: Any) -> tuple[Any, Terms]:
        """As `Density.gradient_and_terms`."""

        def of_block(x: Any, y: Any) -> tuple[Any, Any]:
            def potential(vector: Any) -> tuple[Any, Any]:
                common, rowwise = self._terms(vector, x, y)
                return potential_energy(rowwise), (common, rowwise)

            return with_rows_last(jax.grad(potential, has_aux=True), x.shape[0])(vector)

        of_rows, terms = self._swept(of_block)
        x, y = self._block(0, 1)  # any rows: what the sites outside the plate say is the same
        of_common = jax.grad(lambda v: potential_energy(self._terms(v, x, y)[0]))(vector)
        return of_common + of_rows, terms

    def _terms(self, vector: Any, x: Any, y: Any) -> tuple[Terms, Terms]:
        """Those of the sites outside the plate "data", and those of rows inside."""
        weights = SiteWeights(self.model, data=1.0)
        terms = Density(weights, (x, y), {}, self.unravel, self.dimension).terms(vector)
        rowwise = {name: terms.pop(name) for name in sorted(weights.rowwise)}
        return terms, rowwise

    def _block(self, first: Any, rows: int) -> tuple[Any, Any]:
        """Of each shard of the data, `rows` rows from the number `first` on."""
        shards = data_shards()

        def cut(array: Any) -> Any:
            parts = array.reshape(shards, -1, *array.shape[1:])
            block = jax.lax.dynamic_slice_in_dim(parts, first, rows, axis=1)
            return block.reshape(-1, *array.shape[1:])

        x, y = self.args
        return cut(jnp.asarray(x)), cut(jnp.asarray(y))

    def _swept(self, function: Callable[..., tuple[Any, Any]]) -> tuple[Any, Terms]:
        """What `(x, y) -> (sum, (common terms, terms of rows))` comes to over all blocks."""
        per_shard, shards = self.args[0].shape[0] // data_shards(), data_shards()
        at_once = min(max(1, self.rows_at_once // shards), per_shard)
        blocks, rest = divmod(per_shard, at_once)
        total, (common, first) = function(*self._block(0, at_once))

        def following(total: Any, number: Any) -> tuple[Any, Terms]:
            part, (_, rowwise) = function(*self._block(number * at_once, at_once))
            return jax.tree.map(jnp.add, total, part), rowwise

        total, others = jax.lax.scan(following, total, jnp.arange(1, blocks))
        # Stacked and not joined: a row's place is of no account, and joining is another copy.
        terms = {**common}
        for name in first:
            terms[f"{name}, first rows"] = first[name]
            terms[f"{name}, further rows"] = others[name]
        if rest:
            part, (_, last) = function(*self._block(blocks * at_once, rest))
            total = jax.tree.map(jnp.add, total, part)
            terms |= {f"{name}, last rows": last[name] for name in last}
        return total, terms
