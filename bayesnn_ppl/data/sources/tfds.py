"""Data sets of TensorFlow Datasets, prepared and read without TensorFlow."""

import os
from typing import Any

import numpy as np

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.data.common.checks import lower
from bayesnn_ppl.data.common.dataset import Dataset, assemble_parts, content_hash
from bayesnn_ppl.data.common.given_parts import from_split
from bayesnn_ppl.data.common.pixels import CHANNELS, channel_moments, scaled
from bayesnn_ppl.data.common.splits import Preparation
from bayesnn_ppl.data.common.standardisation import Standardisation
from bayesnn_ppl.data.common.text import (
    build_vocabulary,
    check_sizes,
    encode_texts,
    from_ids,
    read_vocabulary,
)
from bayesnn_ppl.data.sources.images import SETS as PUBLISHED
from bayesnn_ppl.data.sources.images import check_subset
from bayesnn_ppl.data.sources.tfds_builders import find_builder, prepare, quiet
from bayesnn_ppl.data.sources.without_tensorflow import local_files

_BLOCK = 1_000


@strict_switches
def load_tfds(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    manual_dir: str | os.PathLike[str] | None = None,
    target: str | None = None,
    test_fraction: float | None = None,
    split: int = 0,
    subset: int | None = None,
    standardise: bool = True,
    num_words: int | None = None,
    length: int | None = None,
    vocabulary: str | os.PathLike[str] | None = None,
) -> Dataset:
    """A data set of TensorFlow Datasets (TFDS), in its order of rows.

    It is prepared once, as ArrayRecord files, in `data_dir`. What it needs is taken from
    `manual_dir` or downloaded. The parts `train`, `test` and `validation` of TFDS are kept; where
    there is no `test`, `validation` takes its place; where there is only `train`, it is split by
    the published rule.

    Args:
        name: a name of TFDS, such as "mnist" or "mnist:3.0.1", of a set with one feature of
            numbers, one image or one text for each row. Own builders are known once their class is
            defined.
        data_dir: where prepared data are; None is the folder of TFDS.
        manual_dir: a folder with archives that were downloaded by hand.
        target: the feature to predict; None is the one that TFDS names.
        test_fraction, split: as `from_arrays`, where there is only a `train` part.
        subset: the first so many training rows; None takes all.
        standardise: whether to standardise: images of MNIST, Fashion-MNIST and CIFAR by the usual
            means and scales, others by the moments of the training rows. False leaves images in
            [0, 1].
        num_words, length: of texts, as `encode_texts`; None is 20000 and 100.
        vocabulary: of texts, a file as `read_vocabulary` takes it. None ranks the words of the
            training rows, all of them whatever `subset` is (`build_vocabulary`).

    Texts become word ids by the rule of Keras (`encode_texts`). With a vocabulary of our own the
    ids of `imdb_reviews` are not those of Keras's `imdb.npz` and of `load("imdb")`: words that are
    equally frequent change places. With `vocabulary="imdb_word_index.json"`, which Keras
    publishes, they are the same.

    Raises:
        FileNotFoundError: if something is to be downloaded and cannot be.
        ValueError: if TFDS does not know the name, the data have no single feature and target that
            are numbers, or an option is out of range.
    """
    subject = f"The TFDS data set `{name}`"
    choices = {"num_words": num_words, "length": length, "vocabulary": vocabulary}
    check_sizes(num_words, length)
    words = read_vocabulary(vocabulary) if vocabulary is not None else None
    builder = find_builder(name, data_dir)
    prepare(builder, name, manual_dir)
    feature, label = _keys(builder.info, target, subject)
    text = _is_text(builder.info.features[feature])
    if not text and (given := [f"`{key}`" for key, value in choices.items() if value is not None]):
        raise ValueError(
            f"{' and '.join(given)} cannot be chosen for {lower(subject)}: they "
            f"are for texts, and its input `{feature}` is none."
        )
    names = _parts(builder, subject)
    preparation = Preparation(test_fraction, split, standardise)
    if len(names) > 1:
        preparation.require_no_choice(subject)
    check_subset(subset, builder.info.splits["train"].num_examples, name)
    parts = {part: _rows(builder, part, feature, label) for part in names}
    classes = getattr(builder.info.features[label], "names", None)
    for part, (_, y) in parts.items():
        if classes is not None and y.min() < 0:
            raise ValueError(
                f"{subject} has {int((y < 0).sum())} of {len(y)} rows without a label in its part "
                f"`{part}`, so it can be used neither to train nor to test."
            )
    x, y = parts["train"]
    if "test" not in parts and "validation" in parts:
        parts["test"] = parts.pop("validation")
    sha256 = content_hash(*(_hashable(array) for part in sorted(parts) for array in parts[part]))
    if "test" not in parts:
        train, test = preparation.rows(len(y))
        parts = {"train": (x[train], y[train]), "test": (x[test], y[test])}
    if text and words is None:
        words = build_vocabulary(parts["train"][0])
    parts["train"] = parts["train"][0][:subset], parts["train"][1][:subset]
    common: dict[str, Any] = {
        "name": f"tfds:{builder.info.name}",
        "target_name": label,
        "class_names": classes,
        "description": f"{builder.info.full_name} of TensorFlow Datasets, in its order of rows.",
    }
    if words is not None:
        encoded = {
            part: (encode_texts(list(x), words, num_words=num_words, length=length), y)
            for part, (x, y) in parts.items()
        }
        return from_ids(
            encoded,
            vocabulary=words,
            subject=subject,
            standardise=standardise,
            sha256=sha256,
            **common,
        )
    if x.dtype != np.uint8 or x.ndim != 4:
        return from_split(
            parts,
            task="classification" if classes is not None else None,
            subject=subject,
            standardise=standardise,
            **common,
        )
    standardisation = _image_standardisation(builder.info.name, parts["train"][0], standardise)
    return assemble_parts(
        {part: (scaled(x, standardisation), y) for part, (x, y) in parts.items()},
        standardisation,
        feature_names=CHANNELS[x.shape[-1]],
        sha256=sha256,
        **common,
    )


def _parts(builder: Any, subject: str) -> list[str]:
    found = [part for part in ("train", "test", "validation") if part in builder.info.splits]
    if "train" not in found:
        raise ValueError(
            f"{subject} has no part `train`; its parts are {', '.join(builder.info.splits)}."
        )
    return found


def _keys(info: Any, target: str | None, subject: str) -> tuple[str, str]:
    """The names of the input and of the target feature."""
    if not hasattr(info.features, "keys"):
        raise ValueError(f"{subject} has no named features, so none can be told as the target.")
    features = list(info.features)
    known = tuple(info.supervised_keys or ())
    label = target or (known[-1] if len(known) > 1 else None)
    listed = ", ".join(f"`{feature}`" for feature in features)
    if label is None or label not in features:
        lacks = f"has no feature `{label}`" if label else "names no target"
        raise ValueError(f"{subject} {lacks}. Pass `target`; its features are {listed}.")
    feature = known[0] if known else None
    if feature is None or feature == label:
        rest = [name for name in features if name != label]
        feature = rest[0] if len(rest) == 1 else None
    if feature is None or feature not in features:
        raise ValueError(
            f"{subject} does not say which one feature is the input; its features are {listed}. "
            "Write a builder that joins the inputs into one."
        )
    for key in (feature, label):
        kind = info.features[key]
        numbers = not hasattr(kind, "keys") and np.dtype(kind.np_dtype).kind in "biuf"
        if not numbers and not (key == feature and _is_text(kind)):
            raise ValueError(
                f"{subject} has the feature `{key}` of type {kind}, but only numbers, images and "
                "texts can be inputs, and only numbers targets."
            )
    return feature, label


def _is_text(kind: Any) -> bool:
    """Whether a feature is one text for each row, not encoded by TFDS."""
    import tensorflow_datasets as tfds

    return isinstance(kind, tfds.features.Text) and kind.encoder is None


def _hashable(array: np.ndarray) -> np.ndarray:
    """Texts as one array of bytes, each with its length before it; numbers as they are."""
    if array.dtype != np.object_:
        return array
    content = b"".join(len(text).to_bytes(8, "little") + text for text in array)
    return np.frombuffer(content, np.uint8)


def _rows(builder: Any, part: str, feature: str, label: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a part; features of numbers are flattened to (n, d), texts are bytes (n,)."""
    text = _is_text(builder.info.features[feature])
    with local_files(), quiet():
        source = builder.as_data_source(split=part)
        x = y = None
        for start in range(0, len(source), _BLOCK):
            records = source.__getitems__(range(start, min(start + _BLOCK, len(source))))
            if x is None or y is None:
                first = np.asarray(records[0][feature], np.object_ if text else None)
                x = np.empty((len(source), *first.shape), first.dtype)
                y = np.empty(len(source), np.asarray(records[0][label]).dtype)
            try:
                x[start : start + _BLOCK] = [record[feature] for record in records]
                y[start : start + _BLOCK] = [record[label] for record in records]
            except ValueError as error:
                raise ValueError(
                    f"The part `{part}` of the TFDS data set `{builder.info.name}` has rows whose "
                    f"`{feature}` or `{label}` differ in shape ({error}). A network needs inputs "
                    "of one shape and one target for each."
                ) from error
    if x is None or y is None:
        raise ValueError(f"The part `{part}` of the TFDS data set `{builder.info.name}` is empty.")
    if x.dtype == np.object_:
        return x, y
    image = x.dtype == np.uint8 and x.ndim == 4 and x.shape[-1] in CHANNELS
    return (x if image else x.reshape(len(x), -1)), y


def _image_standardisation(name: str, train: np.ndarray, standardise: bool) -> Standardisation:
    if not standardise:
        return Standardisation.identity(train.shape[-1])
    entry = PUBLISHED.get(name)
    if entry is None:
        return channel_moments(train)
    return Standardisation(np.array(entry.mean), np.array(entry.scale), 0.0, 1.0)
