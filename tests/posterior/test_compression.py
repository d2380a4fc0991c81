"""Draws chosen in function space: against all subsets, against random ones, and on disk."""

import itertools

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.posterior.compression import support_points

RNG = np.random.default_rng(3)
CHAINS, DRAWS, FEATURES = 2, 40, 3
X = RNG.normal(size=(30, FEATURES)).astype(np.float32)
Y = RNG.normal(size=30).astype(np.float32)


def energy(points, chosen):
    """The definition, with all pairs."""

    def mean_distance(a, b):
        return np.linalg.norm(a[:, None] - b[None], axis=-1).mean()

    some = points[list(chosen)]
    return (
        2 * mean_distance(some, points) - mean_distance(some, some) - mean_distance(points, points)
    )


@pytest.fixture(scope="module")
def posterior():
    """A plane with a learned noise, from draws made by hand."""
    size = (CHAINS, DRAWS)
    draws = {
        "net/Dense_0.kernel": RNG.normal(size=(*size, FEATURES, 1)).astype(np.float32),
        "net/Dense_0.bias": RNG.normal(size=(*size, 1)).astype(np.float32),
        "noise_scale": RNG.gamma(20.0, 0.05, size=size).astype(np.float32),
    }
    attributes = {"latents": list(draws), "precision": "float32", "kernel": "HMC", "draws": DRAWS}
    return bnn.Posterior.from_arrays(
        draws,
        {"lp": np.zeros(size)},
        attributes | {"chains": CHAINS, "kernel_settings": {}, "probe": ["probe.npz", 1]},
        model=bnn.models.linear(),
    )


@pytest.fixture(scope="module")
def small(posterior):
    return posterior.compress(8, X)


def test_the_chosen_are_the_best_of_all_subsets():
    """Of twelve points three; the second best subset would be noticed."""
    for seed in range(4):
        points = np.random.default_rng(seed).normal(size=(12, 2))
        found, value, spread = support_points(points, 3)
        assert len(set(found)) == 3
        assert value == pytest.approx(energy(points, found))
        assert spread == pytest.approx(np.linalg.norm(points[:, None] - points, axis=-1).mean())
        every = sorted(energy(points, c) for c in itertools.combinations(range(12), 3))
        assert value == pytest.approx(every[0], abs=1e-9) or value < every[3]
        greedy = support_points(points, 3, passes=0)[1]
        assert value <= greedy + 1e-12


def test_support_points_are_a_finer_grid_than_random_ones():
    """Means of functions of a normal variable: nearer than those of any hundred random sets."""
    points = np.random.default_rng(0).normal(size=(500, 1))
    chosen, value, spread = support_points(points, 10)
    quantiles = np.quantile(points, (np.arange(10) + 0.5) / 10)
    assert np.abs(np.sort(points[chosen, 0]) - quantiles).max() < 0.25
    subsets = [np.random.default_rng(seed).choice(500, 10, replace=False) for seed in range(100)]
    distances = [energy(points, subset) for subset in subsets]
    assert value < min(distances)
    # What `random_draws` rests on: the expectation over subsets without replacement.
    assert np.mean(distances) == pytest.approx(spread * 490 / (499 * 10), rel=0.2)


def test_equal_points_end():
    points = np.repeat([[0.0], [1.0]], 6, axis=0)
    chosen, value, _ = support_points(points, 4)
    assert sorted(points[chosen, 0]) == [0, 0, 1, 1] and value == pytest.approx(0, abs=1e-12)


def test_draws_keep_their_values_and_say_where_they_are_from(posterior, small):
    chain, draw = (small.statistics[name] for name in ("source_chain", "source_draw"))
    assert chain.shape == draw.shape == (1, 8)
    for name, array in posterior.draws.items():
        np.testing.assert_array_equal(small.draws[name], array[chain, draw])
    run = small.provenance
    assert (run["chains"], run["draws"]) == (1, 8)
    assert run["selection"]["of"] == CHAINS * DRAWS and run["selection"]["rows"] == len(X)
    assert "chosen from 80" in repr(small)


def test_predictions_are_nearer_than_those_of_random_draws(posterior, small):
    """At other rows; each of 40 random selections is further away, but for a few."""
    x = np.random.default_rng(9).normal(size=(200, FEATURES)).astype(np.float32)
    values = posterior.function_values(x)["mean"].reshape(CHAINS * DRAWS, -1)

    def distance(rows):
        mean, sd = values.mean(0), values.std(0)
        return np.mean(((values[rows].mean(0) - mean) / sd) ** 2)

    statistics = small.statistics
    chosen = (statistics["source_chain"] * DRAWS + statistics["source_draw"])[0]
    random = [np.random.default_rng(s).choice(80, 8, replace=False) for s in range(40)]
    assert distance(chosen) < 0.5 * np.mean([distance(rows) for rows in random])
    assert small.provenance["selection"]["random_draws"] > 12


def test_labels_are_compared_by_their_log_odds():
    draws = RNG.normal(size=(1, 60, FEATURES, 3)).astype(np.float32)
    model = bnn.bayesian_network(
        bnn.nn.MLP((), outputs=3), bnn.priors.normal(), bnn.likelihoods.categorical(3)
    )
    sites = {"net/Dense_0.kernel": draws, "net/Dense_0.bias": draws[:, :, 0]}
    attributes = {"latents": list(sites), "precision": "float32", "chains": 1, "draws": 60}
    posterior = bnn.Posterior.from_arrays(sites, {"lp": np.zeros((1, 60))}, attributes, model=model)
    small = posterior.compress(10, X)
    every, few = posterior.predict(X).probabilities, small.predict(X).probabilities
    distance = bnn.metrics.total_variation(few, every)
    flat = posterior.function_values(X)["probability"][0]
    random = [
        bnn.metrics.total_variation(
            flat[np.random.default_rng(s).choice(60, 10, replace=False)].mean(0), every
        )
        for s in range(40)
    ]
    assert distance < 0.8 * np.mean(random)


def test_a_selection_has_no_verdict(posterior, small):
    with pytest.raises(ValueError, match="8 draws were chosen from 80 and say nothing"):
        small.diagnose(X)
    with pytest.raises(ValueError, match="would not turn them into those without a row"):
        bnn.metrics.loo(small, X, Y)
    table = bnn.metrics.compare(
        {"all": posterior, "few": small}, X, Y, reference="all", diagnose=False
    )
    assert table.lines["few"]["wasserstein"] > table.lines["all"]["wasserstein"] == 0
    table = bnn.metrics.compare({"few": small, "fewer": small.compress(4, X)}, X, Y)
    assert {line["status"] for line in table.lines.values()} == {"a selection"}


def test_a_stored_selection_predicts(small, tmp_path):
    small.save(tmp_path / "small")
    again = bnn.load(tmp_path / "small", bnn.models.linear())
    np.testing.assert_array_equal(again.predict(X).mean, small.predict(X).mean)
    np.testing.assert_array_equal(again.statistics["source_draw"], small.statistics["source_draw"])
    assert again.provenance["selection"] == small.provenance["selection"]


def test_a_linearised_fit_keeps_its_mode(tmp_path, regression):
    model = bnn.models.linear()
    fit = bnn.fit(
        bnn.approximations.Laplace(model, mode=bnn.approximations.MAP(model, epochs=5), draws=30),
        *regression,
        progress=False,
    )
    assert fit.provenance["approximation"]["predictive"] == "linearised"
    small = fit.compress(5, regression[0])
    small.save(tmp_path / "small")
    again = bnn.load(tmp_path / "small", model)
    np.testing.assert_allclose(
        again.predict(regression[0]).mean, small.predict(regression[0]).mean, rtol=1e-5
    )
    with pytest.raises(ValueError, match="chosen from 30"):
        small.diagnose()


def test_bad_inputs_are_refused(posterior, small):
    with pytest.raises(ValueError, match="`k`, the number of draws to keep, must be below 80"):
        posterior.compress(80, X)
    with pytest.raises(TypeError, match="must be an integer"):
        posterior.compress(2.5, X)
    with pytest.raises(ValueError, match="loaded without its model"):
        bnn.Posterior(posterior.tree).compress(5, X)
    with pytest.raises(ValueError, match="All 80 draws predict the same"):
        same = {site: np.ones_like(a) for site, a in _by_site(posterior).items()}
        _remade(posterior, same).compress(5, X)
    broken = _by_site(posterior)
    broken["net/Dense_0.bias"] = broken["net/Dense_0.bias"].copy()
    broken["net/Dense_0.bias"][1, 3] = np.nan
    with pytest.raises(ValueError, match="The functions of 1 of 80 draws are not finite"):
        _remade(posterior, broken).compress(5, X)


def _by_site(posterior):
    return posterior.samples(group_by_chain=True)


def _remade(posterior, draws):
    return bnn.Posterior.from_arrays(
        draws, {"lp": np.zeros((CHAINS, DRAWS))}, posterior.provenance, model=posterior.model
    )


def test_members_of_an_ensemble_are_chains_of_one_draw(posterior):
    members = {site: a.reshape(80, 1, *a.shape[2:])[:12] for site, a in _by_site(posterior).items()}
    run = posterior.provenance | {"chains": 12, "draws": 1}
    ensemble = bnn.Posterior.from_arrays(
        members, {"lp": np.zeros((12, 1))}, run, model=posterior.model
    )
    small = ensemble.compress(3, X)
    chain = small.statistics["source_chain"][0]
    assert len(set(chain)) == 3 and (small.statistics["source_draw"] == 0).all()
    kept = ensemble.draws["noise_scale"][chain, 0]
    np.testing.assert_array_equal(small.draws["noise_scale"][0], kept)
