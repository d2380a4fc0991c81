"""`--reference`: rows in the order of the run's test rows, or a refusal."""

from types import SimpleNamespace

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.data.common.pixels import tfds_order
from bayesnn_ppl.settings.saved.hmc_references import check_reference, reference_of


def run(reference, **data):
    return SimpleNamespace(reference=reference, data={"name": "cifar10", **data})


@pytest.fixture
def published(monkeypatch):
    """Predictions at half of the rows that say which row they are of."""
    rows = np.arange(0, 10_000, 2)
    probabilities = np.stack([rows, 10_000 - rows], axis=1) / 10_000
    made = bnn.metrics.Reference(probabilities, rows)
    monkeypatch.setattr("bayesnn_ppl.metrics.hmc_reference", lambda name: made)
    return made


def test_rows_follow_the_order_of_the_run(published):
    assert reference_of(run(None)) is None
    assert reference_of(run("cifar10")) is published
    moved = reference_of(run("cifar10", order="tfds"))
    original = tfds_order("test", 10_000)[moved.rows]
    np.testing.assert_allclose(moved.probabilities[:, 0] * 10_000, original)
    assert not np.array_equal(moved.rows, original)
    assert reference_of(run("imdb", name="imdb", order="original")) is published


def test_what_cannot_be_compared_is_refused(published):
    check_reference(run("cifar10"), weights=True)
    check_reference(run(None), weights=False)
    with pytest.raises(ValueError, match="the data are `mnist`"):
        check_reference(run("cifar10", name="mnist"), weights=True)
    with pytest.raises(ValueError, match="need the weights"):
        check_reference(run("cifar10"), weights=False)
    with pytest.raises(ValueError, match="--order original"):
        check_reference(run("imdb", name="imdb"), weights=True)
