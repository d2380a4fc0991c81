"""Texts as word ids, by the rule that Keras used for its IMDB reviews."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.data.common.arrays import infer_task
from bayesnn_ppl.data.common.dataset import Dataset, assemble_parts
from bayesnn_ppl.data.common.standardisation import Standardisation, Units

NUM_WORDS = 20_000
LENGTH = 100
PADDING, START, UNKNOWN, SHIFT = 0, 1, 2, 3

# ASCII alone is put in lower case, and the bytes of other letters stay what they are.
_SPACES = b'!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
_RULE = bytes.maketrans(_SPACES, b" " * len(_SPACES))


def words(text: str | bytes) -> list[str]:
    """The words of a text.

    ASCII letters are put in lower case, ASCII punctuation other than the apostrophe, tabs and line
    ends become spaces, and the text between spaces is a word. Bytes are UTF-8.
    """
    content = text.encode() if isinstance(text, str) else bytes(text)
    cleaned = content.lower().translate(_RULE).decode(errors="replace")
    return [word for word in cleaned.split(" ") if word]


def build_vocabulary(texts: Iterable[str | bytes]) -> dict[str, int]:
    """The rank of every word: 1 for the most frequent one.

    Words that are equally frequent come in the order in which they first appear. Keras ranks by the
    same rule, but the order of the texts decides between equally frequent words: for IMDB see
    `read_vocabulary`.

    Args:
        texts: of the training rows alone; test rows have no say.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(words(text))
    # Sorting is stable, and a Counter keeps the order of first appearance.
    ranked = sorted(counts, key=counts.__getitem__, reverse=True)
    return {word: rank for rank, word in enumerate(ranked, start=1)}


def encode_texts(
    texts: Sequence[str | bytes],
    vocabulary: Mapping[str, int],
    *,
    num_words: int | None = None,
    length: int | None = None,
) -> np.ndarray:
    """Word ids, in the encoding of Keras.

    A text is the id 1, then for each word its rank plus 3, where ids from `num_words` on become 2;
    words that the vocabulary lacks are left out. The last `length` ids are kept, and shorter texts
    are padded with 0 on the left.

    Args:
        texts: n texts, or their bytes in UTF-8.
        vocabulary: word -> rank, 1 for the most frequent one, as `build_vocabulary` makes it and
            `Dataset.vocabulary` holds it.
        num_words: one more than the largest id, at least 4; None is 20000.
        length: how many ids a text has, at least 1; None is 100.

    Returns:
        int32, shape (n, length).

    Raises:
        TypeError: if `texts` is a single text.
        ValueError: if `num_words` or `length` is out of range.
    """
    if isinstance(texts, str | bytes):
        raise TypeError("`texts` must be a sequence of texts, but is a single one. Pass `[text]`.")
    num_words, length = check_sizes(num_words, length)
    encoded = np.full((len(texts), length), PADDING, np.int32)
    for row, text in zip(encoded, texts, strict=True):
        ranks = [vocabulary[word] for word in words(text) if word in vocabulary]
        ids = [START, *(rank + SHIFT if rank + SHIFT < num_words else UNKNOWN for rank in ranks)]
        kept = ids[-length:]
        row[length - len(kept) :] = kept
    return encoded


def read_vocabulary(path: str | os.PathLike[str]) -> dict[str, int]:
    """A vocabulary from a JSON file, an object with words as keys and ranks from 1 on as values.

    `imdb_word_index.json`, which Keras publishes, is of this form; with it the raw IMDB reviews get
    exactly the ids of `load("imdb")`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not such an object.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"The vocabulary `{path}` does not exist. Pass the path of a JSON file of words and "
            f"ranks; a relative path starts at `{Path.cwd()}`."
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"The vocabulary `{path}` is not a JSON file ({error}).") from error
    good = isinstance(content, dict) and all(
        isinstance(rank, int) and not isinstance(rank, bool) and rank > 0
        for rank in content.values()
    )
    if not (good and content):
        raise ValueError(
            f"The vocabulary `{path}` must be a JSON object whose keys are words and whose values "
            'are ranks, integers from 1 on, such as {"the": 1, "and": 2}.'
        )
    return content


def from_ids(
    parts: Mapping[str, tuple[np.ndarray, np.ndarray]],
    *,
    vocabulary: Mapping[str, int],
    standardise: Units,
    subject: str,
    class_names: Sequence[str] | None,
    **described: Any,
) -> Dataset:
    """A `Dataset` from word ids, shape (n, length), and targets in the data's units.

    Ids are names of words, which are never standardised; regression targets are.

    Args:
        parts: "train", "test" and perhaps "validation".
        subject: what holds the texts, as the subject of a sentence.
        described: further fields of the `Dataset`.
    """
    x, y = parts["train"]
    for part, (_, targets) in parts.items():
        if not np.isfinite(targets).all():
            raise ValueError(f"{subject} has targets in its part `{part}` that are not numbers.")
    if y.min() == y.max():
        raise ValueError(
            f"{subject} has the same target, {y.flat[0]}, in all {len(y)} training rows, so there "
            "is nothing to learn. Choose more rows with `subset`, or another target."
        )
    if class_names is None and infer_task(y) == "classification":
        class_names = [str(label) for label in range(int(y.max()) + 1)]
    standardisation = Standardisation.identity(x.shape[1])
    if class_names is None and standardise:
        none = np.zeros((len(y), 1))
        units = Standardisation.fit(none, y, "regression", standardise=standardise)
        standardisation = replace(standardisation, y_mean=units.y_mean, y_scale=units.y_scale)
    return assemble_parts(
        parts,
        standardisation,
        vocabulary=dict(vocabulary),
        feature_names=[f"word {position}" for position in range(x.shape[1])],
        class_names=class_names,
        **described,
    )


def check_sizes(num_words: int | None, length: int | None) -> tuple[int, int]:
    """`num_words` and `length`, or what they are by default; ValueError if out of range."""
    sizes = []
    for option, value, default, minimum in (
        ("num_words", num_words, NUM_WORDS, SHIFT + 1),
        ("length", length, LENGTH, 1),
    ):
        chosen = default if value is None else value
        whole = isinstance(chosen, int | np.integer) and not isinstance(chosen, bool)
        if not whole or chosen < minimum:
            raise ValueError(
                f"`{option}` must be an integer of at least {minimum}, but is {value!r}."
            )
        sizes.append(int(chosen))
    return sizes[0], sizes[1]
