import numpy as np
import pytest
from scipy.signal import lfilter

from bayesnn_ppl.diagnostics import autocorrelation_time, effective_sample_size, ess_per_gradient


def chains(correlation, draws=4000):
    noise = np.random.default_rng(0).normal(size=(4, draws, 3))
    return lfilter([1.0], [1.0, -correlation], noise, axis=1)[:, 200:]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9, -0.5])
def test_time_of_an_autoregression(correlation):
    exact = (1 + correlation) / (1 - correlation)
    assert autocorrelation_time(chains(correlation)) == pytest.approx(exact, rel=0.25)


def test_ess_is_of_raw_values_and_of_all_chains():
    draws = chains(0.5)
    size = effective_sample_size(draws)
    assert size.shape == (3,)
    np.testing.assert_allclose(size * autocorrelation_time(draws), 4 * 3800)
    assert effective_sample_size(np.ones((2, 10))) == 20
    # Chains that disagree are worth little.
    assert effective_sample_size(draws[..., 0] + 5 * np.arange(4.0)[:, None]) < 20


def test_ess_per_gradient():
    draws = chains(0.5)
    steps = np.full((4, 3800), 10)
    expected = effective_sample_size(draws) / (4 * 3800 * 10)
    np.testing.assert_allclose(ess_per_gradient(draws, steps), expected)
    np.testing.assert_allclose(ess_per_gradient(draws, steps.sum()), expected)
    with pytest.raises(ValueError, match="a positive number"):
        ess_per_gradient(draws, 0)
