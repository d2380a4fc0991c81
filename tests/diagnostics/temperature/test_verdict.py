"""Right samplers pass, and of broken ones the layer and the cause are named."""

import json

import numpy as np
import pytest

from bayesnn_ppl.core.wording import plain
from bayesnn_ppl.diagnostics import Thermometry, diagnose, judge_temperatures
from bayesnn_ppl.diagnostics.temperature.estimators import configurational_series
from tests.diagnostics.temperature.euler_chains import (
    BIAS,
    CUTS,
    LAST,
    NAMES,
    PRECISION,
    PRIOR,
    SIZES,
    run,
    split,
)


def read(chain, *, temperature=1.0, kinetic=True, positions=True, chains=slice(None), **more):
    """The temperatures of a run, T_C with the gradient of the right U."""
    theta = chain.positions[chains]
    series = [
        configurational_series(part, force)
        for part, force in zip(
            np.split(theta, CUTS, -1), np.split(PRECISION * theta, CUTS, -1), strict=True
        )
    ]
    return judge_temperatures(
        NAMES,
        SIZES,
        temperature=temperature,
        kinetic=chain.kinetic[chains] if kinetic else None,
        configurational=np.stack(series, -1) if positions else None,
        kinetic_distribution="symplectic Euler" if kinetic else "none",
        momentum_decay=0.9,
        frozen=[n for n, part in split(theta).items() if not np.ptp(part, axis=1).any()],
        kernel="SGHMC",
        **more,
    )


def statuses(found):
    return {array.name: array.status for array in found.arrays}


@pytest.mark.check
def test_right_samplers_are_found_wrong_in_less_than_one_run_of_a_hundred():
    """200 runs of 4 chains; each has 8 readings of arrays of 1 to 40 elements."""
    chain = run(0, chains=800, draws=200, steps=10, burn_in=40)
    counts = {}
    for index in range(200):
        for settings in ({}, {"kinetic": False}, {"positions": False}):
            found = read(chain, chains=slice(4 * index, 4 * index + 4), **settings)
            wrong = found.status not in ("right", "not known")
            key = (tuple(settings), wrong)
            counts[key] = counts.get(key, 0) + 1
    assert all(not wrong or count <= 1 for (_, wrong), count in counts.items())


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_right(temperature):
    chain = run(1, temperature=temperature)
    found = read(chain, temperature=temperature)
    assert found.right and "All 4 parameter arrays are right" in found.verdict
    for settings in ({"kinetic": False}, {"positions": False}):
        assert read(chain, temperature=temperature, **settings).right
    # Negative control: the temperature it was not run at.
    assert read(chain, temperature=2 * temperature).status == "too cold"


def test_noise_without_the_root_of_two_is_too_cold_everywhere():
    found = read(run(2, noise=0.5**0.5))
    assert set(statuses(found).values()) == {"too cold"}
    assert "All 4 parameter arrays are too cold" in found.verdict
    assert "noise is too weak" in found.verdict and "the force is right" in found.verdict


def test_momenta_that_are_not_refreshed_keep_their_chains_apart():
    found = read(run(3, refreshed=False, spread=3.0))
    assert not found.right and found.status != "not known"
    assert "are the momenta refreshed" in found.verdict
    # Begun at the right energy they are not hot, but each chain keeps its own temperature.
    found = read(run(3, refreshed=False))
    assert not found.right and "the momenta are not refreshed" in " ".join(
        found.verdict.split()
    ).replace("Either the", "the")


def test_old_momentum_is_too_hot():
    right, wrong = (
        read(run(4, step_size=0.005, draws=200, steps=40, old_momentum=old))
        for old in (False, True)
    )
    assert right.right
    assert wrong.status == "too hot" and wrong.arrays[0].configurational.lower > 1.1


def test_gradient_counted_twice_in_one_layer_names_it():
    force = PRECISION.copy()
    force[BIAS] *= 2
    found = read(run(5, force=force))
    assert found.status == "too cold"
    assert [n for n, s in statuses(found).items() if s != "right"] == ["net.Dense_0.bias"]
    assert "`net.Dense_0.bias` is too cold in position" in found.verdict
    assert "about 2 times the model's gradient" in found.verdict
    # The momenta alone cannot see it.
    assert read(run(5, force=force), positions=False).right


def test_forgotten_prior_in_one_layer_names_it():
    force = PRECISION.copy()
    force[LAST] -= PRIOR[LAST]
    found = read(run(6, force=force))
    assert found.status == "too hot"
    assert [n for n, s in statuses(found).items() if s != "right"] == ["net.Dense_1.kernel"]
    assert "forgotten prior" in found.verdict


def test_frozen_layer_is_named():
    found = read(run(7, frozen=BIAS))
    assert found.status == "frozen"
    assert [n for n, s in statuses(found).items() if s != "right"] == ["net.Dense_0.bias"]
    assert "`net.Dense_0.bias` does not move" in found.verdict


def test_too_long_a_step_says_by_how_much():
    found = read(run(8, step_size=0.15))
    assert found.status == "too hot" and "Lower the step size at least" in found.verdict
    assert read(run(8, step_size=0.15 * found.step_factor)).right
    # And of far too short a one that there is room.
    short = read(run(8, chains=80, step_size=0.001, draws=100, steps=60), positions=False)
    assert short.right and short.step_factor > 1.5


def test_minibatch_noise_is_heat_with_the_right_force():
    found = read(run(9, gradient_noise=3.0))
    assert found.status == "too hot" and "minibatch gradients too noisy" in found.verdict


def test_two_faults_are_both_named():
    force = PRECISION.copy()
    force[LAST] -= PRIOR[LAST]
    found = read(run(10, force=force, frozen=BIAS))
    assert found.status == "wrong"
    assert statuses(found)["net.Dense_0.bias"] == "frozen"
    assert statuses(found)["net.Dense_1.kernel"] == "too hot"


def test_too_few_draws_are_not_known():
    found = read(run(11, draws=12, steps=5))
    assert found.status == "not known" and "too wide" in found.verdict


@pytest.mark.parametrize(("noise", "word"), [(0.5**0.5, "cold"), (1.5, "hot")])
def test_only_kernels_that_inject_noise_are_judged_by_it(noise, word):
    """The same readings: of an accept step they are not a fault, of neither none of the noise."""
    chain = run(2, noise=noise)
    injects = read(chain, kinetic=False)
    assert injects.status == f"too {word}" and "noise" in injects.verdict
    accepts = read(chain, kinetic=False, dynamics="accept step")
    assert accepts.status == "not known" and accepts.step_factor is None
    assert "has an accept step, so neither step size nor noise changes" in accepts.verdict
    assert "chance, as in one run of a hundred" in accepts.verdict
    assert "has no momenta" not in accepts.verdict
    unadjusted = read(chain, kinetic=False, dynamics="unadjusted")
    assert unadjusted.status == f"too {word}" and "noise" not in unadjusted.verdict
    assert "has no accept step, and its step is too long" in unadjusted.verdict
    assert unadjusted.step_factor is None  # which is how an excess of injected noise goes


def test_chains_that_have_not_been_round_the_posterior_accuse_no_force():
    """A few turns of slow chains: the momenta are right, and positions read what they happen to."""
    chain = run(14, draws=60, steps=1, step_size=1e-5, spread=0.2)
    chain.kinetic = run(14, draws=60).kinetic
    found = read(chain)
    assert all(a.configurational.rhat > 1.1 for a in found.arrays)
    assert found.status == "not known" and "gradient" not in found.verdict.replace("gradients", "")
    assert "the chains too slow" in found.verdict


def test_a_force_is_doubted_only_beside_chains_that_travel():
    """A term counted twice, and chains that move apart, read alike: both are said."""
    force = PRECISION.copy()
    force[BIAS] *= 2
    assert "Either the chains still move apart" in read(run(5, force=force)).verdict
    force = PRECISION.copy()
    force[LAST] -= PRIOR[LAST]
    assert "Either the chains are still moving" in read(run(6, force=force)).verdict


def test_text_and_arrays():
    found = read(run(1))
    assert isinstance(found, Thermometry)
    lines = str(found).splitlines()
    assert lines[0] == "Temperatures of SGHMC: right" and max(map(len, lines)) <= 100
    readings, over_time = found.readings(), found.over_time()
    assert readings["kinetic"].shape == (4, 3) and over_time["configurational"].shape == (4, 8, 3)
    assert np.all(readings["kinetic"][:, 1] < readings["kinetic"][:, 2])


def test_refusals():
    with pytest.raises(ValueError, match="Neither temperature"):
        judge_temperatures(["w"], [3])
    with pytest.raises(ValueError, match=r"must be \(chain, draw, 1\)"):
        judge_temperatures(["w"], [3], kinetic=np.ones((4, 9, 2)), kinetic_distribution="OBABO")


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        # Without the function outputs the parameter arrays alone do not decide.
        ({}, "not judged"),
        ({"step_size": 0.15}, "doubtful"),
        ({"gradient_noise": 4.0}, "not converged"),
        ({"frozen": BIAS}, "not converged"),
    ],
)
def test_in_a_diagnosis(settings, status):
    generator = np.random.default_rng(0)
    functions = {"mean": generator.normal(size=(4, 500, 5))}
    starts = {"mean": 3 * generator.normal(size=(4, 5))}
    read_of_run = read(run(13, **settings))
    found = diagnose(functions, {}, {}, temperatures=read_of_run, starts=starts)
    assert found.status == status
    # An accept step is an answer of its own.
    exact = diagnose(functions, {}, {}, temperatures=read_of_run, starts=starts, accept_step=True)
    assert exact.converged
    assert "Temperatures: " in found.verdict and "temperatures  " in str(found)
    json.dumps(plain(found.to_dict()), allow_nan=False)


def test_stopped_chain_in_a_diagnosis():
    generator = np.random.default_rng(0)
    values = generator.normal(size=(4, 500, 5))
    stopped = np.zeros((4, 500), bool)
    stopped[2, 37:] = True
    found = diagnose({"mean": values}, {}, {"stopped": stopped})
    assert found.status == "not converged" and found.sampler["stopped_chains"] == {2: 37}
    assert "Chain 2 stopped at draw 37, where" in found.verdict
    stopped[[0, 3], 90:] = True
    found = diagnose({"mean": values}, {}, {"stopped": stopped})
    assert "Chains 0, 2 and 3 stopped at draws 37 to 90, where" in found.verdict
    whole = diagnose({"mean": values}, {}, {"stopped": stopped & False})
    assert whole.judgements[0].status == "passed"
