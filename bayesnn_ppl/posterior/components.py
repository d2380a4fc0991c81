"""The components of a posterior predictive mixture: one distribution of `"y"` per draw.

Functions of them run block of rows by block of rows, under a memory bound.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from bayesnn_ppl.core.derivatives import derivatives_along
from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.likelihoods.common.observed import drawn, is_label, predicted_shape
from bayesnn_ppl.modeling.bayesian_networks import check_inputs
from bayesnn_ppl.modeling.jaxpr_equations import result_bytes
from bayesnn_ppl.posterior.mixture import function_moments, observed_site

__all__ = ["Components"]

_DRAWS_AT_ONCE = 16


def _observed(model: StaticValue, values: Mapping[str, Any], x: Any) -> Any:
    return observed_site(model.value, values, x)


@partial(jax.jit, static_argnames=("model", "function", "at_once"))
def _over_draws(
    model: StaticValue, function: Any, at_once: int, draws: Any, x: Any, *rows: Any
) -> Any:
    """`function` of the mixture's components, a distribution batched over draws."""
    return function(_batched(model, at_once, draws, x), *rows)


@partial(jax.jit, static_argnames=("model", "at_once"))
def _batched(model: StaticValue, at_once: int, draws: Any, x: Any) -> Any:
    return jax.lax.map(
        lambda values: _observed(model, values, x), draws, batch_size=_batch(at_once)
    )


@partial(jax.jit, static_argnames="function")
def _of_all(function: Any, components: Any, *rows: Any) -> Any:
    return function(components, *rows)


@partial(jax.jit, static_argnames=("model", "at_once"))
def _sample(model: StaticValue, at_once: int, draws: Any, keys: Any, x: Any) -> Any:
    def one(pair: Any) -> Any:
        values, key = pair
        return drawn(_observed(model, values, x), jax.random.wrap_key_data(key))

    return jax.lax.map(one, (draws, keys), batch_size=_batch(at_once))


@jax.jit
def _sample_all(components: Any, chosen: Any, keys: Any) -> Any:
    def one(pair: Any) -> Any:
        draw, key = pair
        fn = jax.tree.map(lambda a: a[draw], components)
        return drawn(fn, jax.random.wrap_key_data(key))

    return jax.lax.map(one, (chosen, keys))


@partial(jax.jit, static_argnames="model")
def _slopes(model: StaticValue, draws: Any, tangents: Any, x: Any) -> Any:
    def one(pair: Any) -> Any:
        values, directions = pair

        def outputs(values: Any) -> Any:
            fn = _observed(model, values, x)
            mean, variance = function_moments(fn)
            return {"probability": mean} if is_label(fn) else {"mean": mean, "sd": variance**0.5}

        return derivatives_along(outputs, values, directions)[1]

    return jax.lax.map(one, (draws, tangents))


def _draws_at_once(memory: int, working: int) -> int:
    """How many draws go through the network together, each of which takes `working` bytes.

    Weights that differ make products and convolutions of groups, which XLA runs on a CPU one after
    another and with poorer code: sixteen at once took 1 to 5 times as long as one by one.
    """
    if jax.default_backend() == "cpu":
        return 1
    return int(np.clip(memory // working, 1, _DRAWS_AT_ONCE))


def _batch(at_once: int) -> int | None:
    return at_once if at_once > 1 else None


class Components:
    """The components of the predictive mixture at inputs `x`: one distribution per draw.

    Args:
        model: the NumPyro model.
        draws: latent site name -> array (S, ...).
        x: inputs (N, ...).
        memory: bytes that the components of one block of rows may take, about.
        float64: compute in double precision.
    """

    def __init__(
        self,
        model: Any,
        draws: Mapping[str, np.ndarray],
        x: np.ndarray,
        *,
        memory: int,
        float64: bool,
    ) -> None:
        check_inputs(model, x)
        self._model = StaticValue(model)
        self._draws, self.x, self.float64 = dict(draws), x, float64
        self.count = next(iter(self._draws.values())).shape[0]
        with self._precision():
            one = {name: a[0] for name, a in self._draws.items()}
            traced = jax.make_jaxpr(partial(_observed, self._model), return_shape=True)
            jaxpr, self.distribution = traced(one, x)
            working = result_bytes(jaxpr.jaxpr)
        held = sum(a.size * a.dtype.itemsize for a in jax.tree.leaves(self.distribution))
        held, working = max(1, held // len(x)), max(1, working // len(x))  # per row and draw
        self._memory, self._working = memory, working
        self._at_once = _draws_at_once(memory, 2 * working)
        # Moments, densities and brackets need a few arrays of the components' size besides.
        row = 4 * held * self.count + self._at_once * working
        self._rows = int(np.clip(memory // row, 1, len(x)))

    def _precision(self) -> Any:
        return arithmetic(float64=self.float64)

    @cached_property
    def _all(self) -> Any:
        """The components at all rows, at most a quarter of the memory; None where they are more.

        All that is then asked of them, quantiles and samples too, runs the network once.
        """
        if self._rows < len(self.x):
            return None
        try:  # compiled functions take no distribution whose settings have no hash
            hash(jax.tree.structure(self.distribution))
        except TypeError:
            return None
        with self._precision():
            return _batched(self._model, self._at_once, self._draws, self.x)

    def apply(self, function: Callable[..., Any], *rows: np.ndarray, axis: int = 0) -> Any:
        """`function(components, *rows)` block by block, joined along `axis`, as NumPy arrays."""
        if self._all is not None:
            with self._precision():
                return jax.tree.map(np.asarray, _of_all(function, self._all, *rows))
        parts = []
        with self._precision():
            for begin in range(0, len(self.x), self._rows):
                x, *rest = (self._block(a, begin) for a in (self.x, *rows))
                part = _over_draws(self._model, function, self._at_once, self._draws, x, *rest)
                size = min(self._rows, len(self.x) - begin)
                parts.append(
                    jax.tree.map(lambda a: np.asarray(a).take(range(size), axis), part)  # noqa: B023
                )
        return jax.tree.map(lambda *a: np.concatenate(a, axis), *parts)

    def _block(self, array: np.ndarray, begin: int) -> np.ndarray:
        """Rows from `begin`, filled up with the last one so that all blocks have one shape."""
        rows = np.minimum(np.arange(begin, begin + self._rows), len(array) - 1)
        return array[rows]

    def slopes(self, tangents: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Derivatives of what each draw's network says, along directions of its latent sites.

        Args:
            tangents: site -> (S, K, ...), K directions for each draw.

        Returns:
            "probability", or "mean" and "sd", -> (S, K, N, ...).
        """
        with self._precision():
            found = _slopes(self._model, self._draws, dict(tangents), self.x)
        return {name: np.asarray(a) for name, a in found.items()}

    def sample(self, count: int, seed: int, *, in_order: bool = False) -> np.ndarray:
        """`count` samples (count, N, ...), each from a draw chosen at random, or draw by draw."""
        generator = np.random.default_rng(seed)
        rounds = range(-(-count // self.count))
        order = [
            np.arange(self.count) if in_order else generator.permutation(self.count) for _ in rounds
        ]
        chosen = np.concatenate(order)[:count]
        one = sum(a[0].nbytes for a in self._draws.values())
        one += int(np.prod(predicted_shape(self.distribution))) * 8
        block = int(np.clip(self._memory // one, 1, count))
        at_once = _draws_at_once(self._memory, self._working * len(self.x))
        parts = []
        with self._precision():
            # As numbers, since every step with an array of keys is a program to compile.
            keys = np.asarray(jax.random.key_data(jax.random.split(jax.random.key(seed), count)))
            if self._all is not None:
                return np.asarray(_sample_all(self._all, chosen, keys))
            for begin in range(0, count, block):
                # Filled up with the last, so that all blocks have one shape.
                index = np.minimum(np.arange(begin, begin + block), count - 1)
                draws = {name: a[chosen[index]] for name, a in self._draws.items()}
                part = _sample(self._model, at_once, draws, keys[index], self.x)
                parts.append(np.asarray(part)[: count - begin])
        return np.concatenate(parts)
