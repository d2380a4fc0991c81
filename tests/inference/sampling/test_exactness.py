"""Against closed forms: linear regression with known noise, at T = 1 and T = 0.5.

θ ~ N(0, I), y ~ N(Φθ, σ²): likelihood temperature T gives the posterior precision
I + ΦᵀΦ/(σ²T), whole-posterior temperature T gives (I + ΦᵀΦ/σ²)/T; the mean of the first is
Σ Φᵀy/(σ²T), that of the second does not depend on T.
"""

import numpy as np
import pytest
from numpyro.infer import NUTS
from scipy import integrate

import bayesnn_ppl as bnn
from tests.inference.kernels.known_moments import (
    scale_model,
    worst_deviation,
)


def test_a_cold_half_normal_scale_against_quadrature():
    temperature = 0.5
    y = np.array([0.3, -0.8, 1.1], dtype=np.float32)

    def density(s):
        log_p = -0.5 * s**2 - len(y) * np.log(s) - 0.5 * np.sum(y**2) / s**2
        return np.exp(log_p / temperature)

    total, mean, square = (
        integrate.quad(lambda s, k=k: s**k * density(s), 0.01, 20)[0] for k in range(3)
    )
    with pytest.warns(UserWarning, match=r"depends on how the model is parametrised.*'scale'"):
        posterior = bnn.sample(
            NUTS(bnn.cold(scale_model, temperature)),
            y[:, None],
            y,
            warmup=500,
            draws=3000,
            seed=0,
            progress=False,
        )
    assert posterior.provenance["posterior_temperature"] == temperature
    scale = posterior.draws["scale"].astype(float)[..., None]
    variance = square / total - (mean / total) ** 2
    assert worst_deviation(scale, np.array([mean / total]), np.array([[variance]])) < 4
    # The negative control: the Jacobian tempered as well, density s^{1/T - 1} too high.
    tilt = [
        integrate.quad(lambda s, k=k: s ** (k + 1 / temperature - 1) * density(s), 0.01, 20)[0]
        for k in range(2)
    ]
    wrong = np.array([tilt[1] / tilt[0]])
    assert worst_deviation(scale, wrong, np.array([[variance]])) > 6
