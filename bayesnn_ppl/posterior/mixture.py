"""The components of a posterior predictive mixture: one distribution of `"y"` per draw.

Functions of them run block of rows by block of rows, under a memory bound.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import logsumexp, xlogy
from numpyro import handlers
from numpyro.distributions import constraints

from bayesnn_ppl.core.derivatives import derivatives_along
from bayesnn_ppl.core.identity import StaticProgram
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.likelihoods.common.observed import (
    BERNOULLI,
    CATEGORICAL,
    base_distribution,
    drawn,
    exactly_observed,
    is_label,
    is_partly_observed,
    likelihood_name,
    moments,
    predicted_distribution,
    predicted_shape,
    undrawn,
)
from bayesnn_ppl.likelihoods.common.pseudo import PseudoLikelihood
from bayesnn_ppl.modeling.bayesian_networks import check_inputs

__all__ = [
    "Components",
    "base_distribution",
    "check_support",
    "component_moments",
    "exact_elements",
    "function_record",
    "has_exact_quantile",
    "is_label",
    "is_partly_observed",
    "likelihood_name",
    "label_summary",
    "log_densities",
    "mixture_information",
    "mixture_log_density",
    "mixture_moments",
    "mixture_quantile",
    "predicted_distribution",
    "predicted_shape",
]

_DRAWS_AT_ONCE = 16


def check_support(fn: Any, y: np.ndarray, name: str) -> None:
    """Raise ValueError unless every element of `y` lies in the support of `fn`.

    Bounds that depend on the model's parameters are left to the sampler.
    """
    base = base_distribution(fn)
    support = base.support
    bounds = [getattr(support, bound, 0) for bound in ("lower_bound", "upper_bound")]
    if any(not isinstance(bound, int | float) for bound in bounds):
        return
    inside = np.asarray(support(y))
    if not inside.all():
        place = tuple(int(i) for i in np.argwhere(~inside)[0][: y.ndim])
        raise ValueError(
            f"{name}[{', '.join(map(str, place))}] = {y[place]} cannot come from the model's "
            f"{type(base).__name__} likelihood: {_allowed(base)}"
        )


def _allowed(base: Any) -> str:
    """What lies in the support, and what to do about targets that do not."""
    support = base.support
    unstandardised = (
        'Load data with `standardise="inputs"` (in a shell `--standardise inputs`), or take '
        "standardised targets back: "
    )
    if support is constraints.nonnegative_integer:
        return (
            f"counts must be 0, 1, 2, … in the data's own units. {unstandardised}"
            "`np.rint(y.standardisation.undo_y(y))`. Other numbers need another likelihood."
        )
    if not support.is_discrete:
        return (
            f"its support is {support}. {unstandardised}`y.standardisation.undo_y(y)`. Other "
            "numbers need another likelihood."
        )
    allowed = (
        f"labels must be 0 … {support.upper_bound}"
        if isinstance(base, CATEGORICAL)
        else f"its support is {support}"
    )
    return (
        f"{allowed}. Renumber the labels, or choose the number of classes or the likelihood to "
        "suit them."
    )


def _distribution(model: Any, values: Mapping[str, Any], x: Any) -> Any:
    """The distribution of `"y"` at inputs x, for one draw of the latent sites."""
    model = handlers.substitute(model, data=dict(values))
    model = handlers.substitute(model, substitute_fn=undrawn)  # y, which nobody reads
    model = handlers.seed(model, jax.random.key(0))
    fn = handlers.trace(model).get_trace(x)["y"]["fn"]
    # A pseudo-likelihood has trained the weights, and scores nothing.
    return fn.base_dist if isinstance(fn, PseudoLikelihood) else fn


def _observed(program: StaticProgram, values: Mapping[str, Any], x: Any) -> Any:
    return _distribution(program.model, values, x)


@partial(jax.jit, static_argnames=("program", "function", "at_once"))
def _over_draws(
    program: StaticProgram, function: Any, at_once: int, draws: Any, x: Any, *rows: Any
) -> Any:
    """`function` of the mixture's components, a distribution batched over draws."""
    return function(_batched(program, at_once, draws, x), *rows)


@partial(jax.jit, static_argnames=("program", "at_once"))
def _batched(program: StaticProgram, at_once: int, draws: Any, x: Any) -> Any:
    return jax.lax.map(
        lambda values: _observed(program, values, x), draws, batch_size=_batch(at_once)
    )


@partial(jax.jit, static_argnames="function")
def _of_all(function: Any, components: Any, *rows: Any) -> Any:
    return function(components, *rows)


@partial(jax.jit, static_argnames=("program", "at_once"))
def _sample(program: StaticProgram, at_once: int, draws: Any, keys: Any, x: Any) -> Any:
    def one(pair: Any) -> Any:
        values, key = pair
        return drawn(_observed(program, values, x), jax.random.wrap_key_data(key))

    return jax.lax.map(one, (draws, keys), batch_size=_batch(at_once))


@jax.jit
def _sample_all(components: Any, chosen: Any, keys: Any) -> Any:
    def one(pair: Any) -> Any:
        draw, key = pair
        fn = jax.tree.map(lambda a: a[draw], components)
        return drawn(fn, jax.random.wrap_key_data(key))

    return jax.lax.map(one, (chosen, keys))


@partial(jax.jit, static_argnames="program")
def _slopes(program: StaticProgram, draws: Any, tangents: Any, x: Any) -> Any:
    def one(pair: Any) -> Any:
        values, directions = pair

        def outputs(values: Any) -> Any:
            fn = _observed(program, values, x)
            mean, variance = _function_moments(fn)
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


def _bytes_of(jaxpr: Any) -> int:
    """What all intermediate values of a function take together: a bound on its memory."""
    total = 0
    for equation in jaxpr.eqns:
        total += sum(
            v.aval.size * v.aval.dtype.itemsize for v in equation.outvars if hasattr(v.aval, "size")
        )
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, tuple | list) else (parameter,):
                inner = getattr(inner, "jaxpr", inner)  # closed or open
                if hasattr(inner, "eqns"):
                    total += _bytes_of(inner)
    return total


# Functions of the components. Each works on one block of rows; the draws are the leading axis.


def _probabilities(fn: Any) -> Any:
    base = base_distribution(fn)
    p = base.probs
    if isinstance(base, BERNOULLI):
        p = jnp.stack([1 - p, p], axis=-1)
    return jnp.broadcast_to(p, (*fn.shape(), p.shape[-1]))


def _moments(fn: Any) -> Any:
    if is_label(fn):
        p = _probabilities(fn)
        return p, p * (1 - p)
    return moments(fn)


def _function_moments(fn: Any) -> Any:
    """`_moments`, and centre and squared scale of a Cauchy distribution, which has none.

    Chains can be compared by these, and not by NaN.
    """
    base, shape = predicted_distribution(fn), predicted_shape(fn)
    if isinstance(base, dist.Cauchy):
        return jnp.broadcast_to(base.loc, shape), jnp.broadcast_to(base.scale**2, shape)
    return _moments(fn)


def component_moments(components: Any) -> Any:
    """Mean and variance of each component, (S, B, ...); of labels, (S, B, ..., K)."""
    return jax.vmap(_function_moments)(components)


def function_record(model: Any, values: Mapping[str, Any], x: Any, y: Any, key: Any) -> Any:
    """What one draw says at inputs `x`, to be kept in place of its weights, or beside them.

    Returns:
        For labels `probability` (N, ..., K); otherwise `mean` and `sd` (N, ...); always `y`, one
        sample of the targets; where `y` is given `log_likelihood` (N,) and, if some of its elements
        may be masked or censored, `exact` (N, ...), those that are not. Model's units.
    """
    fn = _distribution(model, values, x)
    mean, variance = _function_moments(fn)
    kept = {"probability": mean} if is_label(fn) else {"mean": mean, "sd": jnp.sqrt(variance)}
    kept["y"] = drawn(fn, key)
    if y is not None:
        kept["log_likelihood"] = fn.log_prob(y)
        if is_partly_observed(fn):
            kept["exact"] = exactly_observed(fn, y)
    return kept


def mixture_moments(components: Any) -> Any:
    """Mean of the means, mean of the variances and variance of the means, over draws."""
    means, variances = jax.vmap(_moments)(components)
    return means.mean(0), variances.mean(0), means.var(0)


def mixture_information(components: Any) -> Any:
    """Entropy of the mixture, and its mutual information with the weights, in nats."""
    p = jax.vmap(_probabilities)(components)
    mixture = p.mean(0)
    entropy = -xlogy(mixture, mixture).sum(-1)
    return entropy, entropy + xlogy(p, p).sum(-1).mean(0)


def label_summary(components: Any) -> Any:
    """`mixture_moments` and `mixture_information`, for what one of them costs."""
    return (*mixture_moments(components), *mixture_information(components))


def log_densities(components: Any, y: Any) -> Any:
    """log p(y_i|x_i, θ_s), shape (S, B)."""
    return jax.vmap(lambda fn: fn.log_prob(y))(components)


def exact_elements(components: Any, y: Any) -> Any:
    """Which elements of y every draw says are neither masked nor censored, (B, ...)."""
    return jax.vmap(lambda fn: exactly_observed(fn, y))(components).all(0)


def mixture_log_density(components: Any, y: Any) -> Any:
    """log (1/S) Σ_s p(y_i|x_i, θ_s), shape (B,)."""
    log_p = log_densities(components, y)
    return logsumexp(log_p, axis=0) - jnp.log(log_p.shape[0])


def mixture_quantile(components: Any, levels: Any) -> Any:
    """Solve mean_s F_s(v) = q by bisection between the least and greatest component quantile.

    The level comes as an array (B,) of equal entries, so that another one compiles nothing.
    """
    q = levels[0]

    def component_quantiles(fn: Any) -> Any:
        """The least and the greatest of the distributions that a component is made of."""
        base = predicted_distribution(fn)
        if isinstance(base, dist.MixtureSameFamily):
            inner = base.component_distribution.icdf(q)
            return inner.min(-1), inner.max(-1)
        quantile = jnp.broadcast_to(base.icdf(q), predicted_shape(fn))
        return quantile, quantile

    least, greatest = jax.vmap(component_quantiles)(components)

    def halve(_: int, bracket: Any) -> Any:
        low, high = bracket
        middle = 0.5 * (low + high)
        below = jax.vmap(lambda fn: predicted_distribution(fn).cdf(middle))(components).mean(0) < q
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.fori_loop(0, 50, halve, (least.min(0), greatest.max(0)))
    return 0.5 * (low + high)


def has_exact_quantile(fn: Any) -> bool:
    """Whether distribution function and its inverse are there, and can be computed."""
    base = predicted_distribution(fn)
    if base.support.is_discrete:
        return False
    if isinstance(base, dist.MixtureSameFamily):  # it has no inverse, and its parts bracket one
        return has_exact_quantile(base.component_distribution)
    try:  # some inverses need a library that is not there, or are declared and not implemented
        jax.eval_shape(lambda d: (d.icdf(0.5), d.cdf(0.5)), base)
    except (ImportError, NotImplementedError, TypeError):
        return False
    return True


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
    ) -> None:
        check_inputs(model, x)
        self._program = StaticProgram(model)
        self._draws, self.x, self.float64 = dict(draws), x, float64
        self.count = next(iter(self._draws.values())).shape[0]
        with self._precision():
            one = {name: a[0] for name, a in self._draws.items()}
            traced = jax.make_jaxpr(partial(_observed, self._program), return_shape=True)
            program, self.distribution = traced(one, x)
            working = _bytes_of(program.jaxpr)
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
            return _batched(self._program, self._at_once, self._draws, self.x)

    def apply(self, function: Callable[..., Any], *rows: np.ndarray, axis: int = 0) -> Any:
        """`function(components, *rows)` block by block, joined along `axis`, as NumPy arrays."""
        if self._all is not None:
            with self._precision():
                return jax.tree.map(np.asarray, _of_all(function, self._all, *rows))
        parts = []
        with self._precision():
            for begin in range(0, len(self.x), self._rows):
                x, *rest = (self._block(a, begin) for a in (self.x, *rows))
                part = _over_draws(self._program, function, self._at_once, self._draws, x, *rest)
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
            found = _slopes(self._program, self._draws, dict(tangents), self.x)
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
                part = _sample(self._program, at_once, draws, keys[index], self.x)
                parts.append(np.asarray(part)[: count - begin])
        return np.concatenate(parts)
