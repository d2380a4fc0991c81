"""`evaluate` against a reference, and the published HMC predictions."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bayesnn_ppl import metrics
from bayesnn_ppl.metrics import Reference, accuracy, evaluate, hmc_reference

FOLDER = os.environ.get("BAYESNN_DATA")
ROWS = 60


class Numbers:
    """Draws of N(mean, 1) in units of y, shown in data units 5 + 2 y."""

    task = "regression"

    def __init__(self, mean, scale=2.0):
        self.mean = 5 + scale * mean
        self.variance = np.full(mean.shape, scale**2)
        self.scale = scale

    def y(self, y):
        return 5 + self.scale * np.asarray(y)

    def samples(self, count, seed=0):
        noise = np.random.default_rng(seed).normal(size=(count, *self.mean.shape))
        return self.mean + self.scale * noise

    def quantile(self, q):
        return self.mean + 10 * (q - 0.5)

    def log_prob(self, y):
        return -((self.y(y) - self.mean) ** 2)


def labels(probabilities):
    return SimpleNamespace(
        task="classification",
        probabilities=probabilities,
        entropy=np.zeros(len(probabilities)),
        mutual_information=np.zeros(len(probabilities)),
    )


def posterior(prediction):
    return SimpleNamespace(predict=lambda x: prediction)


def never(x):
    raise AssertionError("predicted before the refusal")


@pytest.fixture
def classes():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(3), size=(2, ROWS))
    return p, q, rng.integers(0, 3, size=ROWS)


def distances(found):
    return {name: value for name, value in found.items() if name.startswith("reference")}


def test_labels_against_another_posterior_or_its_probabilities(classes):
    p, q, y = classes
    x = np.zeros((ROWS, 1))
    found = evaluate(posterior(labels(p)), x, y, reference=posterior(labels(q)))
    assert distances(found) == {
        "reference_agreement": metrics.agreement(p, q),
        "reference_total_variation": metrics.total_variation(p, q),
    }
    assert 0.1 < found["reference_agreement"] < 0.9
    assert distances(evaluate(posterior(labels(p)), x, y, reference=q)) == distances(found)
    assert "reference_agreement" in str(found)
    same = evaluate(posterior(labels(p)), x, y, reference=p)
    assert distances(same) == {"reference_agreement": 1.0, "reference_total_variation": 0.0}
    assert distances(evaluate(posterior(labels(p)), x, y)) == {}


def test_some_of_the_rows_in_any_order(classes):
    p, q, y = classes
    rows = np.random.default_rng(1).permutation(ROWS)[:25]
    found = evaluate(
        posterior(labels(p)), np.zeros((ROWS, 1)), y, reference=Reference(q[rows], rows)
    )
    assert found["reference_agreement"] == metrics.agreement(p[rows], q[rows])
    assert found["reference_total_variation"] == pytest.approx(
        metrics.total_variation(p[rows], q[rows])
    )
    wrong = Reference(q[rows], np.sort(rows))
    other = evaluate(posterior(labels(p)), np.zeros((ROWS, 1)), y, reference=wrong)
    assert other["reference_total_variation"] != found["reference_total_variation"]


def test_a_selection_follows_the_inputs(classes):
    """Evaluating x[chosen] against reference.select(chosen) compares the same pairs of rows."""
    p, q, y = classes
    rng = np.random.default_rng(2)
    rows, chosen = rng.permutation(ROWS)[:40], rng.permutation(ROWS)[:30]
    part = Reference(q[rows], rows).select(chosen)
    np.testing.assert_array_equal(part.probabilities, q[chosen][part.rows])
    assert set(chosen[part.rows]) == set(rows) & set(chosen)
    both = np.intersect1d(rows, chosen)
    found = evaluate(posterior(labels(p[chosen])), np.zeros((30, 1)), y[chosen], reference=part)
    assert found["reference_total_variation"] == pytest.approx(
        metrics.total_variation(p[both], q[both])
    )
    with pytest.raises(ValueError, match="None of the 2 `rows`"):
        Reference(q[:5], range(5)).select([7, 100])


def test_numbers_against_another_posterior():
    y = np.random.default_rng(3).normal(size=ROWS)
    x, near = np.zeros((ROWS, 1)), posterior(Numbers(y))
    found = evaluate(near, x, y, reference=posterior(Numbers(y + 0.25)), samples=50)
    # Both move by 0.25 of a training unit, 0.5 in the data's.
    assert found["reference_mean_difference"] == pytest.approx(0.5)
    assert found["reference_wasserstein"] == pytest.approx(0.5)
    same = evaluate(near, x, y, reference=near, samples=50)
    assert distances(same) == {"reference_mean_difference": 0.0, "reference_wasserstein": 0.0}


def test_what_does_not_fit_is_refused_before_any_prediction(classes):
    _, q, y = classes
    x, unused = np.zeros((ROWS, 1)), SimpleNamespace(predict=never)
    with pytest.raises(ValueError, match="has 10 rows and `x` has 60.*metrics.Reference"):
        evaluate(unused, x, y, reference=q[:10])
    with pytest.raises(ValueError, match="reaches to row 60, but `x` has 60 rows.*select"):
        evaluate(unused, x, y, reference=Reference(q[:2], [0, 60]))
    with pytest.raises(ValueError, match="sum to 1"):
        evaluate(unused, x, y, reference=np.log(q))
    with pytest.raises(TypeError, match="`reference` has dtype"):
        evaluate(unused, x, y, reference="hmc")
    with pytest.raises(ValueError, match="has shape \\(3,\\), but `probabilities` \\(2, 3\\)"):
        Reference(q[:2], [0, 1, 2])
    with pytest.raises(ValueError, match="names a row twice"):
        Reference(q[:2], [4, 4])
    with pytest.raises(ValueError, match="none negative"):
        Reference(q[:2], [4, -1])
    with pytest.raises(TypeError, match="pass integers"):
        Reference(q[:2], [True, False])


def test_predictions_that_cannot_be_compared_are_refused(classes):
    p, q, y = classes
    x, numbers = np.zeros((ROWS, 1)), Numbers(np.zeros(ROWS))
    with pytest.raises(ValueError, match=r"\(60, 3\) and those of `reference` \(60, 2\)"):
        evaluate(posterior(labels(p)), x, y, reference=np.full((ROWS, 2), 0.5))
    with pytest.raises(ValueError, match="task is classification and that of `reference`"):
        evaluate(posterior(labels(p)), x, y, reference=posterior(numbers))
    with pytest.raises(ValueError, match="this posterior predicts numbers"):
        evaluate(posterior(numbers), x, y, reference=q, samples=2)
    with pytest.raises(ValueError, match="different units"):
        other = posterior(Numbers(np.zeros(ROWS), scale=3.0))
        evaluate(posterior(numbers), x, y, reference=other, samples=2)
    with pytest.raises(ValueError, match=r"shape \(60,\) at these inputs"):
        other = posterior(Numbers(np.zeros((ROWS, 1))))
        evaluate(posterior(numbers), x, y, reference=other, samples=2)


@pytest.mark.skipif(not FOLDER, reason="BAYESNN_DATA, the folder of the data files, is not set")
@pytest.mark.parametrize(("name", "published"), [("cifar10", 0.9148), ("imdb", 0.8762)])
def test_published_predictions_are_aligned_with_the_labels(name, published):
    file = "cifar10/labels.npz" if name == "cifar10" else "imdb.npz"
    with np.load(Path(FOLDER or "") / file) as archive:
        y = archive["y_test"]
        order = archive["tfds_order_test" if name == "cifar10" else "keras_perm_test"]
    reference = hmc_reference(name)
    assert accuracy(reference.probabilities, y[reference.rows]) == pytest.approx(
        published, abs=5e-5
    )
    # The other order needs the permutation, and without it the accuracy is that of chance.
    moved = reference.select(order)
    assert moved.rows.size == reference.rows.size
    assert accuracy(moved.probabilities, y[order][moved.rows]) == pytest.approx(published, abs=5e-5)
    assert accuracy(reference.probabilities, y[order][reference.rows]) < 0.55
    found = evaluate(
        posterior(labels(np.eye(int(y.max()) + 1)[y])), np.zeros(len(y)), y, reference=reference
    )
    assert found["reference_agreement"] == pytest.approx(published, abs=5e-5)


def test_missing_or_broken_files_are_told(tmp_path, monkeypatch):
    monkeypatch.delenv("BAYESNN_DATA", raising=False)
    with pytest.raises(ValueError, match="'cifar10' and 'imdb'"):
        hmc_reference("mnist")
    with pytest.raises(FileNotFoundError, match="BAYESNN_DATA is not set.*hmc_reference.npz"):
        hmc_reference("imdb")
    monkeypatch.setenv("BAYESNN_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="does not exist. Lay the file there"):
        hmc_reference("imdb")
    path = tmp_path / "hmc_reference.npz"
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="not a readable NumPy archive"):
        hmc_reference("imdb")
    np.savez(path, imdb_probs=np.full((12500, 2), 0.5))
    with pytest.raises(ValueError, match="`imdb_rows` of shape.*no such array"):
        hmc_reference("imdb")
    np.savez(path, imdb_probs=np.full((12500, 2), 0.5), imdb_rows=np.arange(12500))
    np.testing.assert_array_equal(hmc_reference("imdb").rows, np.arange(12500))
