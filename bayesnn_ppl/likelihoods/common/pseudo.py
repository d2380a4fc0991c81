"""Distributions that train by one density and predict by another."""

from typing import Any

import numpyro.distributions as dist


class PseudoLikelihood(dist.Distribution):
    """At the site `"y"`: its `log_prob` trains; `base_dist` predicts and scores.

    Samplers see `log_prob`, which a subclass gives and which need not be a density of anything.
    Predictions, log likelihoods and scores are those of `base_dist`, a distribution of `y`, as
    are support, shape and samples. The subclass's name is in the provenance of a run, as
    `observed`.
    """

    arg_constraints: dict[str, Any] = {}
    pytree_data_fields: tuple[str, ...] = ("base_dist",)
    base_dist: dist.Distribution

    def __init__(self, base_dist: dist.Distribution) -> None:
        self.base_dist = base_dist
        super().__init__(base_dist.batch_shape, base_dist.event_shape)

    @property
    def support(self) -> Any:
        """That of `base_dist`."""
        return self.base_dist.support

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Samples of `base_dist`."""
        return self.base_dist.sample(key, sample_shape)

    @property
    def mean(self) -> Any:
        """That of `base_dist`."""
        return self.base_dist.mean

    @property
    def variance(self) -> Any:
        """That of `base_dist`."""
        return self.base_dist.variance
