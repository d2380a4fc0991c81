"""Trees that this library did not make, or whose axes are in another order."""

import arviz as az
import numpy as np
import pytest

import bayesnn_ppl as bnn

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 3)).astype(np.float32)


def refused(tree, error=ValueError):
    with pytest.raises(error) as found:
        bnn.Posterior(tree)
    sentence = str(found.value)
    assert "`bayesnn_ppl.diagnostics.diagnose(" in sentence
    assert "`Posterior.from_arrays`" in sentence
    return sentence


def test_a_tree_of_arviz_is_refused_in_words():
    tree = az.from_dict({"posterior": {"theta": RNG.normal(size=(4, 50))}})
    assert "`site_names` is missing in its attribute `bayesnn_ppl`" in refused(tree)
    assert "is a dict, and must be an `xarray.DataTree`" in refused({"posterior": {}}, TypeError)


@pytest.fixture(scope="module")
def posterior():
    draws = {
        "net/Dense_0.kernel": RNG.normal(size=(2, 7, 3, 1)).astype(np.float32),
        "net/Dense_0.bias": RNG.normal(size=(2, 7, 1)).astype(np.float32),
    }
    model = bnn.bayesian_network(
        bnn.nn.MLP((), outputs=1), bnn.priors.normal(), bnn.likelihoods.gaussian(0.3)
    )
    statistics = {"lp": RNG.normal(size=(2, 7))}
    attributes = {"latents": list(draws), "precision": "float32", "chains": 2, "draws": 7}
    return bnn.Posterior.from_arrays(draws, statistics, attributes, model=model)


def test_a_tree_whose_attributes_were_dropped_takes_them_back(posterior):
    tree = posterior.tree.copy()
    tree.attrs.clear()
    assert "`tree.attrs.update(posterior.tree.attrs)`" in refused(tree)
    tree.attrs.update(posterior.tree.attrs)
    again = bnn.Posterior(tree, posterior.model)
    np.testing.assert_array_equal(again.predict(X).mean, posterior.predict(X).mean)


@pytest.mark.parametrize("order", [("draw", "chain", ...), (..., "draw", "chain")])
def test_the_names_of_the_axes_count_and_not_their_order(posterior, order, tmp_path):
    tree = posterior.tree.copy()
    for group in ("posterior", "sample_stats"):
        tree[group].dataset = tree[group].to_dataset().transpose(*order)
    assert tree["sample_stats"]["lp"].shape == (7, 2)
    turned = bnn.Posterior(tree, posterior.model)
    for found, expected in (
        (turned.draws, posterior.draws),
        (turned.statistics, posterior.statistics),
        (turned.function_values(X), posterior.function_values(X)),
        (bnn.load(turned.save(tmp_path / "run")).draws, posterior.draws),
    ):
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values)
    assert tree["sample_stats"]["lp"].shape == (7, 2), "the tree that was given is as it was"
