"""Dropout against closed forms on a linear layer, where means over masks are known."""

import json
from itertools import product

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from flax import linen, nnx
from numpyro import handlers
from scipy.optimize import minimize

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.approximations.trained_networks.dropout_model import (
    DropoutModel,
    Layer,
)

Dropout = bnn.approximations.Dropout
RATE, NOISE, PRIOR, TEMPERATURE = 0.3, 0.5, 0.15, 2.0


def linear(noise=NOISE, prior=PRIOR, temperature=TEMPERATURE):
    return bnn.bayesian_network(
        bnn.nn.MLP(hidden=(), outputs=1),
        bnn.priors.normal(prior),
        bnn.likelihoods.gaussian(noise),
        temperature=temperature,
    )


def trained(model, data, **settings):
    common = dict(optimiser=optax.adam(0.01), batch_size=10, epochs=3000, start="prior")
    return bnn.fit(Dropout(model, **(common | settings)), *data, progress=False)


@pytest.fixture(scope="module")
def fitted(regression):
    return trained(linear(), regression, rate=RATE, draws=4000)


def points(fitted, rate=RATE):
    """M and b: what is left of a draw's kernel is M/(1-p)."""
    kernel = fitted.draws["net.Dense_0.kernel"][0, :, :, 0].astype(float)
    largest = np.abs(kernel).argmax(0)
    chosen = kernel[largest, np.arange(kernel.shape[1])] * (1 - rate)
    return chosen, fitted.draws["net.Dense_0.bias"][0, 0].astype(float)


def optimum(x, y, *, rate=RATE, temperature=TEMPERATURE, data=None, prior=None, counted=1.0):
    """The weights at which dropout's objective on the linear model is least.

    Args:
        x, y, rate, temperature: of the problem.
        data: p/(1-p), by which the inputs' squares are added to the data's part.
        prior: 1/(1-p), by which the prior's part is multiplied.
        counted: how often the prior counts.
    """
    data = rate / (1 - rate) if data is None else data
    prior = 1 / (1 - rate) if prior is None else prior
    phi = np.column_stack([x, np.ones(len(x))]).astype(float)
    weight = 1 / (NOISE**2 * temperature)
    masked = np.array([1.0, 1.0, 0.0])
    added = weight * data * masked * np.square(phi).sum(0)
    decay = counted * np.where(masked > 0, prior, 1.0) / PRIOR**2
    return np.linalg.solve(weight * phi.T @ phi + np.diag(added + decay), weight * phi.T @ y)


def test_the_trained_weights_are_the_optimum_in_closed_form(fitted, regression):
    found = np.concatenate(points(fitted))
    exact = optimum(*regression)
    np.testing.assert_allclose(found, exact, atol=0.01)
    # Negative controls: masks that training does not see, a prior at M and not at M diag(z), one
    # that counts once a minibatch and not once in all, and a temperature applied twice or never.
    wrongs = {
        "no masks": optimum(*regression, data=0.0),
        "prior at M": optimum(*regression, prior=1.0),
        "prior of a minibatch": optimum(*regression, counted=4.0),
        "tempered twice": optimum(*regression, temperature=TEMPERATURE**2),
        "not tempered": optimum(*regression, temperature=1.0),
    }
    for name, wrong in wrongs.items():
        assert np.abs(wrong - exact).max() > 0.02, name


def test_predictions_have_the_moments_of_live_masks(fitted, regression):
    x = regression[0][:8].astype(float)
    weights, bias = points(fitted)
    factors = np.array(list(product([0.0, 1 / (1 - RATE)], repeat=2)))
    chances = np.where(factors > 0, 1 - RATE, RATE).prod(1)
    outputs = (factors * weights) @ x.T + bias  # (masks, rows)
    mean = chances @ outputs
    variance = chances @ (outputs - mean) ** 2
    fourth = chances @ (outputs - mean) ** 4
    np.testing.assert_allclose(mean, x @ weights + bias, atol=1e-12)
    closed = RATE / (1 - RATE) * np.square(x * weights).sum(1)
    np.testing.assert_allclose(variance, closed, rtol=1e-9)

    def error(values):
        """Of mean and variance over draws (draws, rows), in standard errors."""
        count = len(values)
        first = np.abs(values.mean(0) - mean) / np.sqrt(variance / count)
        second = np.abs(values.var(0) - variance) / np.sqrt((fourth - variance**2) / count)
        return max(first.max(), second.max())

    values = fitted.function_values(x)["mean"][0].astype(float)
    assert error(values) < 4.5
    prediction = fitted.predict(x)
    np.testing.assert_allclose(prediction.epistemic, values.var(0), rtol=1e-3)
    # A mask that is frozen: the same in all draws.
    frozen = np.repeat(values[:1], len(values), axis=0)
    assert error(frozen) > 6 and frozen.var(0).max() == 0


def test_each_row_of_a_minibatch_has_a_mask_of_its_own():
    model = DropoutModel(linear(), (Layer("Dense_0", "net/Dense_0.kernel", 2),), (0.5,))
    values = {
        "net/Dense_0.kernel": np.array([[1.0], [10.0]], np.float32),
        "net/Dense_0.bias": np.zeros(1, np.float32),
    }
    x = np.ones((64, 2), np.float32)

    def means(seed):
        seeded = handlers.seed(handlers.substitute(model, data=values), jax.random.key(seed))
        trace = handlers.trace(seeded).get_trace(x, np.zeros(64, np.float32))
        return np.asarray(trace["y"]["fn"].mean)

    assert set(means(0).tolist()) == {0.0, 2.0, 20.0, 22.0}  # every mask, among 64 rows
    assert (means(0) != means(1)).any()


def test_concrete_rates_are_those_of_the_objective(regression):
    """Against the least value of the objective in weights and rate; the masks are relaxed there."""
    x, y = regression
    noise, prior = 1.5, 0.5
    model = linear(noise, prior, 1.0)
    found = trained(model, regression, rate="concrete", draws=2000, epochs=4000)
    phi = np.column_stack([x, np.ones(len(x))]).astype(float)

    def objective(theta, entropy=1.0, counted=1.0):
        *weights, logit = theta
        weights, p = np.array(weights), 1 / (1 + np.exp(-logit))
        odds = p / (1 - p)
        fit = np.sum((y - phi @ weights) ** 2)
        fit += odds * np.sum(np.square(phi[:, :2]).sum(0) * weights[:2] ** 2)
        decay = np.sum(weights[:2] ** 2) / (1 - p) + weights[2] ** 2
        masks = -2 * (p * np.log(p) + (1 - p) * np.log1p(-p))
        return fit / (2 * noise**2) + counted * (decay / (2 * prior**2) - entropy * masks)

    def rate(*wrong):
        least = minimize(objective, np.array([0.3, 0.3, 0.0, -1.0]), args=wrong, tol=1e-10)
        return 1 / (1 + np.exp(-least.x[3]))

    record = json.loads(json.dumps(found.provenance["approximation"]))
    learned = record["dropout_rates"]["Dense_0"]
    assert learned == pytest.approx(rate(), abs=0.05)
    assert rate(0.0) < 0.01  # without the entropy
    assert abs(rate(1.0, 4.0) - rate()) > 0.1  # prior and entropy once a minibatch
    dropped = (found.draws["net.Dense_0.kernel"] == 0).mean()
    assert dropped == pytest.approx(learned, abs=4.5 * np.sqrt(0.25 / 4000))
    assert set(found.draws) == {"net.Dense_0.kernel", "net.Dense_0.bias"}


class Convolutional(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.relu(bnn.nn.Conv(3, (2, 2))(x))
        x = linen.relu(linen.Conv(4, (2, 2))(x))
        return linen.Dense(1)(x.mean((1, 2)))


def test_channels_of_convolutions_are_dropped_and_named_layers_alone(regression):
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(12, 4, 4, 2)).astype(np.float32), regression[1][:12]
    model = bnn.bayesian_network(
        Convolutional(), bnn.priors.fan_in_normal(), bnn.likelihoods.gaussian(0.5)
    )
    rate = {"Conv_0": 0.5, "Conv_1": 0.4}
    found = bnn.fit(Dropout(model, rate=rate, epochs=3, draws=40), x, y, progress=False)
    assert found.provenance["approximation"]["dropout_rates"] == rate
    for name, shape in (("Conv_0", (2, 2, 2, 3)), ("Conv_1", (2, 2, 3, 4))):
        kernel = found.draws[f"net.{name}.kernel"]
        assert kernel.shape == (1, 40, *shape)
        zero = kernel == 0
        assert (zero.all((2, 3, 5)) == zero.any((2, 3, 5))).all()
        assert 0.2 < zero.mean() < 0.7
    dense = found.draws["net.Dense_0.kernel"]
    assert (dense == dense[:, :1]).all() and (dense != 0).all()
    assert found.predict(x).epistemic.min() > 0


def test_without_dropping_all_draws_are_one_and_a_short_training_is_told(regression):
    network = bnn.models.mlp(hidden=(4,))
    plain = bnn.fit(Dropout(network, rate=0.0, epochs=5, draws=3), *regression, progress=False)
    assert plain.predict(regression[0]).epistemic.max() < 1e-10
    assert "still falling" in plain.diagnose().verdict


def by_hand(x, y=None, *, batch_size=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(slope * x[:, 0], 1.0), obs=y)


def positive_weights(name, shape):
    return dist.HalfNormal(1.0).expand(shape).to_event()


POSITIVE = bnn.priors.constrained(positive_weights)


class Grouped(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Conv(2, (1,), feature_group_count=2)(x[:, None]).sum((1, 2), keepdims=True)[
            :, 0
        ]


def network(module, prior=None):
    prior = bnn.priors.normal(1.0) if prior is None else prior
    return bnn.bayesian_network(module, prior, bnn.likelihoods.gaussian(0.5))


@pytest.mark.parametrize(
    ("model", "options", "error", "words"),
    [
        (linear(), {"rate": 1.0}, ValueError, "below 1, not 1.0"),
        (linear(), {"rate": "learned"}, ValueError, 'or "concrete", not'),
        (linear(), {"rate": True}, TypeError, "`rate` must be a number"),
        (linear(), {"rate": {}}, ValueError, "names no layer"),
        (linear(), {"rate": {"Dense_7": 0.1}}, ValueError, "Did you mean `Dense_0`"),
        (linear(), {"draws": 0}, ValueError, "`draws` must be at least 1"),
        (linear(), {"rate": "concrete", "objective": "likelihood"}, ValueError, "would go to 0"),
        (by_hand, {}, ValueError, "no layer to work on"),
        (network(bnn.nn.MLP((), outputs=1), POSITIVE), {}, ValueError, "over all numbers"),
        (network(Grouped()), {}, ValueError, "has groups"),
        (network(nnx.Linear(2, 1, rngs=nnx.Rngs(0))), {}, ValueError, "no layer to work on"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(model, options, error, words, regression):
    with pytest.raises(error, match=words):
        bnn.fit(Dropout(model, **options), *regression, progress=False)
