"""SGLD: its step, its target on a conjugate model, and what would break it."""

import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.inference.kernels.stochastic_gradient.sgld import sgld_step


def test_the_step_by_hand():
    moved = sgld_step(
        jnp.asarray([1.0, 2.0]),
        jnp.asarray([4.0, -8.0]),
        jnp.asarray([1.0, -1.0]),
        step_size=0.02,
        temperature=4.0,
        mass=jnp.asarray([1.0, 4.0]),
        drift=jnp.asarray([0.0, 1.0]),
    )
    # √(2·0.02·4/M) is 0.4 and 0.2; the drift is 0.02·4·1.
    np.testing.assert_allclose(moved, [1 - 0.08 + 0.4, 2 + 0.04 + 0.08 - 0.2], rtol=1e-6)
