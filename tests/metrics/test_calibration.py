"""Calibration errors by brute force, and the edges at which published code loses predictions."""

import numpy as np
import pytest

from bayesnn_ppl import metrics


def two_classes(confidence):
    confidence = np.asarray(confidence)
    return np.stack([confidence, 1 - confidence], axis=-1)


def by_loops(confidence, correct, edges):
    """Bins (lower, upper], the first with its lower edge; sum n_b / N |accuracy - confidence|."""
    error, seen = 0.0, 0
    for i, (lower, upper) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        inside = [
            n for n, c in enumerate(confidence) if lower < c <= upper or (i == 0 and c == lower)
        ]
        seen += len(inside)
        if inside:
            accuracy, mean = np.mean(correct[inside]), np.mean(confidence[inside])
            error += len(inside) / len(confidence) * abs(accuracy - mean)
    assert seen == len(confidence)
    return error


@pytest.fixture
def predictions():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(0.3 * np.ones(5), size=733)
    return p, np.where(rng.random(733) < 0.6, p.argmax(-1), rng.integers(0, 5, size=733))


def test_variants_by_brute_force(predictions):
    p, y = predictions
    confidence, correct = p.max(-1), p.argmax(-1) == y
    step = -(-len(y) // 20)
    mass = np.append(np.sort(confidence)[::step], confidence.max())
    expected = {
        "bnn_hmc": by_loops(confidence, correct, mass),
        "tfp": by_loops(confidence, correct, np.arange(11) / 10),
        "bnn_priors": by_loops(confidence, correct, np.arange(31) / 30),
    }
    for variant, value in expected.items():
        found = metrics.expected_calibration_error(p, y, variant=variant)
        assert found == pytest.approx(value, rel=1e-9), variant
    assert len({round(value, 6) for value in expected.values()}) == 3
    assert metrics.ece_equal_mass(p, y) == pytest.approx(expected["bnn_hmc"])
    assert metrics.ece_equal_width(p, y) == pytest.approx(expected["tfp"])
    assert metrics.ece_equal_width(p, y, bins=30) == pytest.approx(expected["bnn_priors"])


@pytest.mark.parametrize("variant", ["bnn_hmc", "tfp", "bnn_priors"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_confidence_of_exactly_one_is_kept(variant, dtype):
    """All sure and all wrong: the error is 1. Strict inequalities would find no prediction."""
    p = two_classes(np.ones(50, dtype=dtype))
    error = metrics.expected_calibration_error(p, np.ones(50, dtype=int), variant=variant)
    assert error == pytest.approx(1.0)
    assert metrics.expected_calibration_error(p, np.zeros(50, dtype=int), variant=variant) == 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_confidence_on_an_edge_belongs_to_the_bin_below(dtype):
    for k in (6, 7, 8, 9, 10):
        p = two_classes(np.array([k / 10], dtype=dtype))
        curve = metrics.reliability(p, [0], bins=10, binning="equal_width")
        assert curve.rows.tolist() == [int(i == k - 1) for i in range(10)]


def test_calibrated_predictions_have_a_small_error_and_others_have_not():
    rng = np.random.default_rng(2)
    confidence = rng.uniform(0.5, 1.0, size=40_000)
    y = (rng.random(40_000) > confidence).astype(int)
    sure = two_classes(0.5 + 0.5 * confidence)
    for variant in ("bnn_hmc", "tfp", "bnn_priors"):
        error = metrics.expected_calibration_error(two_classes(confidence), y, variant=variant)
        assert error < 0.02
        assert metrics.expected_calibration_error(sure, y, variant=variant) > 0.1


def test_refusals(predictions):
    p, y = predictions
    with pytest.raises(ValueError, match="bnn_hmc, tfp, bnn_priors"):
        metrics.expected_calibration_error(p, y, variant="guo")
    with pytest.raises(ValueError, match="at least one bin"):
        metrics.ece_equal_width(p, y, bins=0)
    with pytest.raises(ValueError, match="binning"):
        metrics.reliability(p, y, binning="even")
    p[0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        metrics.reliability(p, y)
