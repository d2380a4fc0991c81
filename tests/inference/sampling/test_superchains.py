"""Superchains: groups of chains that share a start, and are judged by the nested R-hat."""

import numpy as np
import pytest
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import nested_rhat
from tests.inference.kernels.known_moments import LINEAR

NETWORK = bnn.models.mlp(hidden=3)
FEW = dict(warmup=10, draws=6, chains=6, superchains=3, seed=2, progress=False)


def starts_of(posterior, name="net.Dense_0.kernel"):
    return posterior.tree["starts"][name].values


@pytest.mark.parametrize("init", [None, "network"])
def test_chains_of_a_group_share_a_start_and_nothing_else(regression, init):
    kernel = bnn.kernels.HMC(NETWORK, num_leapfrogs=3)
    posterior = bnn.sample(kernel, *regression, init=init, **FEW)
    starts, draws = starts_of(posterior), posterior.draws["net.Dense_0.kernel"]
    for first in (0, 2, 4):
        np.testing.assert_array_equal(starts[first], starts[first + 1])
        assert not np.isclose(draws[first], draws[first + 1]).all()
    assert not np.isclose(starts[0], starts[2]).any() and not np.isclose(starts[2], starts[4]).any()
    alone = bnn.sample(kernel, *regression, init=init, **FEW | {"superchains": None})
    for first in (0, 2, 4):  # the first of a group starts as ever
        np.testing.assert_array_equal(starts_of(alone)[first], starts[first])
    assert not np.isclose(starts_of(alone)[0], starts_of(alone)[1]).any()


def test_many_short_chains_end_by_the_nested_rhat_and_are_judged_by_it(regression):
    x, y = regression
    kernel = bnn.kernels.ChEES(LINEAR)
    settings = dict(warmup=100, draws=300, chains=64, superchains=8, seed=0, progress=False)
    posterior = bnn.sample(
        kernel, x, y, keep=bnn.Keep(probe=x), until=dict(function_rhat=1.01, ess=400), **settings
    )
    assert posterior.provenance["ended"]["by"] == "convergence"
    values = posterior.function_values()["mean"]
    assert values.shape[1] < 300
    largest = np.max(nested_rhat(values, np.repeat(np.arange(8), 8)))
    verdict = posterior.diagnose()
    assert verdict.functions["mean"]["rhat_max"] == pytest.approx(largest, abs=1e-6)
    assert "largest nested R-hat" in str(verdict) and "8 superchains" in str(verdict)
    assert "chains apart" not in str(verdict)


def test_a_start_that_is_not_forgotten_is_seen(regression):
    kernel = bnn.kernels.RandomWalk(LINEAR, step_size=1e-4, adapt_step_size=False)
    settings = dict(warmup=0, draws=20, chains=32, superchains=4, seed=0, progress=False)
    posterior = bnn.sample(kernel, *regression, keep=bnn.Keep(probe=regression[0]), **settings)
    verdict = posterior.diagnose()
    assert verdict.status == "not converged"
    assert verdict.functions["mean"]["rhat_max"] > 2


def test_a_resumed_run_keeps_its_groups(regression, tmp_path):
    kernel = bnn.kernels.HMC(LINEAR, num_leapfrogs=3)
    whole = bnn.sample(kernel, *regression, **FEW | {"draws": 600})
    part = bnn.sample(
        kernel, *regression, out=tmp_path / "run", callback=lambda p: p.phase == "sample",
        **FEW | {"draws": 600},
    )  # fmt: skip
    assert part.provenance["draws"] < 600
    resumed = bnn.resume(tmp_path / "run", kernel, *regression, progress=False)
    assert resumed.provenance["superchains"] == 3
    for name, values in whole.draws.items():
        np.testing.assert_array_equal(resumed.draws[name], values)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"chains": 10}, ValueError, "10 chains are not 3 superchains of one size.*Ask for 9"),
        ({"superchains": 1}, ValueError, "`superchains` must be at least 2"),
        ({"superchains": 2.5}, TypeError, "`superchains`"),
        ({"init": {"noise_scale": 1.0}}, ValueError, "each group starts at a point drawn for it"),
        ({"cluster": "local", "out": "unused"}, ValueError, "Leave one of the two out"),
    ],
)
def test_what_cannot_be_is_refused(regression, tmp_path, settings, error, words):
    if "out" in settings:
        settings = settings | {"out": tmp_path / "run"}
    with pytest.raises(error, match=words):
        bnn.sample(NUTS(LINEAR), *regression, **FEW | settings)


def test_a_diagnosis_refuses_groups_of_other_sizes():
    values = {"mean": np.random.default_rng(0).normal(size=(6, 20, 2))}
    with pytest.raises(ValueError, match="6 chains are not 4 superchains of equal size"):
        bnn.diagnostics.diagnose(values, {}, {}, superchains=4)
