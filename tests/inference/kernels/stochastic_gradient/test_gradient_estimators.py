"""Gradient estimators: the same expectation as the minibatch gradient, less variance."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesnn_ppl.inference.kernels.stochastic_gradient.gradient_estimators import (
    SVRG,
    ControlVariate,
    Minibatch,
    check_estimator,
)

ROWS, BATCH = 8, 3
GENERATOR = np.random.default_rng(1)
X = GENERATOR.normal(size=(ROWS, 4))
Y = GENERATOR.integers(0, 2, size=ROWS)
SUBSETS = np.array(list(combinations(range(ROWS), BATCH)))
ANCHOR = GENERATOR.normal(size=4)
ESTIMATORS = [Minibatch(), ControlVariate(), ControlVariate(anchor="warmup"), SVRG(every=2)]


def potential(theta, rows):
    """Logistic regression with a standard normal prior; the rows count for all N."""
    logits = jnp.asarray(X)[rows] @ theta
    likelihood = jnp.sum(jnp.logaddexp(0.0, logits) - jnp.asarray(Y)[rows] * logits)
    return ROWS / rows.shape[0] * likelihood + theta @ theta / 2


gradient = jax.grad(potential)


def full_gradient(theta):
    return gradient(theta, jnp.arange(ROWS))


def over_all_minibatches(estimator, position, *, sampling=True):
    """The estimates at `position` with the anchor at ANCHOR, shape (subsets, 4)."""

    @jax.jit
    def run(anchor, position):
        state = estimator.start(anchor, full_gradient)
        index = jnp.asarray(2 if sampling else 1)
        state = estimator.refresh(state, anchor, full_gradient, index=index, warmup_steps=2)
        return jax.lax.map(
            lambda rows: estimator.estimate(state, position, lambda theta: gradient(theta, rows)),
            jnp.asarray(SUBSETS),
        )

    return np.asarray(run(ANCHOR, position))


def total_variance(estimates):
    return estimates.var(axis=0).sum()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_unbiased_anywhere(estimator):
    """The mean over all 56 minibatches is the full gradient, near the anchor and far from it."""
    with jax.enable_x64(True):
        for position in (ANCHOR, ANCHOR + 0.1, -3 * ANCHOR):
            for sampling in (True, False):
                estimates = over_all_minibatches(estimator, position, sampling=sampling)
                np.testing.assert_allclose(
                    estimates.mean(axis=0), full_gradient(position), rtol=1e-6, atol=1e-6
                )


def test_a_wrong_anchor_gradient_is_seen():
    """Negative control: the anchor's gradient without the prior, which breaks the expectation."""

    class Forgetful(ControlVariate):
        def start(self, position, full_gradient):
            return super().start(position, lambda theta: full_gradient(theta) - theta)

    with jax.enable_x64(True):
        estimates = over_all_minibatches(Forgetful(), ANCHOR + 0.1)
        assert np.abs(estimates.mean(axis=0) - full_gradient(ANCHOR + 0.1)).max() > 0.1


@pytest.mark.parametrize("estimator", ESTIMATORS[1:], ids=repr)
def test_variance_falls_with_the_square_of_the_distance(estimator):
    with jax.enable_x64(True):
        plain = total_variance(over_all_minibatches(Minibatch(), ANCHOR))
        assert total_variance(over_all_minibatches(estimator, ANCHOR)) < 1e-20 * plain
        near, nearer = (
            total_variance(over_all_minibatches(estimator, ANCHOR + distance))
            for distance in (0.02, 0.01)
        )
        assert near < 1e-2 * plain
        assert 3.8 < near / nearer < 4.2


def test_in_warmup_that_only_sets_the_anchor_the_gradient_is_the_minibatches_own():
    with jax.enable_x64(True):
        estimator = ControlVariate(anchor="warmup")
        np.testing.assert_array_equal(
            over_all_minibatches(estimator, ANCHOR, sampling=False),
            over_all_minibatches(Minibatch(), ANCHOR),
        )


@pytest.mark.parametrize(
    ("estimator", "due"),
    [
        (Minibatch(), []),
        (ControlVariate(), [0]),
        (ControlVariate(anchor="warmup"), [4]),
        (SVRG(every=3), [0, 3, 6, 9]),
    ],
    ids=repr,
)
def test_full_gradients_only_when_they_are_due(estimator, due):
    """Counted where they run: in chains under vmap, none is computed in other steps."""
    counted = []

    def counting(theta):
        jax.debug.callback(lambda _: counted.append(True), theta[0])
        return full_gradient(theta)

    def chain(position):
        def step(state, index):
            state = estimator.refresh(
                state, position + index, counting, index=index, warmup_steps=4
            )
            return state, state[0][0] if state else position[0]

        begin = estimator.start(position, counting)
        return jax.lax.scan(step, begin, jnp.arange(10))[1]

    anchors = jax.jit(jax.vmap(chain))(jnp.arange(8.0).reshape(2, 4))
    jax.effects_barrier()
    assert len(counted) == 2 * len(due)
    if isinstance(estimator, SVRG):
        np.testing.assert_array_equal(anchors[1], 4.0 + np.array([0, 0, 0, 3, 3, 3, 6, 6, 6, 9]))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: check_estimator("svrg", "`gradient` of SGLD"), TypeError, "`gradient` of SGLD"),
        (lambda: check_estimator(SVRG, "`gradient` of SGLD"), TypeError, "`gradient` of SGLD"),
        (lambda: ControlVariate(anchor="strat"), ValueError, "Did you mean `start`"),
        (lambda: SVRG(every=0), ValueError, "`every` of SVRG must be at least 1"),
        (lambda: SVRG(every=1.5), TypeError, "`every` of SVRG must be an integer"),
    ],
)
def test_settings_out_of_range(make, error, words):
    with pytest.raises(error, match=words):
        make()
