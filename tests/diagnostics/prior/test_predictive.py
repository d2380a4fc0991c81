"""Functions drawn from priors: distribution, figures on cases with a known answer, words."""

import json

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from flax import nnx
from numpyro import handlers
from scipy import stats

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import (
    collapse_of,
    compare_priors,
    function_draws,
    function_scale,
    length_scale,
    prior_predictive,
)
from bayesnn_ppl.diagnostics.prior.functions import draw_functions
from bayesnn_ppl.diagnostics.prior.traced_model import key_of_draw

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)


def model_of(sample_y, sites=None):
    """A model of the model contract that draws w ~ N(0, 2²), b ~ N(0, 1), and then y."""

    def model(x, y=None, *, batch_size=None):
        w = numpyro.sample("w", dist.Normal(0, 2))
        b = numpyro.sample("b", dist.Normal(0, 1))
        if sites is not None:
            sites()
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", sample_y(w * x[:, 0] + b), obs=y)

    return model


LINE = model_of(lambda f: dist.Normal(f, 0.5))


def calling(wrap=lambda net: net):
    """A model written by hand around a network."""
    network = bnn.nn.MLP((4,), activation="relu")

    def model(x, y=None, *, batch_size=None):
        net = wrap(bnn.random_network("net", network, dist.Normal(0, 1), x[:1]))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.StudentT(1.0, net(x), 0.5), obs=y)

    return model


# The distribution of the draws.


def test_draws_follow_the_prior():
    """f(x) = w x + b ~ N(0, 4x² + 1); of 4000 draws the false-alarm probability is 1e-7."""
    x = np.array([[0.0], [1.5]], np.float32)
    found = function_draws(LINE, x, draws=4000)
    assert found.shape == (4000, 2)
    for column, point in zip(found.T, x[:, 0], strict=True):
        sd = np.sqrt(4 * point**2 + 1)
        assert stats.kstest(column / sd, "norm").pvalue > 1e-7
        assert stats.kstest(column / (1.3 * sd), "norm").pvalue < 1e-7


def test_a_draw_depends_on_nothing_but_seed_and_number():
    few, many = function_draws(LINE, X, draws=3), function_draws(LINE, X[:5], draws=70)
    np.testing.assert_allclose(few[:, :5], many[:3], rtol=1e-6)
    assert len(np.unique(many[:, 0])) == 70
    assert not np.isin(function_draws(LINE, X, draws=3, seed=1), few).any()


def test_blocks_of_rows_change_nothing():
    model = bnn.models.mlp(hidden=(4,), activation="relu")
    whole = draw_functions(model, X, draws=3)
    parts = draw_functions(model, X, draws=3, memory=8000)
    for name in ("functions", "noise", "ends", "distances"):
        np.testing.assert_allclose(getattr(whole, name), getattr(parts, name), rtol=1e-4, atol=1e-5)
    # The last block holds points of lines too, so that the layers are read at fewer rows.
    assert [layer.name for layer in parts.layers] == ["Dense_0", "Dense_1"]
    assert parts.layers[0].sd == pytest.approx(whole.layers[0].sd, rel=0.3)


# Figures on cases with a known answer.


def test_the_size_of_functions():
    """Lines w x + b at x = 0, 1, 2: constants have variance w² + b², changes w² · 2/3."""
    w, b = np.array([3.0, -3.0]), np.array([1.0, -1.0])
    found = function_scale(w[:, None] * np.arange(3) + b[:, None])
    assert found.offset_sd**2 == pytest.approx((3 + 1) ** 2)
    assert found.change_sd**2 == pytest.approx(9 * 2 / 3)
    assert found.sd**2 == pytest.approx(found.offset_sd**2 + found.change_sd**2)
    assert found.constant_share == pytest.approx(16 / 22)
    assert function_scale(np.zeros((2, 3))).constant_share == 1


@pytest.mark.parametrize("true", [0.5, 2.0])
def test_length_scale_of_a_gaussian_process_is_its_own(true):
    """Random Fourier features have the covariance exp(-r²/2ℓ²); crossings are counted too.

    The relative standard error of λ is 0.011 (of ten seeds), that of the count 0.01.
    """
    generator = np.random.default_rng(1)
    draws, features, length = 2000, 300, 4.0
    omega = generator.normal(size=(draws, features)) / true
    phase = generator.uniform(0, 2 * np.pi, (draws, features))
    amplitude = generator.normal(size=(draws, features))

    def f(x):
        return np.einsum(
            "sf,sfn->sn", amplitude, np.cos(omega[:, :, None] * x[:, None] + phase[:, :, None])
        )

    middle = generator.uniform(0.1, 0.9, (draws, 1)) * length
    ends = np.stack([f(middle - 0.02), f(middle + 0.02)], axis=1)
    found = length_scale(ends, np.full((draws, 1), length), step=0.04 / length)
    assert found.value == pytest.approx(true, rel=0.07)
    assert found.value != pytest.approx(1.2 * true, rel=0.07)
    line = np.stack([f(np.full((draws, 1), place)) for place in np.linspace(0, length, 81)], axis=1)
    counted = (np.diff(np.sign(line[..., 0]), axis=1) != 0).sum(axis=1).mean()
    assert found.crossings == pytest.approx(counted, rel=0.1)


def test_classes():
    logits = np.full((2, 4, 3), -20.0)
    logits[0, :, 1] = 20  # one class for all inputs
    logits[1, [0, 1, 2, 3], [0, 0, 1, 2]] = 20
    found = collapse_of(logits)
    np.testing.assert_allclose(found.shares, [[0, 1, 0], [0.5, 0.25, 0.25]])
    np.testing.assert_allclose(found.probabilities, found.shares, atol=1e-6)
    np.testing.assert_allclose(found.largest, [1, 0.5])
    np.testing.assert_allclose(found.average, [0.25, 0.625, 0.125], atol=1e-6)
    assert found.confidence == pytest.approx(1)
    assert found.effective_classes == pytest.approx((1 + np.exp(1.5 * np.log(2))) / 2)
    # Logits next to nothing choose the same classes with next to no probability.
    mild = collapse_of(1e-3 * logits)
    np.testing.assert_allclose(mild.shares, found.shares)
    np.testing.assert_allclose(mild.probabilities, 1 / 3, atol=0.01)
    with pytest.raises(ValueError, match=r"must be \(draws, inputs, classes\)"):
        collapse_of(logits[..., :1])


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_layers_equal_those_computed_by_hand(activation):
    net = bnn.nn.MLP((5, 4), outputs=1, activation=activation)
    model = bnn.bayesian_network(net, bnn.priors.normal(2.0), bnn.likelihoods.gaussian(1.0))
    found = prior_predictive(model, X, draws=2)
    assert [layer.name for layer in found.layers] == ["Dense_0", "Dense_1", "Dense_2"]
    act = np.tanh if activation == "tanh" else lambda h: np.maximum(h, 0)

    @jax.jit
    def weights(key):
        trace = handlers.trace(handlers.seed(model, key)).get_trace(X)
        return {name: site["value"] for name, site in trace.items() if name.startswith("net/")}

    sums = {name: [] for name in ("h", "common", "saturated", "dead")}
    for draw in range(2):
        value = weights(key_of_draw(jax.random.key(0), draw))
        h = X @ value["net/Dense_0.kernel"] + value["net/Dense_0.bias"]
        h = act(h) @ value["net/Dense_1.kernel"] + value["net/Dense_1.bias"]
        sums["h"].append(h)
        sums["common"].append(np.square(h.mean(0)).mean())
        sums["saturated"].append((np.abs(np.tanh(h)) > 0.99).mean())
        sums["dead"].append((h <= 0).all(axis=0).mean())
        f = act(h) @ value["net/Dense_2.kernel"] + value["net/Dense_2.bias"]
        np.testing.assert_allclose(found.functions[draw], f[:, 0], rtol=1e-4, atol=1e-4)
    layer = found.layers[1]
    assert layer.sd == pytest.approx(np.std(sums["h"]), rel=1e-3)
    assert layer.common == pytest.approx(
        np.mean(sums["common"]) / np.square(sums["h"]).mean(), rel=1e-3
    )
    if activation == "tanh":
        assert layer.saturated == pytest.approx(np.mean(sums["saturated"]), abs=1e-6)
        assert 0 < layer.saturated < 1 and layer.dead is None
    else:
        assert layer.dead == pytest.approx(np.mean(sums["dead"]), abs=1e-6)
        assert layer.saturated is None
    assert found.layers[2].saturated is None and found.layers[2].dead is None


# Models of all kinds.


def test_layers_are_read_in_any_model_with_a_linen_network():
    found = prior_predictive(calling(), X, draws=4)
    assert [layer.name for layer in found.layers] == ["Dense_0", "Dense_1"]
    assert found.layers[0].dead is not None
    assert np.isfinite(found.functions).all()  # the centre of a t that has no mean


def test_where_layers_cannot_be_read_it_says_so():
    class Net(nnx.Module):
        def __init__(self):
            self.layer = nnx.Linear(3, 1, rngs=nnx.Rngs(0))

        def __call__(self, x):
            return self.layer(x)

    model = bnn.bayesian_network(Net(), bnn.priors.normal(), bnn.likelihoods.gaussian())
    for found, why in (
        (prior_predictive(model, X, draws=2), "the model has no Flax Linen network"),
        (prior_predictive(calling(jax.jit), X, draws=2), "inside a transformation of JAX"),
    ):
        assert found.layers == () and why in found.no_layers
        assert f"not read: {found.no_layers}" in " ".join(str(found).split())


def test_tokens_have_no_lines_between_them():
    def model(x, y=None, *, batch_size=None):
        logits = numpyro.sample("logits", dist.Normal(0, 1).expand([7]).to_event(1))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Bernoulli(logits=logits[x[:, 0]]), obs=y)

    found = prior_predictive(model, np.arange(6)[:, None], draws=5)
    assert found.length is None and found.classes.classes == 2
    assert found.functions.shape == (5, 6)
    share = (found.functions > 0).mean(axis=1)
    np.testing.assert_allclose(found.classes.shares[:, 1], share)


def test_a_temperature_does_not_enter():
    np.testing.assert_array_equal(
        function_draws(LINE, X, draws=2), function_draws(bnn.cold(LINE, 0.1), X, draws=2)
    )


# What it says.


def classifier(depth, prior):
    return bnn.bayesian_network(
        bnn.nn.MLP((20,) * depth, outputs=4, activation="relu"),
        prior,
        bnn.likelihoods.categorical(4),
    )


def test_a_prior_that_collapses_and_one_that_does_not():
    deep = classifier(4, bnn.priors.normal())
    even = classifier(0, {"*.bias": dist.Normal(0, 1e-3), "*": dist.Normal(0, 1)})
    both = compare_priors({"deep": deep, "even": even}, X, draws=60)
    found = both.results["deep"]
    assert found.status in ("collapsed", "leaning") and both.results["even"].status == "spread"
    share = np.median(found.classes.largest)
    assert share > np.median(both.results["even"].classes.largest) + 0.2
    assert "of the inputs in one class" in found.verdict
    assert "Reduce the part that is the same for all inputs" in found.verdict
    assert "grow with depth" in found.verdict
    assert "No collapse" in both.results["even"].verdict
    assert "`even` is spread" in both.verdict
    text = str(both)
    assert max(map(len, text.splitlines())) <= 88 and "dead relu units, worst layer" in text
    assert both.to_dict()["results"]["deep"]["classes"]["largest_median"] == share


def test_the_report():
    model = bnn.models.mlp(hidden=(8, 8), prior=bnn.priors.normal(30.0))
    found = prior_predictive(model, X, draws=20)
    title, blank, *lines = str(found).splitlines()
    assert title == f"Prior predictive: {found.status}" and blank == ""
    assert " ".join(" ".join(lines).split()).startswith(found.verdict)
    assert max(map(len, lines)) <= 88
    assert "with noise of sd" in found.verdict and found.layers[0].saturated > 0.8
    assert "of the tanh units are saturated (|tanh| > 0.99)" in found.verdict
    told = json.loads(found.to_json())
    assert told["draws"] == 20 and told["rows"] == len(X) and told["classes"] is None
    assert told["scale"]["sd"] == pytest.approx(found.scale.sd)
    assert [layer["name"] for layer in told["layers"]] == ["Dense_0", "Dense_1", "Dense_2"]


def test_words_for_constants_and_for_wild_functions():
    flat = prior_predictive(model_of(lambda f: dist.Normal(1e-3 * f + 9 * f[0], 1.0)), X, draws=20)
    assert flat.status == "flat" and "almost a constant: 99." in flat.verdict
    assert "If the targets are standardised" in flat.verdict
    rough = prior_predictive(
        model_of(lambda f: dist.Normal(jax.numpy.sin(30 * f), 1.0)), X, draws=60
    )
    assert rough.status == "rough" and "are almost independent" in rough.verdict


def test_values_that_are_not_finite_are_counted_and_left_out():
    model = model_of(lambda f: dist.Normal(jax.numpy.where(f[0] > 0, f, 1 / (0 * f)), 1.0))
    found = prior_predictive(model, X, draws=40)
    good = np.isfinite(found.functions).all(axis=1)
    assert found.broken == 40 - good.sum() and 0 < good.sum() < 40
    assert found.scale.sd == pytest.approx(function_scale(found.functions[good]).sd)
    assert f"{found.broken} of 40 draws have function values that are not finite" in found.verdict
    none = prior_predictive(model_of(lambda f: dist.Normal(f / (0 * f), 1.0)), X, draws=3)
    assert none.status == "not finite" and none.scale is None
    assert json.loads(none.to_json())["broken"] == 3 and "not finite" in str(none)


class Undrawn(dist.Normal):
    @property
    def mean(self):
        raise NotImplementedError

    def sample(self, key, sample_shape=()):
        raise NotImplementedError


def without_plate(x, y=None, *, batch_size=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([4]).to_event(1))
    numpyro.sample("y", dist.Normal(w, 1.0), obs=y)


def improper():
    numpyro.sample("s", dist.ImproperUniform(dist.constraints.real, (), ()))


@pytest.mark.parametrize(
    ("model", "x", "message"),
    [
        (model_of(lambda f: dist.Normal(f, 1.0), improper), X, "An improper prior has no draws"),
        (
            model_of(lambda f: dist.Normal(f, 1.0), lambda: numpyro.factor("f", 1.0)),
            X,
            "The model adds `f` to its log density",
        ),
        (lambda x, y=None: numpyro.sample("z", dist.Normal()), X, 'no observed site "y"'),
        (lambda x, y=None: numpyro.sample("y", dist.Normal(x[:, 0], 1.0)), X, "it has no prior to"),
        (without_plate, X, "but `x` has 12 rows"),
        (model_of(lambda f: Undrawn(f, 1.0)), X, "Undrawn, cannot be drawn from"),
        (LINE, X[:1], "`x` has a single row"),
        (LINE, [[np.nan, 1.0]] * 2, "are not finite"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals(model, x, message, compilations):
    before = compilations()
    with pytest.raises(ValueError, match=message):
        prior_predictive(model, x, draws=2)
    assert compilations() - before <= 1  # the key's, in a fresh process
