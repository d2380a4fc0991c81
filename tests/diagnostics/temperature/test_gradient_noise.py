import numpy as np
import pytest
from scipy.stats import levy_stable

from bayesnn_ppl.diagnostics import hill_index, noise_heat, stable_tail_index
from bayesnn_ppl.diagnostics.temperature.estimators import measure
from tests.diagnostics.temperature.euler_chains import run

SCALES = np.exp(2 * np.random.default_rng(1).normal(size=300))


@pytest.mark.parametrize("alpha", [1.2, 1.6, 2.0])
def test_index_of_stable_distributions(alpha):
    noise = levy_stable.rvs(alpha, 0.0, size=(256, 300), random_state=0) * SCALES
    assert stable_tail_index(noise) == pytest.approx(alpha, abs=0.07)
    # Scale and shape of the coordinates do not matter.
    assert stable_tail_index(noise.reshape(256, 30, 10) / 7) == pytest.approx(
        stable_tail_index(noise)
    )


def test_the_known_fault_coordinates_taken_for_samples():
    """Gaussian noise whose coordinates differ in scale looks heavy-tailed when they are pooled."""
    noise = np.random.default_rng(0).normal(size=(256, 300)) * SCALES
    assert stable_tail_index(noise) > 1.9
    assert stable_tail_index(np.random.default_rng(2).permutation(noise.ravel())) < 1.5


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_hill_finds_the_power_of_a_tail(alpha):
    noise = np.random.default_rng(0).pareto(alpha, size=(1000, 200)) + 1
    assert hill_index(noise, share=0.1) == pytest.approx(alpha, rel=0.05)
    normal = np.random.default_rng(0).normal(size=(1000, 200))
    assert hill_index(normal, share=0.1) > 4


def test_heat_of_gradient_noise_is_what_chains_show():
    """ε C / (2(1 - β)) is added to the temperature, at any curvature that the step bears."""
    plain, noisy = (run(3, step_size=0.01, gradient_noise=c) for c in (0.0, 2.0))
    factor = 2 / 1.9
    excess = (noisy.kinetic.mean((0, 1)) - plain.kinetic.mean((0, 1)))[[0, 3]] / factor
    error = measure(noisy.kinetic / factor).error[[0, 3]].max()
    heat = noise_heat(4.0, step_size=0.01, momentum_decay=0.9)
    assert heat == pytest.approx(0.2)
    np.testing.assert_allclose(excess, heat, atol=6 * error)


def test_refusals():
    with pytest.raises(ValueError, match="16 of them"):
        stable_tail_index(np.ones((3, 4)))
    with pytest.raises(ValueError, match="0 everywhere"):
        hill_index(np.zeros((20, 4)))
    with pytest.raises(ValueError, match="share"):
        hill_index(np.ones((20, 4)), share=1.0)
