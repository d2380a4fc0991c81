import numpy as np
import pytest
from scipy import ndimage

from bayesnn_ppl.data import corrupt, corrupt_dataset, from_arrays
from bayesnn_ppl.data.corruptions import KINDS

# Smooth random pictures: what natural images are to these kinds.
IMAGES = ndimage.gaussian_filter(
    np.random.default_rng(0).normal(size=(24, 32, 32, 3)), sigma=(0, 1.5, 1.5, 0)
)
IMAGES = np.clip(0.45 + 0.2 * IMAGES / IMAGES.std(), 0, 1).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_distance_grows_with_severity(kind):
    changed = [corrupt(IMAGES, kind, severity, seed=3) for severity in range(1, 6)]
    distances = [np.sqrt(np.mean((images - IMAGES) ** 2)) for images in changed]
    assert distances[0] > 0.003 and np.all(np.diff(distances) > 0.002), distances
    for images in changed:
        assert images.shape == IMAGES.shape and images.dtype == IMAGES.dtype
        assert images.min() >= 0 and images.max() <= 1
    again = corrupt(IMAGES, kind, 5, seed=3)
    np.testing.assert_array_equal(again, changed[4])
    random = kind in ("gaussian_noise", "rotation")
    assert np.array_equal(corrupt(IMAGES, kind, 5, seed=4), again) != random


def test_each_kind_does_what_it_says():
    flat = np.full((400, 8, 8, 1), 0.5)
    noisy = corrupt(flat, "gaussian_noise", 2)
    assert noisy.std() == pytest.approx(0.08, rel=0.05) and noisy.dtype == np.float64
    np.testing.assert_allclose(corrupt(flat, "brightness", 1), 0.58)
    for kind in ("gaussian_blur", "contrast", "pixelate", "rotation"):
        np.testing.assert_allclose(corrupt(flat, kind, 5), 0.5)
    halves = np.zeros((1, 4, 8, 1))
    halves[:, :, 4:] = 1
    low = corrupt(halves, "contrast", 3)
    np.testing.assert_allclose(np.unique(low), [0.3, 0.7])
    checks = np.indices((4, 4)).sum(0)[None, :, :, None] % 2.0
    np.testing.assert_allclose(corrupt(checks, "pixelate", 3), 0.5)
    turned = corrupt(IMAGES[:1, :, :, :1], "rotation", 5)[0, :, :, 0]
    clockwise, back = (
        np.abs(
            turned - ndimage.rotate(IMAGES[0, :, :, 0], a, reshape=False, order=1, mode="nearest")
        ).max()
        for a in (-45, 45)
    )
    assert min(clockwise, back) < 1e-5 < max(clockwise, back)
    width = 0.9 * 32 / 32
    blurred = ndimage.gaussian_filter(IMAGES[0, :, :, 0], width, mode="nearest")
    np.testing.assert_allclose(corrupt(IMAGES, "gaussian_blur", 3)[0, :, :, 0], blurred, atol=1e-5)


def test_standardised_data_are_corrupted_in_their_units():
    y = np.arange(24) % 2
    dataset = from_arrays(IMAGES, y, task="classification")
    raw = from_arrays(IMAGES, y, task="classification", standardise=False)
    changed = corrupt_dataset(dataset, "contrast", 4)
    expected = dataset.standardisation.apply_x(corrupt(raw.test.x, "contrast", 4))
    np.testing.assert_allclose(changed.test.x, expected, atol=1e-5)
    assert changed.train is dataset.train and changed.test.y is dataset.test.y
    assert changed.name.endswith("contrast 4") and changed.sha256 != dataset.sha256
    assert not changed.test.x.flags.writeable
    again = corrupt_dataset(raw, "contrast", 4).test.x
    np.testing.assert_allclose(again, corrupt(raw.test.x, "contrast", 4), atol=1e-6)


@pytest.mark.parametrize(
    ("images", "kind", "severity", "error", "message"),
    [
        (IMAGES, "blur", 1, ValueError, "no corruption `blur`.*Known are gaussian_noise"),
        (IMAGES, "contrast", 6, ValueError, "from 1 to 5, but is 6"),
        (IMAGES, "contrast", True, ValueError, "from 1 to 5, but is True"),
        (IMAGES[..., 0], "contrast", 1, ValueError, r"images\[..., None\]"),
        (np.zeros((2, 4, 4, 1), np.uint8), "contrast", 1, TypeError, "images / 255"),
        (IMAGES * 3 - 1, "contrast", 1, ValueError, r"\[0, 1\], but lie in .*corrupt_dataset"),
        (IMAGES * np.nan, "contrast", 1, ValueError, r"must lie in \[0, 1\]"),
    ],
)
def test_what_cannot_be_corrupted_is_refused(images, kind, severity, error, message):
    with pytest.raises(error, match=message):
        corrupt(images, kind, severity)


def test_only_images_can_be_corrupted():
    table = from_arrays(np.random.default_rng(0).normal(size=(20, 3)), np.arange(20.0))
    with pytest.raises(ValueError, match=r"shape \(2, 3\) .* only images"):
        corrupt_dataset(table, "contrast", 1)
