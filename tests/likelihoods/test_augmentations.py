"""Ready-made augmentations: what they may do, how often, and to each row by itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.likelihoods.augmentations import NAMED
from bayesnn_ppl.settings.declaring import declared
from bayesnn_ppl.settings.models.model_settings import ZooSettings

A = bnn.augmentations
KEY = jax.random.key(0)
IMAGE = np.arange(1.0, 1 + 6 * 5 * 2, dtype=np.float32).reshape(6, 5, 2)
IMAGES = np.repeat(IMAGE[None], 4000, axis=0)


def _windows(padded):
    """Each place of the old size in a padded image: bytes -> its corner."""
    rows, columns = padded.shape[0] - 6 + 1, padded.shape[1] - 5 + 1
    return {
        padded[i : i + 6, j : j + 5].tobytes(): (i, j) for i in range(rows) for j in range(columns)
    }


@pytest.mark.parametrize(("mode", "numpy_mode"), [("zero", "constant"), ("reflect", "reflect")])
def test_a_crop_takes_each_place_equally_often(mode, numpy_mode):
    crop = A.random_crop(2, mode=mode)
    places = _windows(np.pad(IMAGE, ((2, 2), (2, 2), (0, 0)), mode=numpy_mode))
    found = [places[image.tobytes()] for image in np.asarray(crop(KEY, IMAGES))]
    counts = np.unique(np.array(found), axis=0, return_counts=True)[1]
    assert len(counts) == 25
    # Chi-squared with 24 degrees of freedom is below 60 in all but 6 of 100 000 cases.
    assert ((counts - 160) ** 2 / 160).sum() < 60
    # Negative control: one place for the whole minibatch, as some codes have it.
    together = np.asarray(crop(KEY, IMAGES[:1]))
    assert len(np.unique(np.repeat(together, 9, axis=0), axis=0)) == 1


def test_a_flip_flips_half_of_them():
    flipped = np.asarray(A.horizontal_flip()(KEY, IMAGES))
    mirrored = (flipped == IMAGE[:, ::-1]).all(axis=(1, 2, 3))
    assert ((flipped == IMAGE).all(axis=(1, 2, 3)) ^ mirrored).all()
    assert abs(mirrored.mean() - 0.5) < 0.04  # five standard deviations


def test_noise_has_its_scale_and_order_counts():
    noise = np.asarray(A.additive_noise(0.3)(KEY, IMAGES)) - IMAGES
    assert abs(noise.std() / 0.3 - 1) < 0.02 and abs(noise.mean()) < 0.01
    twice = A.in_turn(A.additive_noise(1.0), A.additive_noise(1.0))(KEY, jnp.zeros(20_000))
    # Keys of their own: with one key for both the variance would be 4.
    assert abs(np.asarray(twice).var() - 2) < 0.2


def test_the_command_line_knows_all_names():
    assert set(declared(ZooSettings)["augmentation"].choices) == set(NAMED)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: A.random_crop(0), ValueError, "at least 1"),
        (lambda: A.random_crop(mode="mirror"), ValueError, "`mode` of random_crop must be one"),
        (lambda: A.random_crop(5, mode="reflect")(KEY, IMAGES), ValueError, "more than 5 pixels"),
        (lambda: A.horizontal_flip()(KEY, np.zeros((4, 3))), ValueError, "for images of shape"),
        (lambda: A.additive_noise(-1.0), ValueError, "positive and finite"),
        (lambda: A.in_turn(), TypeError, "one augmentation or more"),
    ],
)
def test_bad_arguments(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
