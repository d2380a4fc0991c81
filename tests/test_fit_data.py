"""`fit` leaves the training data with the posterior, in this process alone."""

import numpy as np

import bayesnn_ppl as bnn


def test_fit_keeps_its_training_data_in_memory_and_not_on_disk(tmp_path):
    x = np.linspace(-1, 1, 12, dtype=np.float32)[:, None]
    y = 2 * x[:, 0]
    members = bnn.approximations.Ensemble(bnn.models.mlp(hidden=(3,)), members=2, epochs=2)
    posterior = bnn.fit(members, x, y, progress=False, out=tmp_path / "run")
    assert posterior.data is not None
    np.testing.assert_array_equal(posterior.data[0], x)
    np.testing.assert_array_equal(posterior.data[1], y)
    assert bnn.load(tmp_path / "run").data is None
