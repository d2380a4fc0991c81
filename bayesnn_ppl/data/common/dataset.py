"""A data set with its training and test rows, its units and a hash of its content."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np

from bayesnn_ppl.core.arguments import html_table, readable
from bayesnn_ppl.data.common.checks import check_finite, check_units, numeric
from bayesnn_ppl.data.common.encoding import TableEncoding, new_features
from bayesnn_ppl.data.common.frames import NEW_ROWS, as_pandas
from bayesnn_ppl.data.common.standardisation import Standardisation, Task, Units
from bayesnn_ppl.data.common.target import Labels, StandardisedTarget, Target

_MOST_NAMES = 12  # in a table

type Pair = tuple[np.ndarray, np.ndarray]


class Facts(TypedDict):
    """What a data set says of itself, as the fields of `Dataset`; None for regression."""

    name: str
    feature_names: Sequence[str]
    target_name: str
    class_names: Sequence[str] | None
    description: str


@readable
@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Inputs and targets of the rows of one part; unpacks to `x, y`.

    `len(part)` is the number of rows, and `part[:100]`, `part[rows]` with integers or a mask are
    those rows.

    Attributes:
        x: float32, shape (n, d), or (n, ..., channels) such as images (n, height, width,
            channels); int32 of shape (n, length) for the token ids of a text.
        y: a float32 `StandardisedTarget` of shape (n,) or (n, k) for regression; int32 `Labels`
            0..K-1 of shape (n,) for classification.

    Raises:
        TypeError: `part[0]`, which could be x as well as a row.
    """

    x: np.ndarray
    y: np.ndarray

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.x, self.y))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Any) -> "Split":
        if isinstance(rows, int | np.integer | tuple):
            raise TypeError(
                f"`part[{rows!r}]` is neither a row nor x or y here. `part.x` and `part.y` are the "
                "arrays; `part[:100]`, or `part[rows]` with an array of integers or a mask, are "
                "rows."
            )
        return Split(self.x[rows], self.y[rows])


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set, split and (unless switched off) standardised with its training rows.

    Its arrays are read-only.

    Attributes:
        name: the name it is loaded by.
        train, test: the two parts, each a `Split`. The training part of a set that serves only to
            test, such as `cifar100_ood`, has no rows.
        task: "regression" or "classification".
        feature_names: one name for each column, or channel, of x.
        target_name: the name of the target.
        class_names: the name of each label, in the order 0..K-1; None for regression.
        standardisation: the map from the data's units to those of `train` and `test`.
        description: what the data are and where they come from, in one or two sentences.
        sha256: hash of the values, shapes and types of all x and y in the data's units, in their
            original order; it does not depend on the split.
        validation: a third part, where a published protocol or the source has one; else None.
        vocabulary: the rank of each word, where x holds the ids of texts that were encoded here
            (`encode_texts` encodes new ones with it); else None.
        loaded_by: the arguments of `data.load` that bring it back; None of arrays in memory.
        encoding: how the columns of a table became features; None where they are the features.
    """

    name: str
    train: Split
    test: Split
    task: Task
    feature_names: tuple[str, ...]
    target_name: str
    class_names: tuple[str, ...] | None
    standardisation: Standardisation
    description: str
    sha256: str
    validation: Split | None = None
    vocabulary: Mapping[str, int] | None = None
    loaded_by: Mapping[str, Any] | None = None
    encoding: TableEncoding | None = None

    def __post_init__(self) -> None:
        facts = {
            "name": self.name,
            "loaded_by": None if self.loaded_by is None else dict(self.loaded_by),
            "sha256": self.sha256,
            "task": self.task,
            "feature_names": list(self.feature_names),
            "target_name": self.target_name,
            "class_names": None if self.class_names is None else list(self.class_names),
            "encoding": None if self.encoding is None else self.encoding.to_list(),
        }
        for part in (self.train, self.test, self.validation):
            if part is not None and isinstance(part.y, Target):
                part.y.dataset = facts

    @property
    def classes(self) -> int | None:
        """The number of classes K; None for regression."""
        return None if self.class_names is None else len(self.class_names)

    def transform(self, rows: Any) -> np.ndarray:
        """New inputs in the data's units, as the rows of `train.x` are: ready for `predict`.

        Args:
            rows: an array (n, ...) of the features of `train.x` in their order, or a table of
                pandas or polars, whose columns are matched by name; others are ignored.

        Returns:
            float32 (n, ...), standardised as the training rows were, which the array knows: it
            is refused with `raw=True`. A NumPy function of it gives a plain array. int32 for
            token ids.

        Raises:
            ValueError: a feature is absent, no number, missing or infinite, or rows have another
                shape than those of `train.x`.

        Example:
            >>> import bayesnn_ppl as bnn
            >>> data = bnn.data.load("diabetes")
            >>> patient = data.standardisation.undo_x(data.test.x[:1])
            >>> bool(abs(data.transform(patient) - data.test.x[:1]).max() < 1e-4)
            True
        """
        if (table := as_pandas(rows)) is not None:
            x = new_features(table, self.feature_names, self.encoding, NEW_ROWS)
        else:
            x, shape = numeric(rows, "rows"), self.train.x.shape[1:]
            if x.shape[1:] != shape or x.ndim == 0:
                one = " Give one row as `rows[None]`." if x.shape == shape else ""
                raise ValueError(
                    f"`rows` has shape {x.shape}, but must have shape (n, "
                    f"{', '.join(map(str, shape))}) as the inputs of `{self.name}`.{one}"
                )
            if self.train.x.dtype == np.int32:
                return x.astype(np.int32)
            check_finite(x, self.feature_names, NEW_ROWS)
        return self.standardisation.apply_x(x).astype(np.float32)

    def _repr_html_(self) -> str:
        units = "the data's" if self.standardisation.is_identity else "standardised"
        encoded = () if self.encoding is None else self.encoding.rows()
        columns = [(f"{name} ({kind})", becomes) for name, kind, becomes in encoded]
        rows = [
            ("task", self.task),
            ("rows", f"{len(self.train.x)} for training, {len(self.test.x)} for tests"),
            ("features", f"{self.train.x.shape[1:]}: {_few(self.feature_names)}"),
            *columns,
            ("target", self.target_name),
            ("classes", _few(self.class_names or ())),
            ("units", units),
            ("source", self.description),
        ]
        return html_table(f"Dataset {self.name}", [row for row in rows if row[1]])

    def __repr__(self) -> str:
        kind = self.task if self.classes is None else f"{self.task} of {self.classes} classes"
        features = "x".join(map(str, self.train.x.shape[1:]))
        units = "in the data's units" if self.standardisation.is_identity else "standardised"
        return (
            f"Dataset({self.name!r}: {kind}, {len(self.train.x)} training and "
            f"{len(self.test.x)} test rows, {features} features, "
            f"target {self.target_name!r}, {units}"
            + ("" if self.encoding is None else f"; {self.encoding.summary()}")
            + ")"
        )


def assemble(
    x: np.ndarray,
    y: np.ndarray,
    train_rows: np.ndarray,
    test_rows: np.ndarray,
    *,
    standardise: Units,
    **facts: Unpack[Facts],
) -> Dataset:
    """Build a `Dataset` from checked arrays in the data's units and two sets of rows.

    Args:
        x: shape (n, d) or (n, ..., channels).
        y: labels of shape (n,), or regression targets of shape (n,) or (n, k).
        train_rows, test_rows: integer rows of x and y.
    """
    check_units(standardise)
    shared = np.intersect1d(train_rows, test_rows)
    if shared.size:
        raise ValueError(
            f"The split of the data set `{facts['name']}` puts {shared.size} rows into both the "
            f"training and the test part (first row {shared[0]}, counted from 0). Its file is "
            "damaged."
        )
    if standardise:
        task: Task = "regression" if facts["class_names"] is None else "classification"
        standardisation = Standardisation.fit(
            x[train_rows], y[train_rows], task, standardise=standardise
        )
    else:
        standardisation = Standardisation.identity(x.shape[-1], y.shape[1] if y.ndim > 1 else None)
    parts = {
        part: (standardisation.apply_x(x[rows]), y[rows])
        for part, rows in (("train", train_rows), ("test", test_rows))
    }
    return assemble_parts(parts, standardisation, sha256=content_hash(x, y), **facts)


def assemble_parts(
    parts: Mapping[str, Pair],
    standardisation: Standardisation,
    *,
    sha256: str,
    vocabulary: Mapping[str, int] | None = None,
    **facts: Unpack[Facts],
) -> Dataset:
    """Build a `Dataset` from parts whose split is given.

    Args:
        parts: (x, y) of "train", "test" and perhaps "validation": x as the network shall see it,
            already mapped by `standardisation` (kept as it is when float32 or int32, otherwise
            cast to float32), and y in the data's units.
    """
    class_names = facts["class_names"]

    def split(x: np.ndarray, y: np.ndarray) -> Split:
        kept = x.dtype in (np.float32, np.int32)
        inputs = _frozen(np.asarray(x if kept else x.astype(np.float32)))
        if class_names is not None:
            return Split(inputs, Labels(_frozen(y.astype(np.int32)), standardisation))
        targets = _frozen(standardisation.apply_y(y).astype(np.float32))
        return Split(inputs, StandardisedTarget(targets, standardisation))

    return Dataset(
        name=facts["name"],
        train=split(*parts["train"]),
        test=split(*parts["test"]),
        task="regression" if class_names is None else "classification",
        feature_names=tuple(facts["feature_names"]),
        target_name=facts["target_name"],
        class_names=None if class_names is None else tuple(class_names),
        standardisation=standardisation,
        description=facts["description"],
        sha256=sha256,
        validation=split(*parts["validation"]) if "validation" in parts else None,
        vocabulary=vocabulary,
    )


def _few(names: Sequence[str]) -> str:
    """Names for a line of a table."""
    more = f", ... ({len(names)} in all)" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def content_hash(*arrays: np.ndarray) -> str:
    """SHA-256 of types, shapes and values, in hexadecimal."""
    digest = hashlib.sha256()
    for array in arrays:
        # Little-endian, so that every machine gets the same hash.
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"{array.dtype.str} {array.shape};".encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


def _frozen(array: np.ndarray) -> np.ndarray:
    # JAX may use the buffer without a copy, so a later write would change a run's data.
    array.flags.writeable = False
    return array
