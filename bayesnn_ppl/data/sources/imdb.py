"""IMDB reviews as word ids, read from the folder in BAYESNN_DATA."""

import os
from functools import lru_cache
from pathlib import Path

import numpy as np

from bayesnn_ppl.data.common.dataset import Dataset, assemble_parts, content_hash
from bayesnn_ppl.data.common.pixels import tfds_sorted
from bayesnn_ppl.data.common.standardisation import Standardisation
from bayesnn_ppl.data.common.stored_files import VARIABLE, locate, read_archive, verify_arrays
from bayesnn_ppl.data.common.text import PADDING, SHIFT, START, UNKNOWN, check_sizes
from bayesnn_ppl.data.sources.images import check_choice, check_subset

ORDERS = ("keras", "original", "tfds")
VALIDATION_ROWS = 5_000
SETS = {
    "imdb": "Film reviews as word ids, positive or negative: 20000 to train, 5000 to validate and "
    f"25000 to test (Maas et al. 2011); needs {VARIABLE}."
}

_CHECKSUMS = {
    "tokens_train": "839f238f42e49ed32804afd9148bb93e9a84328e97603b7bcd0a830b148a4281",
    "offsets_train": "b3f72486a56fc4ec74ec7c7f30c6c902a4b06211b32151ae12c7311831aae4a1",
    "y_train": "e49003797dc73de3fffae0ea48988eada25b70ae7edc6c17a1ba5a78aa44eee4",
    "keras_perm_train": "0306451e7c5830c97b1afc1cc860306c7df726f1cb0b9c41e15f90fbea76003a",
    "tokens_test": "88455a6ba2a9e95ffeb943b563f338f13951733bc0c8fee0892a4f9f2d72f23c",
    "offsets_test": "4e6690c14d6f7c74e159ec27192aacfb56c9cd968acec36764ae720f06394622",
    "y_test": "e49003797dc73de3fffae0ea48988eada25b70ae7edc6c17a1ba5a78aa44eee4",
    "keras_perm_test": "904be7ce9d3749975d2c41e577de39c867e0e966bdcb7f9dee78824b756e079b",
}

# Of the file names, which the order of TFDS hangs on; they are not part of the data's hash.
_NAMES = {
    "review_id_train": "222e2a1052d7a5ea3ec22b0a68e66ddb0dd95599b100df79238e4066421659e4",
    "rating_train": "8748fb5bd4c4975337ec8afae804a35187593a08c099b2c26051823a419672fa",
    "review_id_test": "222e2a1052d7a5ea3ec22b0a68e66ddb0dd95599b100df79238e4066421659e4",
    "rating_test": "6697b42cc1712293c19c13e5f43abb387ef37fe4527959f1feaa49273bd70475",
}


def load_imdb(
    *,
    order: str | None = None,
    subset: int | None = None,
    num_words: int | None = None,
    length: int | None = None,
) -> Dataset:
    """The reviews in the encoding of Keras, as Izmailov et al. (2021, arXiv:2104.14421) use them.

    A review is the id 1, then for each word its rank by frequency plus 3, where ids from
    `num_words` on become 2; its last `length` ids are kept, and shorter ones are padded with 0 on
    the left. Of the 25000 training reviews in the order of Keras (seed 113) the first 20000 train
    and the last 5000 validate. Inputs are int32 (n, length); there is nothing to standardise.

    Args:
        order: "keras" (None), or "original": each part in the order of the files, all positive
            reviews first, which is the order of the published HMC predictions; or "tfds": each part
            in the order of `imdb_reviews` of TensorFlow Datasets. It does not change which part a
            review is in.
        subset: the first so many training rows in that order; None takes all 20000. With "original"
            those of Keras's order, put in order, since the first 10000 are all positive.
        num_words: one more than the largest id, at least 4; None is 20000.
        length: how many ids a review has; None is 100.

    Raises:
        ValueError: if an option is out of range, or a checksum differs from the published one.
        FileNotFoundError: if the file is not there.
    """
    chosen = check_choice("order", order, ORDERS)
    num_words, length = check_sizes(num_words, length)
    keys = ", ".join(f"`{key}`" for key in _CHECKSUMS | _NAMES)
    contents = f"a NumPy archive with word ranks, offsets, labels and the orders of Keras: {keys}"
    path = locate("imdb.npz", "imdb", contents)
    arrays = _read(path, os.stat(path).st_mtime_ns)
    training_rows = len(arrays["y_train"]) - VALIDATION_ROWS
    check_subset(subset, training_rows, "imdb")
    train, test = arrays["keras_perm_train"], arrays["keras_perm_test"]
    parts = [("train", train[:training_rows]), ("train", train[training_rows:]), ("test", test)]
    if chosen == "original":
        parts[0] = ("train", parts[0][1][:subset])
        parts = [(which, np.sort(rows)) for which, rows in parts]
    elif chosen == "tfds":
        place = {which: np.argsort(_tfds_order(arrays, which)) for which in ("train", "test")}
        parts = [(which, rows[np.argsort(place[which][rows])]) for which, rows in parts]
    parts[0] = ("train", parts[0][1][:subset])
    pairs = [
        (_encoded(arrays, which, rows, num_words, length), arrays[f"y_{which}"][rows])
        for which, rows in parts
    ]
    return assemble_parts(
        dict(zip(("train", "validation", "test"), pairs, strict=True)),
        Standardisation.identity(length),
        name="imdb",
        feature_names=[f"word {position}" for position in range(length)],
        target_name="sentiment",
        class_names=("negative", "positive"),
        description=SETS["imdb"],
        sha256=content_hash(*(arrays[key] for key in sorted(_CHECKSUMS))),
    )


def _encoded(
    arrays: dict[str, np.ndarray], part: str, rows: np.ndarray, num_words: int, length: int
) -> np.ndarray:
    """The ids of some reviews, int32 (rows, length)."""
    tokens, offsets = arrays[f"tokens_{part}"], arrays[f"offsets_{part}"]
    begin, end = offsets[rows], offsets[rows + 1]
    # Where in `tokens` the word of each place stands; the start id is one before the first word.
    places = end[:, None] - length + np.arange(length)
    ids = tokens[np.clip(places, 0, len(tokens) - 1)] + SHIFT
    ids[ids >= num_words] = UNKNOWN
    ids[places == begin[:, None] - 1] = START
    ids[places < begin[:, None] - 1] = PADDING
    return ids.astype(np.int32)


def _tfds_order(arrays: dict[str, np.ndarray], part: str) -> np.ndarray:
    """The row here of each review in the order of TFDS, which hashes the paths in the archive."""
    folders = ("neg", "pos")
    described = zip(*(arrays[f"{key}_{part}"] for key in ("y", "review_id", "rating")), strict=True)
    return tfds_sorted(
        part, [f"aclImdb/{part}/{folders[y]}/{name}_{rating}.txt" for y, name, rating in described]
    )


@lru_cache(maxsize=1)
def _read(path: Path, stamp: int) -> dict[str, np.ndarray]:
    """The arrays, checked once per process and state of the file."""
    checksums = _CHECKSUMS | _NAMES
    arrays = read_archive(path, tuple(checksums))
    verify_arrays(arrays, checksums, "imdb", path)
    return arrays
