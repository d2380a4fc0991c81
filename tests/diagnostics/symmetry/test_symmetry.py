"""Symmetries of weights: found in networks, taken away from draws, and the function unchanged."""

from itertools import permutations, product

import numpy as np
import pytest
from flax import linen

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import align, canonical_form, find_hidden_layers, function_modes
from bayesnn_ppl.diagnostics.symmetry.unit_moves import rearranged
from tests.diagnostics.symmetry.symmetric_draws import (
    around_one_network,
    moved_at_random,
    named,
    outputs,
    parameters,
    squares,
    worst,
)


class ConvStack(linen.Module):
    """Two convolutions and two dense layers."""

    activation: str
    pool: str
    use_bias: bool = True

    @linen.compact
    def __call__(self, x):
        activate = bnn.nn.activation_function(self.activation)
        pool = bnn.nn.max_pool if self.pool == "max" else bnn.nn.average_pool
        x = pool(activate(bnn.nn.Conv(3, (3, 3), use_bias=self.use_bias)(x)), 2)
        x = activate(linen.Conv(4, (2, 2), use_bias=self.use_bias)(x))
        x = activate(linen.Dense(5, use_bias=self.use_bias)(x.reshape(x.shape[0], 36)))
        return linen.Dense(2)(x)


IMAGE = (6, 6, 2)
# Network, shape of a row, and the scales and signs of its hidden layers.
NETWORKS = {
    "tanh": (bnn.nn.MLP((4, 3), outputs=2), (3,), (False, True)),
    "relu": (bnn.nn.MLP((4, 3), outputs=2, activation="relu"), (3,), (True, False)),
    "swish": (bnn.nn.MLP((4,), activation="swish"), (2, 3), (False, False)),
    "conv relu": (ConvStack("relu", "max"), IMAGE, (True, False)),
    "conv tanh": (ConvStack("tanh", "average", use_bias=False), IMAGE, (False, True)),
}


@pytest.mark.parametrize("case", NETWORKS)
def test_symmetries_are_found_and_equivalent_draws_become_equal(case):
    network, shape, (scales, signs) = NETWORKS[case]
    layers = find_hidden_layers(network, shape)
    assert {(layer.scales, layer.signs) for layer in layers} == {(scales, signs)}
    draws = parameters(network, shape, (2, 5))
    moved = moved_at_random(draws, layers, each_draw=True)
    before = outputs(network, shape, draws)
    settings = {"network": network, "input_shape": shape}
    reference = {name: array[1, 2] for name, array in named(draws).items()}
    for form in (canonical_form, lambda d, **k: align(d, reference=reference, **k)):
        first, second = form(named(draws), **settings), form(named(moved), **settings)
        assert set(first) == set(named(draws))
        np.testing.assert_allclose(outputs(network, shape, second), before, rtol=1e-5, atol=1e-5)
        for name in first:
            # Weight matching is a local search where several layers are far from the reference.
            few = slice(None) if form is canonical_form else (1, 2)
            np.testing.assert_allclose(second[name][few], first[name][few], rtol=1e-6, atol=1e-9)
    # The negative control: these draws are not the same weights.
    assert any(np.abs(moved[name] - draws[name]).max() > 0.1 for name in draws)


def test_lenet_is_understood_and_a_pool_of_maxima_has_no_signs():
    layers = find_hidden_layers(bnn.models.lenet().network, (22, 22, 1))
    assert [(layer.name, layer.units) for layer in layers] == [
        ("Conv_0", 6),
        ("Conv_1", 16),
        ("Conv_2", 120),
        ("Dense_0", 84),
    ]
    assert all(layer.scales and not layer.signs for layer in layers)
    signs = [layer.signs for layer in find_hidden_layers(ConvStack("tanh", "max"), IMAGE)]
    assert signs == [False, True, True]
    assert find_hidden_layers(bnn.nn.MLP((), outputs=2), (3,)) == ()


def test_the_canonical_form_is_what_it_says():
    network, shape, _ = NETWORKS["relu"]
    found = canonical_form(
        named(parameters(network, shape, (1, 6))), network=network, input_shape=shape
    )
    for layer in ("Dense_0", "Dense_1"):
        kernel, bias = found[f"net.{layer}.kernel"], found[f"net.{layer}.bias"]
        np.testing.assert_allclose((kernel**2).sum(axis=2) + bias**2, 1.0)
        assert np.all(np.diff(bias, axis=2) >= 0)
    network, shape, _ = NETWORKS["tanh"]
    found = canonical_form(
        named(parameters(network, shape, (1, 6))), network=network, input_shape=shape
    )
    assert np.all(found["net.Dense_0.bias"] >= 0) and np.all(found["net.Dense_1.bias"] >= 0)
    assert np.all(np.diff(found["net.Dense_1.bias"], axis=2) >= 0)


def test_alignment_of_one_layer_is_the_nearest_of_all_representatives():
    """Beside a search through all 3! · 2³ permutations and signs of a tanh layer."""
    network = bnn.nn.MLP((3,), outputs=1)
    (layer,) = find_hidden_layers(network, (2,))
    draws = parameters(network, (2,), (1, 4))
    reference = {name: array[0, 0] for name, array in named(draws).items()}
    found = align(named(draws), reference=reference, network=network, input_shape=(2,))

    def distances(weights):
        squares = [
            ((array - reference[f"net.{name}"]) ** 2).reshape(len(array), -1).sum(axis=1)
            for name, array in weights.items()
        ]
        return np.sum(squares, axis=0)

    flat = {name: array[0] for name, array in draws.items()}
    ones = np.ones((4, 1))
    least = np.min(
        [
            distances(rearranged(flat, layer, order=(ones * o).astype(int), factor=ones * f))
            for o in permutations(range(3))
            for f in product([-1.0, 1.0], repeat=3)
        ],
        axis=0,
    )
    mine = distances({name: found[f"net.{name}"][0] for name in flat})
    np.testing.assert_allclose(mine, least, rtol=1e-12)
    assert mine[0] == 0 and np.all(distances(flat)[1:] > mine[1:] + 1e-3)


def test_alignment_of_several_layers_is_a_search_that_brings_draws_nearer():
    """Also where noise hides which unit is which, and moved draws may end at another optimum."""
    network = bnn.nn.MLP((6, 5), outputs=1)
    settings = {"network": network, "input_shape": (3,)}
    layers = find_hidden_layers(network, (3,))
    centre = parameters(network, (3,), (), seed=3)
    for spread, most in ((0.1, 1 + 1e-6), (0.5, 1.1)):
        draws = around_one_network(network, (3,), spread, chains=1, count=60)
        before = squares(draws, centre)
        as_drawn = align(named(draws), reference=named(centre), **settings)
        assert np.all(squares(as_drawn, named(centre)) <= before * (1 + 1e-6))
        moved = moved_at_random(draws, layers, each_draw=True)
        assert np.mean(squares(moved, centre) / before) > 2
        found = align(named(moved), reference=named(centre), **settings)
        assert np.mean(squares(found, named(centre)) / before) < most


@pytest.mark.parametrize("each_draw", [False, True])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_moved_draws_of_a_converged_chain_agree_again(activation, each_draw):
    network = bnn.nn.MLP((4, 3), outputs=1, activation=activation)
    settings = {"network": network, "input_shape": (2,)}
    draws = around_one_network(network, (2,))
    moved = moved_at_random(draws, find_hidden_layers(network, (2,)), each_draw=each_draw)
    moved = {name: array.astype(np.float32) for name, array in moved.items()}
    before = outputs(network, (2,), draws)
    if not each_draw:
        assert worst(moved) > 2
    for form in (canonical_form, align):
        found = form(named(moved), **settings)
        assert worst(found) < 1.01
        np.testing.assert_allclose(outputs(network, (2,), found), before, rtol=1e-5, atol=1e-5)
        assert all(found[f"net.{name}"].dtype == np.float32 for name in draws)
    # Aligned, the draws have the spread that they were drawn with.
    if activation == "tanh":
        np.testing.assert_allclose(found["net.Dense_1.kernel"].std(axis=(0, 1)), 0.05, rtol=0.1)


def test_other_functions_do_not_agree():
    """The negative control: a chain about another network stays apart, in each form."""
    network = bnn.nn.MLP((3,), outputs=1)
    draws = around_one_network(network, (2,), count=200)
    other = around_one_network(network, (2,), count=200, seed=4)
    mixed = {name: np.concatenate([array[:3], other[name][:1]]) for name, array in draws.items()}
    for form in (canonical_form, align):
        assert worst(form(named(mixed), network=network, input_shape=(2,))) > 1.5
    values = outputs(network, (2,), mixed).reshape(4, 200, -1)
    modes, distances = function_modes({"mean": values})
    assert modes == ((0, 1, 2), (3,))
    assert distances[0, 1] < 1.02 and distances[0, 3] > 2
