"""A Gaussian posterior on which minibatch gradients have the same noise everywhere."""

from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

import bayesnn_ppl as bnn
from tests.inference.kernels.known_moments import worst_deviation
from tests.inference.kernels.stationary_distributions import Rows


class NormalMeans:
    """θ ~ N(0, I), rows y ~ N(θ, I): minibatch gradients have the same noise everywhere.

    The rows of `y` are such that it is independent between coordinates, and larger than the
    model believes in the last and smaller in the first.
    """

    rows = 64
    mean = rows / (rows + 1) * np.array([0.3, -1.0, 0.5])
    covariance = np.eye(3) / (rows + 1)
    deviations = np.array([0.5, 1.0, 1.5])  # of the rows

    @staticmethod
    def model(x: Any, y: Any = None, *, batch_size: int | None = None) -> None:
        """θ on the site "theta"."""
        theta = numpyro.sample("theta", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(theta, 1.0).to_event(1), obs=y)

    @classmethod
    def data(cls) -> tuple[Any, Any]:
        """x, which says nothing, and y."""
        noise = np.random.default_rng(0).normal(size=(cls.rows, 3))
        basis = np.linalg.qr(np.column_stack([np.ones(cls.rows), noise]))[0][:, 1:]
        y = np.sqrt(cls.rows) * cls.deviations * basis + np.array([0.3, -1.0, 0.5])
        return np.zeros((cls.rows, 1), np.float32), y.astype(np.float32)

    @classmethod
    def quadratic_rows(cls) -> Rows:
        """Its potentials row by row."""
        matrices = np.broadcast_to((cls.rows + 1.0) * np.eye(3), (cls.rows, 3, 3))
        return Rows(matrices, cls.rows * cls.data()[1].astype(float))

    @classmethod
    def draws(cls, kernel: Any, **settings: Any) -> Any:
        """θ, shape (chain, draw, 3)."""
        common = dict(chains=8, seed=1, progress=False)
        posterior = bnn.sample(kernel, *cls.data(), **(common | settings))
        return posterior.draws["theta"].astype(float)

    @classmethod
    def deviation(cls, kernel: Any, mean: Any, covariance: Any, **settings: Any) -> Any:
        """The worst error of a moment in standard errors, and the variances that were found."""
        theta = cls.draws(kernel, **settings)
        return worst_deviation(theta, mean, covariance), theta.var(axis=(0, 1))
