"""Builders of TensorFlow Datasets: found by name, and prepared without TensorFlow."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from bayesnn_ppl.data.common import checks
from bayesnn_ppl.data.sources.without_tensorflow import local_files


def find_builder(name: str, data_dir: str | os.PathLike[str] | None) -> Any:
    """The builder of a name; ValueError where TFDS does not know it."""
    import tensorflow_datasets as tfds

    folder = None if data_dir is None else os.fspath(data_dir)
    try:
        with quiet():
            return tfds.builder(name, data_dir=folder, file_format="array_record")
    except tfds.core.DatasetNotFoundError as error:
        known = tfds.list_builders(with_community_datasets=False)
        raise ValueError(
            f"TensorFlow Datasets has no data set `{name}`.{checks.nearest(name, known)} Its "
            "catalogue lists them; the class of an own builder must be defined before."
        ) from error


def prepare(builder: Any, name: str, manual_dir: str | os.PathLike[str] | None) -> None:
    """Write the ArrayRecord files, unless they are there."""
    import tensorflow_datasets as tfds

    with quiet():
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
        with local_files(), quiet():
            builder.download_and_prepare(download_config=config, file_format="array_record")
    except tfds.core.download.download_manager.NonMatchingChecksumError as error:
        raise ValueError(
            f"A file for the TFDS data set `{name}` is not the published one ({error}). Replace it "
            f"in `manual_dir`."
        ) from error
    except (OSError, AssertionError) as error:
        raise FileNotFoundError(
            f"The TFDS data set `{name}` is not prepared in `{builder.data_dir}`, and what it "
            f"needs is not available ({type(error).__name__}: {str(error).strip()[:300]}). Lay "
            f"{_wanted(builder)} in a folder, and pass it as `manual_dir`."
        ) from error
    except ImportError as error:
        raise ImportError(
            f"The TFDS data set `{name}` cannot be prepared without a package that is missing: "
            f"{_root(error)}. Install it, or prepare the data elsewhere with "
            "`download_and_prepare(file_format='array_record')` and pass that `data_dir`."
        ) from error


def _root(error: BaseException) -> BaseException:
    """The first error of a chain: TFDS puts whole records before its message."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


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


@contextmanager
def quiet() -> Iterator[None]:
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
