"""Bandits: Thompson's draws find the better action, and the greedy mean may never look for it."""

import numpy as np
import pytest

from bayesnn_ppl.experiments import Problem, labels_problem, play, wheel_problem
from bayesnn_ppl.experiments.protocols.bandits import features

LENGTH = 1024
REFITS = [2, 4, 8, 16, 32, 64, 128, 256, 512]


def two_arms(seed):
    """Means 0 and 0.5 with noise 1; the first reward of the better arm is a bad accident."""
    means = np.tile([0.0, 0.5], (LENGTH, 1))
    rewards = means + np.random.default_rng(seed).standard_normal(means.shape)
    rewards[:2] = [[1.0, 0.0], [0.0, -2.0]]
    return Problem(np.ones((LENGTH, 1)), means, rewards)


def linear(draws):
    """Exact Bayesian linear regression with weights N(0, 1) and noise 1; one draw is its mean."""

    def train(x, y, seed):
        covariance = np.linalg.inv(np.eye(x.shape[1]) + x.T @ x)
        mean = covariance @ x.T @ y
        if draws == 1:
            weights = mean[None]
        else:
            generator = np.random.default_rng(seed)
            weights = generator.multivariate_normal(mean, covariance, size=draws)
        return lambda inputs: weights @ inputs.T

    return train


def test_thompson_has_sublinear_regret_where_greedy_locks_in():
    halves = {"thompson": [], "greedy": []}
    for seed in range(8):
        problem = two_arms(seed)
        for policy, found in halves.items():
            regret = problem.regret(play(problem, policy, linear(300), refits=REFITS, seed=seed))
            found.append((regret[:512].sum(), regret[512:].sum()))
    first, second = np.mean(halves["thompson"], axis=0)
    assert second < 0.2 * first + 5 and second < 0.1 * 256
    # Greedy never takes the better arm again: the whole regret of 0.5 a round.
    assert np.mean(halves["greedy"], axis=0)[1] == 256


def test_thompson_with_a_posterior_that_is_a_point_is_greedy():
    problem = two_arms(0)
    point = play(problem, "thompson", linear(1), refits=REFITS, seed=1)
    np.testing.assert_array_equal(point, play(problem, "greedy", linear(1), refits=REFITS, seed=1))
    assert (point != play(problem, "thompson", linear(300), refits=REFITS, seed=1)).any()


@pytest.mark.parametrize("policy", ["thompson", "uniform"])
def test_it_resumes_where_it_was_ended(policy):
    problem, told = two_arms(2), []
    whole = play(
        problem, policy, linear(50), refits=REFITS, seed=2, after=lambda a: told.append(len(a))
    )
    assert told == [*REFITS[1:], LENGTH] and len(whole) == LENGTH
    rest = play(problem, policy, linear(50), refits=REFITS, seed=2, before=whole[:64].tolist())
    np.testing.assert_array_equal(rest, whole)


def test_the_wheel():
    problem = wheel_problem(0.7, 20_000, seed=0)
    radius = np.linalg.norm(problem.contexts, axis=1)
    assert radius.max() < 1
    rich = problem.means.max(axis=1) == 50
    np.testing.assert_array_equal(rich, radius > 0.7)
    # Uniform on the disc: a share 1 - 0.7² = 0.51 lies outside, within 4 standard errors.
    assert abs(rich.mean() - 0.51) < 4 * np.sqrt(0.25 / 20_000)
    best = problem.means[rich].argmax(axis=1)
    east, north = (problem.contexts[rich] > 0).T
    quadrants = {(True, True): 1, (False, True): 2, (False, False): 3, (True, False): 4}
    for (right, up), action in quadrants.items():
        assert (best[(east == right) & (north == up)] == action).all()
    assert (problem.means[~rich] == [1.2, 1, 1, 1, 1]).all()
    assert (problem.rewards - problem.means).std() == pytest.approx(0.01, rel=0.02)
    regret = problem.regret([0] * 20_000)
    np.testing.assert_allclose(regret, np.where(rich, 48.8, 0.0))


def test_labels_and_features():
    x, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 2, 0, 1, 2])
    problem = labels_problem(x, y, 3, 5, seed=0)
    rows = (problem.contexts[:, 0] / 2).astype(int)
    assert len(set(rows)) == 5
    np.testing.assert_array_equal(problem.rewards.argmax(axis=1), y[rows])
    assert problem.regret(y[rows]).sum() == 0 and problem.regret((y[rows] + 1) % 3).sum() == 5
    blocks = features(np.array([[5.0, 7.0]]), np.array([1]), 3)
    np.testing.assert_array_equal(blocks, [[0, 0, 0, 5, 7, 1, 0, 0, 0]])


def test_refusals():
    problem = two_arms(0)
    with pytest.raises(ValueError, match="'ucb', but must be one of thompson"):
        play(problem, "ucb", None, refits=[2])
    with pytest.raises(ValueError, match="learns, so `train` must be given"):
        play(problem, "greedy", None, refits=[2])
    with pytest.raises(ValueError, match="20 contexts, but the data only 6 rows"):
        labels_problem(np.zeros((6, 1)), np.zeros(6, int), 2, 20, 0)
