"""SWAG and MultiSWAG: a Gaussian fitted to the iterates of SGD."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.core.arguments import integer, readable
from bayesnn_ppl.inference.approximations.sgd_iterates.iterates import IteratesOfSGD
from bayesnn_ppl.inference.schedules.simple import check_schedule
from bayesnn_ppl.inference.training.problem import Problem

__all__ = ["SWAG", "IterateMoments", "swag_draws"]

_SGD, _DRAWS = 0x5357_4147, 0x5357_4148  # streams of randomness


class IterateMoments:
    """Running moments of iterates, and their last K deviations from the running mean.

    Args:
        rank: K.
        burn_in: how many iterates are passed over first.

    Attributes:
        count: iterates seen.
        mean: (members, d), double precision.
        deviations: the last K of θ_i - mean_i, each (members, d).
    """

    def __init__(self, rank: int, burn_in: int = 0) -> None:
        self.count, self._rank, self._skip = 0, rank, burn_in
        self.mean: Any = 0.0
        self._squares: Any = 0.0
        self.deviations: list[np.ndarray] = []

    def add(self, vectors: np.ndarray) -> None:
        """Take iterates (members, d) in."""
        values = np.asarray(vectors, dtype=float)
        self.count += 1
        before = values - self.mean
        self.mean = self.mean + before / self.count
        self._squares = self._squares + before * (values - self.mean)
        self.deviations = [*self.deviations, values - self.mean][-self._rank :]

    def take(self, made: np.ndarray) -> None:
        """Take iterates (members, k, d) in, but for those of the burn-in."""
        skipped = min(self._skip, made.shape[1])
        self._skip -= skipped
        for index in range(skipped, made.shape[1]):
            self.add(made[:, index])

    def arrays(self) -> dict[str, np.ndarray]:
        """Its state, as named arrays."""
        found = {"count": np.asarray(self.count), "skip": np.asarray(self._skip)}
        if self.count:
            found |= {
                "mean": self.mean,
                "squares": self._squares,
                "deviations": np.stack(self.deviations),
            }
        return found

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Be as one whose `arrays` these are."""
        self.count, self._skip = int(arrays["count"]), int(arrays["skip"])
        if self.count:
            self.mean, self._squares = arrays["mean"], arrays["squares"]
            self.deviations = list(arrays["deviations"])

    @property
    def variance(self) -> np.ndarray:
        """E[θ²] - E[θ]², (members, d), formed without that difference."""
        return self._squares / self.count


@jax.jit
def swag_draws(mean: Any, variance: Any, deviations: Any, keys: Any) -> Any:
    r"""θ = mean + sqrt(½ variance) z₁ + deviationsᵀ z₂ / sqrt(2 (K - 1)), one for each key.

    Args:
        mean, variance: (d,).
        deviations: (K, d), K ≥ 2.
        keys: PRNG keys, (draws,).

    Returns:
        (draws, d).
    """
    rank = deviations.shape[0]

    def one(key: Any) -> Any:
        first, second = jax.random.split(key)
        diagonal = jnp.sqrt(variance / 2) * jax.random.normal(first, mean.shape, mean.dtype)
        weights = jax.random.normal(second, (rank,), mean.dtype)
        return mean + diagonal + weights @ deviations / jnp.sqrt(2.0 * (rank - 1))

    return jax.lax.map(one, keys)


@readable
@dataclass(frozen=True)
class SWAG(IteratesOfSGD):
    r"""Stochastic weight averaging, Gaussian: the distribution of SGD's iterates around a mode.

    From a mode on, SGD continues at a constant rate, and every `every` steps its iterate θ_i is
    taken in (i = 1, ..., n) after those of the burn-in:

        θ̄ = mean θ_i,   s² = mean θ_i² - θ̄²,   D = last K of (θ_i - θ̄_i),  θ̄_i the mean so far

        θ = θ̄ + sqrt(½) s z₁ + Dᵀ z₂ / sqrt(2 (K - 1)),      z₁, z₂ standard normal

    so that a draw's covariance is half the diagonal s² and half the low rank DᵀD/(K - 1). With
    `members` > 1 it is MultiSWAG: each member from a mode of its own, chains of the posterior.

    What the iterates scatter by is minibatch noise, and how much is the rate's doing, not the
    posterior's: the covariance is about proportional to the rate. By default the rate is that at
    which SGD comes nearest to the posterior (`constant_rate.best_rates`). The loss is that of the
    whole posterior in unconstrained coordinates, Jacobians included. Temperatures of the model
    count in it once; a likelihood temperature T makes the iterates' covariance proportional to
    1/T at a rate that is given, and to T, as it should be, at the best one.

    Costs the training, and n · every minibatch gradients a member; the deviations take K · d
    numbers. It fails where a mode is so flat that SGD would need far more steps to explore it.

    Args:
        model: a NumPyro model that keeps the model contract.
        mode: what a member begins at: a `MAP(...)` to train by; a posterior of the same model,
            whose chains' first draws are taken; None for `MAP()`.
        members: 1, or M for MultiSWAG.
        learning_rate: of SGD on the mean loss: a number, or a function of the step, such as
            `schedules.CyclicalCosine`; None for (1 - μ) times the best rate at each mode.
        momentum: μ, of the heavy ball.
        batch_size: rows of a minibatch, drawn with replacement, at most all.
        iterates: n, how many are taken in.
        every: steps between them; None for those of an epoch.
        burn_in: iterates that are left out at first.
        rank: K ≥ 2.
        draws: of each member.

    Raises:
        TypeError, ValueError: an argument is not what it must be, or the model's density is not
            a sum over rows; raised before anything is compiled.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> data = bnn.data.load("diabetes")
        >>> mode = bnn.approximations.MAP(epochs=20)
        >>> swag = bnn.approximations.SWAG(bnn.models.linear(), mode=mode, iterates=20, draws=50)
        >>> bnn.fit(swag, *data.train, progress=False).draws["noise_scale"].shape
        (1, 50)

    References:
        Maddox et al. (2019), arXiv:1902.02476; Wilson and Izmailov (2020), arXiv:2002.08791
        (MultiSWAG).
    """

    _stream, _stage = _SGD, "iterates"

    _: KW_ONLY
    momentum: float = 0.9
    iterates: int = 100
    rank: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        integer(self.rank, "`rank`", at_least=2)
        if integer(self.iterates, "`iterates`", at_least=2) < self.rank:
            raise ValueError(
                f"`rank` is {self.rank}, but only {self.iterates} iterates are taken in, and each "
                "column of the low-rank part is one of them. Lower `rank`, or take in more."
            )
        if self.learning_rate is not None:
            check_schedule(self.learning_rate, "`learning_rate` of SWAG")
        _check_momentum(self.momentum)

    def _iterates(self) -> tuple[int, float, str]:
        return self.iterates, self.momentum, "none"

    def _collector(self, starts: np.ndarray) -> IterateMoments:
        return IterateMoments(self.rank, self.burn_in)

    def _more_record(self, collector: IterateMoments) -> Mapping[str, Any]:
        return {"iterates": collector.count}

    def _vectors(self, problem: Problem, collector: IterateMoments, dtype: Any) -> np.ndarray:
        if len(collector.deviations) < 2:
            return np.empty((self.members, 0, 0))
        mean, variance = collector.mean.astype(dtype), collector.variance.astype(dtype)
        deviations = np.stack(collector.deviations, axis=1).astype(dtype)
        keys = jax.random.split(problem.key(_DRAWS), (self.members, self.draws))
        parts = [swag_draws(*own) for own in zip(mean, variance, deviations, keys, strict=True)]
        return np.stack([np.asarray(part) for part in parts])


def _check_momentum(momentum: Any) -> None:
    """TypeError unless a number, ValueError unless in [0, 1)."""
    if isinstance(momentum, bool) or not isinstance(momentum, int | float | np.floating):
        raise TypeError(f"`momentum` must be a number, not {momentum!r}.")
    if not 0 <= momentum < 1:
        raise ValueError(f"`momentum` must be at least 0 and below 1, not {momentum}.")
