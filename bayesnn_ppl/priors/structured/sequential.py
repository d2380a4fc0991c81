"""Yesterday's posterior as today's prior."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import near_misses, positive
from bayesnn_ppl.priors.structured.covariances import cholesky_of
from bayesnn_ppl.priors.structured.multivariate import flattened_normal


@dataclass(frozen=True, eq=False)
class _Empirical:
    means: Mapping[str, np.ndarray]
    scales: Mapping[str, np.ndarray]  # standard deviations, or Cholesky factors where `full`
    full: bool

    def __call__(self, name: str, shape: tuple[int, ...]) -> dist.Distribution:
        mean = self.means.get(name)
        if mean is None:
            raise ValueError(
                f"The earlier posterior has no weights for `{name}`. "
                + near_misses(name, self.means)
                + " A table by name can give it another prior."
            )
        if mean.shape != shape:
            raise ValueError(
                f"The earlier posterior's `{name}` has shape {mean.shape}, but this network's has "
                f"shape {shape}: it is of another network, or of other inputs."
            )
        if self.full:
            return flattened_normal(mean.ravel(), self.scales[name], shape)
        return dist.Normal(mean, self.scales[name]).to_event()


def empirical(
    posterior: Any, *, covariance: str = "diagonal", widen: float = 1.0, network: str = "net"
) -> _Empirical:
    """w ~ N(mean, covariance) of an earlier posterior's draws, parameter by parameter.

    Sequential Bayes: p(w | D_1, D_2) ∝ p(D_2 | w) p(w | D_1), with p(w | D_1) replaced by a normal
    of its moments over all chains; different parameters are taken to be independent. Where the
    chains sit in different modes (permuted hidden units) the moments are those of the mixture,
    and the prior is wide. Draws of an earlier run must be tempered as they are meant: a cold
    posterior makes a narrow prior.

    Args:
        posterior: a `Posterior`; one whose run kept only moments has a diagonal.
        covariance: "diagonal", or "full" within each parameter, which needs more draws than the
            parameter has weights.
        widen: factor on the standard deviations; above 1 to forget a little.
        network: the name that `bayesian_network` gave the earlier network.

    Raises:
        TypeError: not a posterior.
        ValueError: no weights were kept, there is no network of this name, weights never moved,
            too few draws for a covariance; or (when the model runs) a parameter that the
            posterior lacks, or one of another shape.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> def tomorrow(model, posterior):
        ...     return bnn.bayesian_network(
        ...         model.network, bnn.priors.empirical(posterior), model.likelihood)

    References:
        Nguyen et al. (2018), arXiv:1710.10628, section 2, for the recursion.
    """
    if not hasattr(posterior, "moments") or not hasattr(posterior, "draws"):
        raise TypeError(f"`empirical` takes a Posterior, not {posterior!r}.")
    if covariance not in ("diagonal", "full"):
        raise ValueError(f'`covariance` must be "diagonal" or "full", not {covariance!r}.')
    widen = positive(widen, "`widen`")
    if covariance == "full" and not posterior.has_weights:
        raise ValueError(
            'The run kept no draws of its weights, and a "full" covariance needs them: use '
            'covariance="diagonal", or sample with the weights kept.'
        )
    found = posterior.draws if covariance == "full" else posterior.moments
    if not found:
        raise ValueError(
            "The run kept neither draws nor moments of its weights, so there is nothing to make "
            'a prior of. Sample with `Keep(weights="moments")` or with the weights kept.'
        )
    prefix = f"{network}."
    mine = {name.removeprefix(prefix): a for name, a in found.items() if name.startswith(prefix)}
    if not mine:
        raise ValueError(
            f"The posterior has no network `{network}`: its variables are "
            f"{', '.join(list(found)[:5])}, ... Give the name as `network=`."
        )
    if covariance == "full":
        return _full(mine, widen)
    means, scales = {}, {}
    for name, (mean, variance) in mine.items():
        means[name] = mean.mean(axis=0)
        scales[name] = widen * np.sqrt((variance + (mean - means[name]) ** 2).mean(axis=0))
        if not (np.isfinite(scales[name]).all() and (scales[name] > 0).all()):
            raise ValueError(
                f"Some weights of `{name}` have no finite, positive variance over the draws: the "
                "chains did not move there, or there is only one draw."
            )
    return _Empirical(means, scales, False)


def _full(draws: Mapping[str, np.ndarray], widen: float) -> _Empirical:
    means, scales = {}, {}
    for name, values in draws.items():
        flat = values.reshape(values.shape[0] * values.shape[1], -1).astype(np.float64)
        if len(flat) <= flat.shape[1]:
            raise ValueError(
                f"`{name}` has {flat.shape[1]} weights and the posterior {len(flat)} draws: a full "
                'covariance needs more draws than weights. Use covariance="diagonal".'
            )
        means[name] = flat.mean(axis=0).reshape(values.shape[2:])
        matrix = np.cov(flat.T).reshape(flat.shape[1], flat.shape[1])
        scales[name] = widen * cholesky_of(matrix, f"The covariance of the draws of `{name}`")
    return _Empirical(means, scales, True)
