"""The temperature estimators, on chains whose distribution is known."""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import chi2

from bayesnn_ppl.diagnostics.temperature.estimators import (
    block_bootstrap_error,
    configurational_series,
    expected_kinetic,
    measure,
    naive_region,
    zero_step_limit,
)
from tests.diagnostics.temperature.euler_chains import NAMES, PRECISION, run


def stationary(beta, kappa):
    """Variances of position (times λ) and momentum at T = 1, from the Lyapunov equation."""
    step = np.array([[1 - kappa, beta], [-kappa, beta]])  # of (√λ θ/h..., p), with p' = βp - κq
    noise = 2 * (1 - beta) * np.ones((2, 2))
    kron = np.eye(4) - np.kron(step, step)
    covariance = np.linalg.solve(kron, noise.ravel()).reshape(2, 2)
    return kappa * covariance[0, 0], covariance[1, 1]


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("kappa", [1e-4, 0.2, 0.5])
def test_kinetic_temperature_of_symplectic_euler_is_that_of_its_lyapunov_equation(beta, kappa):
    position, momentum = stationary(beta, kappa)
    expected = expected_kinetic("symplectic Euler", momentum_decay=beta, scaled_curvature=kappa)
    assert expected == pytest.approx(momentum, rel=1e-9)
    # The identity that needs no curvature.
    assert position == pytest.approx((1 + beta) / 2 * momentum, rel=1e-9)


def test_refusals_of_expected_kinetic():
    with pytest.raises(ValueError, match="SGLD, have no kinetic temperature"):
        expected_kinetic("none")
    with pytest.raises(ValueError, match="unstable"):
        expected_kinetic("symplectic Euler", momentum_decay=0.9, scaled_curvature=3.9)
    with pytest.raises(ValueError, match=r"in \[0, 1\)"):
        expected_kinetic("symplectic Euler", momentum_decay=1.0)


def test_the_naive_region_rejects_a_right_sampler_and_the_right_region_does_not():
    chain = run(1, step_size=0.002, draws=200, steps=60)
    value = chain.kinetic[..., 3]
    low, high = naive_region(1.0, 40)
    assert (low, high) == pytest.approx(tuple(chi2.interval(0.99, 40) / np.array([40, 40])))
    measured = measure(chain.kinetic / expected_kinetic("symplectic Euler", momentum_decay=0.9))
    assert np.all((measured.lower < 1.02) & (measured.upper > 0.98))
    # Of many elements the mean of the momenta alone stands outside.
    low, high = naive_region(1.0, 40 * value.size // 4)
    assert value.mean() > high


def test_identity_of_both_temperatures_at_a_long_step_with_gradient_noise():
    """Heat of whatever kind shows on both alike, far from T."""
    chain = run(2, step_size=0.1, gradient_noise=2.0)
    series = configurational_series(chain.positions, PRECISION * chain.positions)
    kinetic = (
        chain.kinetic
        @ (np.array([24, 6, 1, 40]) / 71)
        / expected_kinetic("symplectic Euler", momentum_decay=0.9)
    )
    both = measure(np.stack([series, kinetic], axis=-1), level=1 - 1e-4)
    assert both.lower.min() > 1.5
    assert both.lower[0] < both.value[1] < both.upper[0]
    # Negative control: a force that is not the gradient breaks the identity.
    double = measure(2 * series[..., None], level=1 - 1e-4)
    assert double.lower[0] > both.upper[1]


def test_any_centre_that_does_not_know_the_draws_gives_the_temperature():
    generator = np.random.default_rng(0)
    theta = 5.0 + generator.normal(size=(4, 2000, 30))
    force = theta - 5.0
    errors = {}
    for centre in ("others", "zero", "mean", np.full(30, 4.0)):
        found = measure(configurational_series(theta, force, centre=centre)[..., None])
        assert found.value[0] == pytest.approx(1.0, abs=5 * found.error[0])
        errors[str(centre)[:6]] = found.error[0]
    assert errors["others"] < 0.3 * errors["zero"]
    assert errors["others"] == pytest.approx(errors["mean"], rel=0.1)


def test_the_own_mean_reads_low_by_one_over_ess_and_that_of_others_does_not():
    generator = np.random.default_rng(1)
    # 2000 coordinates, 5 independent draws each of 4 chains.
    theta = generator.normal(size=(4, 5, 20_000))
    own = configurational_series(theta, theta, centre="mean").mean()
    others = configurational_series(theta, theta, centre="others").mean()
    assert own == pytest.approx(1 - 1 / 20, abs=0.01)
    assert others == pytest.approx(1.0, abs=0.01)


def test_series_refusals():
    with pytest.raises(ValueError, match="one gradient for each position"):
        configurational_series(np.zeros((2, 3, 4)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="not 'median'"):
        configurational_series(np.zeros((2, 3)), np.zeros((2, 3)), centre="median")


@pytest.mark.parametrize("bootstrap", [False, True])
def test_intervals_cover_correlated_means(bootstrap):
    """AR(1) with known error; the interval of 99 % misses a mean of 0 rarely, that of 50 % half."""
    rho, misses = 0.8, {0.99: 0, 0.5: 0}
    for seed in range(60):
        noise = np.random.default_rng(seed).normal(size=(4, 250, 1))
        values = lfilter([1.0], [1.0, -rho], noise, axis=1)[:, 50:]
        for level in misses:
            found = measure(values, level=level, bootstrap=bootstrap)
            misses[level] += not found.lower[0] < 0 < found.upper[0]
        exact = 1 / (1 - rho) / np.sqrt(800)
        assert 0.5 * exact < found.error[0] < 2 * exact
    assert misses[0.99] <= 5 and 15 <= misses[0.5] <= 45


def test_bootstrap_knows_correlation_and_chains_that_differ():
    generator = np.random.default_rng(0)
    white = generator.normal(size=(4, 400))
    assert block_bootstrap_error(white, ess=1600) == pytest.approx(1 / 40, rel=0.15)
    slow = lfilter([1.0], [1.0, -0.9], white, axis=1)
    assert block_bootstrap_error(slow, ess=84) > 3 * block_bootstrap_error(slow, ess=1600)
    apart = white + np.arange(4.0)[:, None]
    assert block_bootstrap_error(apart, ess=16) > 0.2
    white[0, 0] = np.nan
    assert np.isnan(block_bootstrap_error(white, ess=1600))


def test_measure_refusals():
    with pytest.raises(ValueError, match="at least 4 draws"):
        measure(np.zeros((2, 3, 1)))
    with pytest.raises(ValueError, match="probability"):
        measure(np.zeros((2, 9, 1)), level=1.0)


def test_extrapolation_finds_the_noise_at_any_curvature():
    """A ladder of steps on which every run is too hot says that the noise is right."""
    steps = np.array([0.03, 0.05, 0.08])
    factor = expected_kinetic("symplectic Euler", momentum_decay=0.9)
    for noise, truth in ((1.0, 1.0), (0.5**0.5, 0.5)):
        runs = [run(7, step_size=step, draws=150, noise=noise) for step in steps]
        found = [measure(r.kinetic / factor) for r in runs]
        assert found[-1].value[3] > 1.05 * truth
        limit, error = zero_step_limit(steps, [f.value for f in found], [f.error for f in found])
        assert limit.shape == (len(NAMES),)
        np.testing.assert_array_less(np.abs(limit - truth), 4.5 * error + 0.02)
    with pytest.raises(ValueError, match="two different step sizes"):
        zero_step_limit([0.1, 0.1], [1.0, 1.0], [0.1, 0.1])
