"""Posterior predictive distributions: p(y|x, D) ≈ (1/S) Σ_s p(y|x, θ_s), an equal mixture.

Everything is computed from the distribution of the program's observed site `"y"`, in blocks of
rows under a memory bound, and comes out in the data's units.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import logsumexp, xlogy
from numpyro import handlers

from bayesnn_ppl.arguments import whole_number

__all__ = ["Components", "Prediction", "function_values", "log_densities"]

_DRAWS_AT_ONCE = 16
_CATEGORICAL = (dist.CategoricalLogits, dist.CategoricalProbs)
_BERNOULLI = (dist.BernoulliLogits, dist.BernoulliProbs)


def base_distribution(fn: Any) -> Any:
    """The distribution inside `Independent`, `Expanded` and `Masked`."""
    while isinstance(fn, dist.Independent | dist.ExpandedDistribution | dist.MaskedDistribution):
        fn = fn.base_dist
    return fn


def is_label(fn: Any) -> bool:
    """Whether the distribution is one over class labels."""
    return isinstance(base_distribution(fn), (*_CATEGORICAL, *_BERNOULLI))


class _Program:
    """A model as a static argument of a jitted function: equal only to itself."""

    def __init__(self, model: Any) -> None:
        self.model = model


def _observed(program: _Program, values: Mapping[str, Any], x: Any) -> Any:
    """The distribution of `"y"` at inputs x, for one draw of the latent sites."""
    model = handlers.substitute(program.model, data=dict(values))
    model = handlers.seed(model, jax.random.key(0))  # draws y, which nobody reads
    return handlers.trace(model).get_trace(x)["y"]["fn"]


@partial(jax.jit, static_argnames=("program", "function"))
def _over_draws(program: _Program, function: Any, draws: Any, x: Any, *rows: Any) -> Any:
    """`function` of the mixture's components, a distribution batched over draws."""
    components = jax.lax.map(
        lambda values: _observed(program, values, x), draws, batch_size=_DRAWS_AT_ONCE
    )
    return function(components, *rows)


@partial(jax.jit, static_argnames="program")
def _sample(program: _Program, draws: Any, keys: Any, x: Any) -> Any:
    def one(pair: Any) -> Any:
        values, key = pair
        return _observed(program, values, x).sample(key)

    return jax.lax.map(one, (draws, keys), batch_size=_DRAWS_AT_ONCE)


# Functions of the components. Each works on one block of rows; the draws are the leading axis.


def _probabilities(fn: Any) -> Any:
    base = base_distribution(fn)
    p = base.probs
    if isinstance(base, _BERNOULLI):
        p = jnp.stack([1 - p, p], axis=-1)
    return jnp.broadcast_to(p, (*fn.shape(), p.shape[-1]))


def _component_moments(fn: Any) -> Any:
    if is_label(fn):
        p = _probabilities(fn)
        return p, p * (1 - p)
    shape = fn.shape()
    return jnp.broadcast_to(fn.mean, shape), jnp.broadcast_to(fn.variance, shape)


def _function_values(components: Any) -> Any:
    return jax.vmap(_component_moments)(components)


def _moments(components: Any) -> Any:
    means, variances = jax.vmap(_component_moments)(components)
    return means.mean(0), variances.mean(0), means.var(0)


def _information(components: Any) -> Any:
    """Entropy of the mixture, and its mutual information with the weights, in nats."""
    p = jax.vmap(_probabilities)(components)
    mixture = p.mean(0)
    entropy = -xlogy(mixture, mixture).sum(-1)
    return entropy, entropy + xlogy(p, p).sum(-1).mean(0)


def _log_densities(components: Any, y: Any) -> Any:
    return jax.vmap(lambda fn: fn.log_prob(y))(components)


def _mixture_log_density(components: Any, y: Any) -> Any:
    log_p = _log_densities(components, y)
    return logsumexp(log_p, axis=0) - jnp.log(log_p.shape[0])


def _mixture_quantile(components: Any, levels: Any) -> Any:
    """Solve mean_s F_s(v) = q by bisection between the least and greatest component quantile.

    The level comes as an array (B,) of equal entries, so that another one compiles nothing.
    """
    q = levels[0]

    def component_quantile(fn: Any) -> Any:
        return jnp.broadcast_to(base_distribution(fn).icdf(q), fn.shape())

    ends = jax.vmap(component_quantile)(components)

    def halve(_: int, bracket: Any) -> Any:
        low, high = bracket
        middle = 0.5 * (low + high)
        below = jax.vmap(lambda fn: base_distribution(fn).cdf(middle))(components).mean(0) < q
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.fori_loop(0, 50, halve, (ends.min(0), ends.max(0)))
    return 0.5 * (low + high)


class Components:
    """The components of the predictive mixture at inputs `x`: one distribution per draw.

    Args:
        model: the program.
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
        program: _Program | None = None,
    ) -> None:
        self._program = program or _Program(model)
        self._draws, self.x, self._float64 = dict(draws), x, float64
        self.count = next(iter(self._draws.values())).shape[0]
        with self._precision():
            one = {name: a[0] for name, a in self._draws.items()}
            self.distribution = jax.eval_shape(partial(_observed, self._program), one, x)
        leaves = jax.tree.leaves(self.distribution)
        row_bytes = max(1, sum(a.size * a.dtype.itemsize for a in leaves) // len(x))
        # Moments, densities and brackets need a few arrays of the components' size besides.
        self._rows = int(np.clip(memory // (4 * row_bytes * self.count), 1, len(x)))

    def _precision(self) -> Any:
        return jax.enable_x64(True) if self._float64 else nullcontext()

    def apply(self, function: Callable[..., Any], *rows: np.ndarray, axis: int = 0) -> Any:
        """`function(components, *rows)` block by block, joined along `axis`, as NumPy arrays."""
        parts = []
        with self._precision():
            for begin in range(0, len(self.x), self._rows):
                x, *rest = (self._block(a, begin) for a in (self.x, *rows))
                part = _over_draws(self._program, function, self._draws, x, *rest)
                size = min(self._rows, len(self.x) - begin)
                parts.append(
                    jax.tree.map(lambda a: np.asarray(a).take(range(size), axis), part)  # noqa: B023
                )
        return jax.tree.map(lambda *a: np.concatenate(a, axis), *parts)

    def _block(self, array: np.ndarray, begin: int) -> np.ndarray:
        """Rows from `begin`, filled up with the last one so that all blocks have one shape."""
        rows = np.minimum(np.arange(begin, begin + self._rows), len(array) - 1)
        return array[rows]

    def sample(self, count: int, seed: int) -> np.ndarray:
        """`count` samples (count, N, ...), each from a draw chosen at random."""
        generator = np.random.default_rng(seed)
        order = [generator.permutation(self.count) for _ in range(-(-count // self.count))]
        chosen = np.concatenate(order)[:count]
        with self._precision():
            keys = jax.random.split(jax.random.key(seed), count)
            draws = {name: a[chosen] for name, a in self._draws.items()}
            return np.asarray(_sample(self._program, draws, keys, self.x))


class Prediction:
    """The posterior predictive distribution at N inputs, in the data's units.

    Made by `Posterior.predict`. Quantities are computed when first asked for.

    Attributes:
        task: "regression" or "classification".
        components: the mixture's components.
    """

    def __init__(self, components: Components, *, centre: Any = 0.0, scale: Any = 1.0) -> None:
        self.components = components
        self._centre, self._scale = np.asarray(centre), np.asarray(scale)
        self.task = "classification" if is_label(components.distribution) else "regression"

    def __repr__(self) -> str:
        shape = tuple(self.components.distribution.shape())
        return (
            f"<Prediction ({self.task}) of y {shape}, a mixture of {self.components.count} draws>"
        )

    @cached_property
    def _moments(self) -> Any:
        mean, aleatoric, epistemic = self.components.apply(_moments)
        if self.task == "classification":
            return mean, aleatoric, epistemic
        square = self._scale**2
        return self._centre + self._scale * mean, square * aleatoric, square * epistemic

    @property
    def mean(self) -> np.ndarray:
        """E[y|x, D], shape (N, ...); for labels the class probabilities (N, ..., K)."""
        return self._moments[0]

    @property
    def aleatoric(self) -> np.ndarray:
        """E_θ[Var(y|x, θ)]: the noise. Shape of `mean`; squared units."""
        return self._moments[1]

    @property
    def epistemic(self) -> np.ndarray:
        """Var_θ[E(y|x, θ)]: what more data could remove. Shape of `mean`; squared units."""
        return self._moments[2]

    @property
    def variance(self) -> np.ndarray:
        """Var(y|x, D) = aleatoric + epistemic (law of total variance). Shape of `mean`."""
        return self.aleatoric + self.epistemic

    @property
    def probabilities(self) -> np.ndarray:
        """Class probabilities averaged over draws, shape (N, ..., K).

        Raises:
            ValueError: the observed site has no labels.
        """
        if self.task != "classification":
            raise ValueError(
                "Only a model with labels has class probabilities; this one predicts numbers. "
                "Use `.mean`, `.variance` and `.quantile(q)`."
            )
        return self.mean

    @cached_property
    def _information(self) -> Any:
        self.probabilities  # noqa: B018 - refuses regression
        return self.components.apply(_information)

    @property
    def entropy(self) -> np.ndarray:
        """Entropy of the class probabilities, in nats, shape (N, ...)."""
        return self._information[0]

    @property
    def mutual_information(self) -> np.ndarray:
        """Mutual information of label and weights (BALD), in nats, shape (N, ...)."""
        return self._information[1]

    def quantile(self, q: float | Sequence[float]) -> np.ndarray:
        """The q-quantile of the predictive distribution of each element of y.

        Exact (bisection of the mixture's distribution function) where the likelihood knows its
        own, otherwise from 4 000 samples.

        Args:
            q: in (0, 1); one number gives shape (N, ...), a sequence (len(q), N, ...).

        Raises:
            ValueError: q outside (0, 1), or labels, which have no order.
        """
        if self.task == "classification":
            raise ValueError("Labels have no quantiles: use `.probabilities`.")
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"A quantile's level must lie between 0 and 1, not {q}.")
        base = base_distribution(self.components.distribution)
        if base.support.is_discrete or not _has_inverse(base):
            values = np.quantile(self.samples(4000), levels, axis=0)
        else:
            values = np.stack([self._exact_quantile(float(level)) for level in levels])
            values = self._centre + self._scale * values
        return values[0] if np.ndim(q) == 0 else values

    def _exact_quantile(self, level: float) -> np.ndarray:
        rows = np.full(len(self.components.x), level, dtype=np.float32)
        return self.components.apply(_mixture_quantile, rows)

    def samples(self, count: int, *, seed: int = 0) -> np.ndarray:
        """Samples of y, shape (count, N, ...), each from a draw chosen at random.

        Up to as many as there are draws, no draw is used twice.
        """
        count = whole_number(count, "The number of samples", at_least=1)
        samples = self.components.sample(count, seed)
        return samples if self.task == "classification" else self._centre + self._scale * samples

    def log_prob(self, y: Any) -> np.ndarray:
        """Exact log density of the mixture, log (1/S) Σ_s p(y|x, θ_s), shape (N,).

        Args:
            y: targets (N, ...) in the units the model was given, as `data.test.y` are. The
                density is per data unit: a standardised one less log(y_scale) per element.

        Raises:
            ValueError: y has not the shape of the predictions.
        """
        y = self._targets(y)
        elements = int(np.prod(y.shape[1:]))
        return self.components.apply(_mixture_log_density, y) - self._log_units(elements)

    def _log_units(self, elements: int) -> Any:
        if self.task == "classification":
            return 0.0
        return np.log(np.broadcast_to(self._scale, elements)).sum()

    def _targets(self, y: Any) -> np.ndarray:
        y = np.asarray(y)
        shape = tuple(self.components.distribution.shape())
        if y.shape != shape:
            raise ValueError(
                f"`y` has shape {y.shape}, but the model predicts shape {shape} at these inputs."
            )
        return y

    def y(self, y: Any) -> np.ndarray:
        """Targets in the model's units, turned into the data's units."""
        y = np.asarray(y)
        return y if self.task == "classification" else self._centre + self._scale * y


def _has_inverse(base: Any) -> bool:
    """Whether the distribution implements `icdf` and `cdf` itself."""
    cls = type(base)
    return cls.icdf is not dist.Distribution.icdf and cls.cdf is not dist.Distribution.cdf


def function_values(components: Components) -> dict[str, np.ndarray]:
    """What each draw's network says, in the model's units; see `Posterior.function_values`."""
    means, variances = components.apply(_function_values, axis=1)
    if is_label(components.distribution):
        return {"probability": means}
    sd = np.sqrt(variances)
    if (sd == sd[:, :1]).all():
        sd = sd[:, :1]
    return {"mean": means} | ({} if (sd == sd[:1]).all() else {"sd": sd})


def log_densities(prediction: Prediction, y: Any) -> np.ndarray:
    """log p(y_i|x_i, θ_s) in data units, shape (S, N)."""
    y = prediction._targets(y)
    log_p = prediction.components.apply(_log_densities, y, axis=1)
    return log_p - prediction._log_units(int(np.prod(y.shape[1:])))
