"""R-hat with and without symmetries, modes in function space, and what is refused."""

import arviz as az
import jax
import numpy as np
import pytest
from flax import linen, nnx

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import (
    align,
    canonical_form,
    find_hidden_layers,
    function_modes,
    symmetry_report,
)
from tests.diagnostics.symmetry.symmetric_draws import around_one_network, moved_at_random


def test_distances_of_functions():
    generator = np.random.default_rng(0)
    values = generator.normal(size=(3, 400, 7)) + np.array([0.0, 1.0, 1.8])[:, None, None]
    modes, distances = function_modes({"mean": values, "sd": np.ones((3, 400, 1))}, limit=1.3)
    np.testing.assert_allclose(distances, distances.T)
    np.testing.assert_allclose(np.diag(distances), 1.0)
    # √(1 + Δ²/2)
    assert distances[0, 1] == pytest.approx(np.sqrt(1.5), abs=0.05)
    assert distances[0, 2] == pytest.approx(np.sqrt(2.62), abs=0.1)
    # What is joined to either of two is joined to the other.
    assert modes == ((0, 1, 2),)
    assert function_modes({"mean": values})[0] == ((0,), (1,), (2,))
    still = np.stack([np.zeros((5, 2)), np.zeros((5, 2)), np.ones((5, 2))])
    assert function_modes({"mean": still})[0] == ((0, 1), (2,))


def test_outputs_count_alike_whatever_their_scales():
    generator = np.random.default_rng(0)
    values = generator.normal(size=(4, 400, 3))
    values[2:, :, 0] += 5
    modes, distances = function_modes({"mean": values})
    assert modes == ((0, 1), (2, 3))
    # √(1 + (5² / 2) / 3): an output of three is 5 standard deviations apart.
    assert distances[0, 2] == pytest.approx(np.sqrt(1 + 25 / 6), abs=0.15)
    scales = np.array([1e-3, 1.0, 100.0])
    found, scaled = function_modes({"mean": 7 + scales * values})
    assert found == modes
    np.testing.assert_allclose(scaled, distances, rtol=1e-9)
    # One that never varies says nothing.
    constant = np.concatenate([values, np.full((4, 400, 20), 0.1)], axis=2)
    np.testing.assert_allclose(function_modes({"mean": constant})[1], distances, rtol=1e-9)


@pytest.mark.parametrize("draws", [50, 501])
def test_the_distance_by_one_output_is_the_rhat_of_two_chains(draws):
    values = np.random.default_rng(0).normal(size=(2, draws, 1))
    values[1] += 0.7
    plain = az.rhat(values[..., 0], method="identity")
    distance = function_modes({"mean": values})[1][0, 1]
    assert distance**2 == pytest.approx(plain**2 + 1 / draws, rel=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_chains_that_are_not_finite_join_no_modes(posterior, monkeypatch, bad):
    values = np.random.default_rng(0).normal(size=(4, 200, 3))
    values[2:] += 4
    assert function_modes({"mean": values})[0] == ((0, 1), (2, 3))
    values[0, 0, 0] = values[3, 17, 2] = bad
    functions = {"sd": np.ones((4, 200, 1)), "mean": values}
    with pytest.raises(ValueError, match=r"`mean` are not finite in chains 0 and 3"):
        function_modes(functions)
    monkeypatch.setattr(type(posterior), "function_values", lambda self, x: functions)
    with pytest.raises(ValueError, match=r"`mean` are not finite in chains 0 and 3"):
        symmetry_report(posterior)


@pytest.fixture(scope="module")
def posterior():
    network = bnn.nn.MLP((4,), outputs=1)
    model = bnn.bayesian_network(network, bnn.priors.normal(1.0), bnn.likelihoods.gaussian(0.1))
    draws = around_one_network(network, (2,), count=250)
    draws = moved_at_random(draws, find_hidden_layers(network, (2,)), each_draw=False)
    sites = {f"net/{name}": array.astype(np.float32) for name, array in draws.items()}
    attributes = {
        "latents": list(sites),
        "precision": "float32",
        "input_shape": [2],
        "chains": 4,
        "draws": 250,
    }
    return bnn.Posterior.from_arrays(sites, {}, attributes, model=model)


def test_the_report(posterior):
    x = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    report = symmetry_report(posterior, x)
    assert report.raw.largest > 2 and report.raw.elements == 17
    for row in (report.functions, report.canonical, report.aligned):
        assert row.largest < 1.03 and row.below_limit == 1.0
    assert report.functions.elements == 6 and report.modes == ((0, 1, 2, 3),)
    text = str(report)
    assert "Dense_0 (4 units: order, signs)" in text
    assert "Modes visited, up to symmetry: 1 (chains 0, 1, 2 and 3)" in text
    assert max(map(len, text.splitlines())) <= 88
    found = canonical_form(posterior)
    assert set(found) == set(posterior.draws)
    cold = bnn.Posterior(posterior.tree, bnn.cold(posterior.model, 0.5))
    np.testing.assert_array_equal(
        align(cold)["net.Dense_0.bias"], align(posterior)["net.Dense_0.bias"]
    )


class Residual(linen.Module):
    """A connection around a layer."""

    @linen.compact
    def __call__(self, x):
        x = jax.nn.relu(linen.Dense(4)(x))
        x = x + jax.nn.relu(linen.Dense(4)(x))
        return linen.Dense(1)(x)


class Shared(linen.Module):
    """One layer used twice."""

    @linen.compact
    def __call__(self, x):
        layer = linen.Dense(3)
        return linen.Dense(1)(jax.nn.relu(layer(jax.nn.relu(layer(x)))))


class Normalised(linen.Module):
    """A layer with parameters between two dense ones, or parameters beside them."""

    own: bool = False

    @linen.compact
    def __call__(self, x):
        x = linen.Dense(3)(x)
        if self.own:
            x = x * self.param("gain", linen.initializers.ones_init(), (3,))
        else:
            x = linen.LayerNorm()(x)
        return linen.Dense(1)(jax.nn.relu(x))


class Linear(linen.Module):
    """Nothing between two layers; the first to be called is the second to be built."""

    @linen.compact
    def __call__(self, x):
        return linen.Dense(1)(linen.Dense(3)(x))


@pytest.mark.parametrize(
    ("network", "shape", "sentence"),
    [
        (Residual(), (3,), "units of `Dense_0` are permuted .* residual connection"),
        (Shared(), (3,), "layer `Dense_0` is used 2 times, with shared weights"),
        (Normalised(), (3,), "layer `LayerNorm_0` is a LayerNorm"),
        (Normalised(own=True), (3,), "parameters of its own"),
        (Linear(), (3,), "no nonlinearity between `Dense_1` and `Dense_0`"),
        (bnn.models.resnet20_frn(depth=8).network, (8, 8, 3), "is a FilterResponseNorm"),
        (bnn.models.cnn_lstm().network, (10,), "does not take rows of decimal numbers"),
    ],
)
def test_networks_of_another_structure_are_refused(network, shape, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        find_hidden_layers(network, shape)
    assert error.match("diagnose")


def test_refusals(posterior):
    network = posterior.model.network
    draws = posterior.draws
    with pytest.raises(TypeError, match="must be a Flax Linen module, not Linear"):
        find_hidden_layers(nnx.Linear(2, 3, rngs=nnx.Rngs(0)), (2,))
    with pytest.raises(ValueError, match="network is not known: give `network`"):
        canonical_form(draws)
    with pytest.raises(ValueError, match="give `input_shape`"):
        canonical_form(draws, network=network)
    with pytest.raises(ValueError, match=r"no variable `other\.Dense_0\.bias`"):
        align(draws, network=network, input_shape=(2,), name="other")
    with pytest.raises(ValueError, match=r"parameter has shape \(3, 4\).*\(chain, draw, 3, 4\)"):
        align(draws, network=network, input_shape=(3,))
    with pytest.raises(ValueError, match=r"`net\.Dense_0\.bias` is missing"):
        align(posterior, reference={"net.Dense_0.kernel": np.ones((2, 4))})
    broken = draws["net.Dense_0.bias"].copy()
    broken[2, 7] = np.nan
    with pytest.raises(ValueError, match="not finite in chain 2"):
        align(draws | {"net.Dense_0.bias": broken}, network=network, input_shape=(2,))
    sites = posterior.provenance["site_names"]
    alone = bnn.Posterior.from_arrays(
        {sites[name]: array[:1] for name, array in draws.items()},
        {},
        {"latents": [], "input_shape": [2]},
        model=posterior.model,
    )
    with pytest.raises(ValueError, match="these are 1 of 250"):
        symmetry_report(alone)
    with pytest.raises(ValueError, match="must be above 1"):
        function_modes({"mean": np.ones((2, 5, 1))}, limit=1.0)
    with pytest.raises(ValueError, match="at least two draws"):
        function_modes({})
