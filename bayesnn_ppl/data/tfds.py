"""Data sets of TensorFlow Datasets, prepared and read without TensorFlow."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.data import checks
from bayesnn_ppl.data.dataset import Dataset, assemble_parts, content_hash
from bayesnn_ppl.data.given_split import from_split
from bayesnn_ppl.data.images import SETS as PUBLISHED
from bayesnn_ppl.data.images import check_subset
from bayesnn_ppl.data.pixels import CHANNELS, channel_moments, scaled
from bayesnn_ppl.data.splits import TEST_FRACTION, split_rows
from bayesnn_ppl.data.standardisation import Standardisation
from bayesnn_ppl.data.without_tensorflow import local_files

_BLOCK = 1_000


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
) -> Dataset:
    """A data set of TensorFlow Datasets (TFDS), in its order of rows.

    It is prepared once, as ArrayRecord files, in `data_dir`. What it needs is taken from
    `manual_dir` or downloaded. The parts `train`, `test` and `validation` of TFDS are kept; where
    there is no `test`, `validation` takes its place; where there is only `train`, it is split by
    the published rule.

    Args:
        name: a name of TFDS, such as "mnist" or "mnist:3.0.1", of a set with one feature of
            numbers or one image for each row. Own builders are known once their class is defined.
        data_dir: where prepared data are; None is the folder of TFDS.
        manual_dir: a folder with archives that were downloaded by hand.
        target: the feature to predict; None is the one that TFDS names.
        test_fraction, split: as `from_arrays`, where there is only a `train` part.
        subset: the first so many training rows; None takes all.
        standardise: whether to standardise: images of MNIST, Fashion-MNIST and CIFAR by the usual
            means and scales, others by the moments of the training rows. False leaves images in
            [0, 1].

    Raises:
        FileNotFoundError: if something is to be downloaded and cannot be.
        ValueError: if TFDS does not know the name, the data have no single feature and target that
            are numbers, or an option is out of range.
    """
    subject = f"The TFDS data set `{name}`"
    builder = _builder(name, data_dir)
    _prepare(builder, name, manual_dir)
    feature, label = _keys(builder.info, target, subject)
    names = _parts(builder, subject)
    if len(names) > 1 and (split != 0 or test_fraction is not None):
        raise ValueError(
            f"{subject} has a split of its own, so `split` and `test_fraction` cannot be chosen."
        )
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
    sha256 = content_hash(*(array for part in sorted(parts) for array in parts[part]))
    if "test" not in parts:
        fraction = TEST_FRACTION if test_fraction is None else test_fraction
        train, test = split_rows(len(y), split, test_fraction=fraction)
        parts = {"train": (x[train], y[train]), "test": (x[test], y[test])}
    parts["train"] = parts["train"][0][:subset], parts["train"][1][:subset]
    common: dict[str, Any] = {"name": f"tfds:{builder.info.name}", "target_name": label}
    description = f"{builder.info.full_name} of TensorFlow Datasets, in its order of rows."
    if x.dtype != np.uint8 or x.ndim != 4:
        return from_split(
            parts["train"],
            parts["test"],
            validation=parts.get("validation"),
            task="classification" if classes is not None else None,
            subject=subject,
            standardise=standardise,
            class_names=classes,
            description=description,
            **common,
        )
    standardisation = _image_standardisation(builder.info.name, parts["train"][0], standardise)
    mapped = {part: (scaled(x, standardisation), y) for part, (x, y) in parts.items()}
    return assemble_parts(
        train=mapped["train"],
        test=mapped["test"],
        validation=mapped.get("validation"),
        task="classification" if classes is not None else "regression",
        standardisation=standardisation,
        feature_names=CHANNELS[x.shape[-1]],
        class_names=classes,
        description=description,
        sha256=sha256,
        **common,
    )


def _builder(name: str, data_dir: str | os.PathLike[str] | None) -> Any:
    import tensorflow_datasets as tfds

    folder = None if data_dir is None else os.fspath(data_dir)
    try:
        with _quiet():
            return tfds.builder(name, data_dir=folder, file_format="array_record")
    except tfds.core.DatasetNotFoundError as error:
        known = tfds.list_builders(with_community_datasets=False)
        raise ValueError(
            f"TensorFlow Datasets has no data set `{name}`.{checks.nearest(name, known)} Its "
            "catalogue lists them; the class of an own builder must be defined before."
        ) from error


def _prepare(builder: Any, name: str, manual_dir: str | os.PathLike[str] | None) -> None:
    """Write the ArrayRecord files, unless they are there."""
    import tensorflow_datasets as tfds

    with _quiet():
        if builder.is_prepared():
            return
    if manual_dir is not None and not Path(manual_dir).is_dir():
        raise FileNotFoundError(
            f"`manual_dir` is `{manual_dir}`, but there is no such folder. Make it, and lay "
            f"{_wanted(builder)} there."
        )
    config = tfds.download.DownloadConfig(
        manual_dir=None if manual_dir is None else os.fspath(Path(manual_dir).absolute()),
        # Prepared copies in the cloud are in another format, which needs TensorFlow.
        try_download_gcs=False,
    )
    try:
        with local_files(), _quiet():
            builder.download_and_prepare(download_config=config, file_format="array_record")
    except tfds.core.download.download_manager.NonMatchingChecksumError as error:
        raise ValueError(
            f"A file for the TFDS data set `{name}` is not the published one ({error}). Replace it "
            f"in `manual_dir`."
        ) from error
    except (OSError, AssertionError) as error:
        raise FileNotFoundError(
            f"The TFDS data set `{name}` is not prepared in `{builder.data_dir}`, and what it "
            f"needs could not be had ({type(error).__name__}: {str(error).strip()[:300]}). Lay "
            f"{_wanted(builder)} in a folder, and pass it as `manual_dir`."
        ) from error
    except ImportError as error:
        raise ImportError(
            f"The TFDS data set `{name}` cannot be prepared without a package that is missing: "
            f"{error}. Install it, or prepare the data elsewhere with "
            "`download_and_prepare(file_format='array_record')` and pass that `data_dir`."
        ) from error


def _wanted(builder: Any) -> str:
    """The files that a builder reads, by name."""
    files = [
        f"`{info.filename or Path(url).name}` (from {url})"
        for url, info in (builder.url_infos or {}).items()
    ]
    instructions = (builder.MANUAL_DOWNLOAD_INSTRUCTIONS or "").strip()
    if not files:
        return f"the files of these instructions ({instructions})" if instructions else "its files"
    return checks.listing(files)


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
        if not numbers:
            raise ValueError(
                f"{subject} has the feature `{key}` of type {kind}, but only numbers and images "
                "can be loaded."
            )
    return feature, label


def _rows(builder: Any, part: str, feature: str, label: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a part; features of numbers are flattened to (n, d)."""
    with local_files(), _quiet():
        source = builder.as_data_source(split=part)
        x = y = None
        for start in range(0, len(source), _BLOCK):
            records = source.__getitems__(range(start, min(start + _BLOCK, len(source))))
            if x is None or y is None:
                first = np.asarray(records[0][feature])
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
    image = x.dtype == np.uint8 and x.ndim == 4 and x.shape[-1] in CHANNELS
    return (x if image else x.reshape(len(x), -1)), y


def _image_standardisation(name: str, train: np.ndarray, standardise: bool) -> Standardisation:
    if not standardise:
        return Standardisation.identity(train.shape[-1])
    # CIFAR-100 is mapped as CIFAR-10 is.
    entry = PUBLISHED.get("cifar10" if name == "cifar100" else name)
    if entry is None:
        return channel_moments(train)
    return Standardisation(np.array(entry.mean), np.array(entry.scale), 0.0, 1.0)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the bars and log lines of TFDS, and its messages not on the standard output."""
    import tensorflow_datasets as tfds

    logger = logging.getLogger("absl")
    level, shown = logger.level, tfds.core.utils.tqdm_utils._active
    logger.setLevel(logging.ERROR)
    tfds.display_progress_bar(False)
    try:
        # A command that prints JSON must not print anything else.
        with redirect_stdout(sys.stderr):
            yield
    finally:
        logger.setLevel(level)
        tfds.display_progress_bar(shown)
