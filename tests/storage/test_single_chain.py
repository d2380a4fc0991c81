"""A run of one chain on disk: the number of its chain is 0, which zarr does not write."""

import numpy as np

import bayesnn_ppl as bnn


def test_a_single_chain_without_statistics_is_read_again(tmp_path):
    data = bnn.data.load("diabetes")
    approximation = bnn.approximations.MAP(bnn.models.linear(), epochs=2)
    made = bnn.fit(approximation, *data.train, progress=False, out=tmp_path / "run")
    read = bnn.load(tmp_path / "run")
    assert read.tree["posterior"]["chain"].values.tolist() == [0]
    assert set(read.draws) == set(made.draws)
    for name, values in made.draws.items():
        assert values.shape[:2] == (1, 1)
        np.testing.assert_array_equal(read.draws[name], values)
