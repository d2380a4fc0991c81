"""Ensembles as the start of chains."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.approximations.trained_networks.ensemble import Ensemble

network = bnn.models.mlp(hidden=(5,))
QUICK = {"epochs": 15, "learning_rate": 0.02}


@pytest.fixture(scope="module")
def starts(regression):
    return Ensemble(**QUICK).starts(network, *regression, chains=4, seed=3, progress=False)


def test_the_members_have_learned_and_differ(starts):
    held = starts.trained.held_out_losses
    assert (starts.trained.best_losses < held[:, 0]).all()
    kernel = starts.values["net/Dense_0.kernel"].reshape(4, -1)
    assert min(np.abs(kernel[i] - kernel[j]).max() for i in range(4) for j in range(i)) > 0.1


def test_decoupled_decay_shrinks_and_the_posterior_needs_none(regression):
    """With the objective's gradient at nought, weights shrink by 1 - rate · decay a step."""
    x, y = regression

    def flat(x, y=None, *, batch_size=None):
        numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(x[:, 0], 1.0), obs=y)

    def slope(weight_decay):
        ensemble = Ensemble(
            learning_rate=0.1,
            weight_decay=weight_decay,
            batch_size=None,
            epochs=5,
            validation_fraction=0.0,
            patience=None,
        )
        return ensemble.starts(flat, x, y, chains=2, seed=0, progress=False).values["slope"]

    np.testing.assert_allclose(slope(0.5), slope(0.0) * (1 - 0.1 * 0.5) ** 5, rtol=1e-5)


def always_bad(x, y=None, *, batch_size=None):
    slope = numpyro.sample("slope", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(jnp.log(-slope) * x[:, 0], 1.0), obs=y)


def test_a_member_that_always_fails_is_named(regression):
    with pytest.raises(RuntimeError, match=r"Members \[0, 1\] .* member 0 .* each of 3 attempts"):
        Ensemble(retries=2, epochs=2).starts(
            always_bad, *regression, chains=2, seed=0, progress=False
        )


def test_a_model_or_a_number_of_members_that_is_not_the_runs(regression):
    options = {"chains": 4, "seed": 3, "progress": False}
    with pytest.raises(ValueError, match="built from another model than the kernel"):
        Ensemble(bnn.models.mlp(hidden=(6,))).starts(network, *regression, **options)
    with pytest.raises(ValueError, match="has 3 members, but the run has 4 chains"):
        Ensemble(members=3).starts(network, *regression, **options)
    same = Ensemble(bnn.models.mlp(hidden=(5,)), members=4, **QUICK)  # an equal model will do
    assert same.starts(network, *regression, **options).trained.seconds["compile"] == 0.0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model": 3}, TypeError, "takes a NumPyro model"),
        ({"members": 0}, ValueError, "`members` must be at least 1"),
        ({"objective": "map"}, ValueError, "`objective` must be one of"),
        ({"learning_rate": -1.0}, ValueError, "`learning_rate` must be finite and not negative"),
        ({"weight_decay": "small"}, TypeError, "`weight_decay` must be a number"),
        ({"optimiser": optax.sgd(0.1), "learning_rate": 0.1}, ValueError, "would be ignored"),
        ({"objective": "posterior", "weight_decay": 0.1}, ValueError, "shrunk twice"),
    ],
)
def test_bad_hyperparameters_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        Ensemble(**options)
