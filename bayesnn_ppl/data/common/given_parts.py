"""Data sets from arrays whose training and test parts are given."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from bayesnn_ppl.data.common import checks
from bayesnn_ppl.data.common.arrays import check_shapes, infer_task, labels
from bayesnn_ppl.data.common.dataset import Dataset, Pair, assemble_parts, content_hash
from bayesnn_ppl.data.common.standardisation import Standardisation, Task, Units

_BLOCK_BYTES = 64 << 20


def from_split(
    parts: Mapping[str, Pair],
    *,
    task: Task | None,
    name: str,
    subject: str,
    target_name: str,
    standardise: Units,
    class_names: Sequence[str] | None = None,
    description: str | None = None,
) -> Dataset:
    """A `Dataset` from pairs (x, y) in the data's units, which may be memory maps.

    The arrays are read in blocks: only the float32 inputs of the result are held in memory.

    Args:
        parts: the pairs "train" and "test", and perhaps "validation".
        task: as `from_arrays`; None infers it from the training targets.
        subject: what holds the arrays, as the subject of a sentence.
        class_names: the names of the labels 0..K-1, where the source has them.
    """
    source, pairs = checks.lower(subject), dict(parts)
    for part, (x, y) in parts.items():
        try:
            x, y = pairs[part] = checks.numeric(x, "x"), checks.numeric(y, "y")
            check_shapes(x, y, task)
            task = task or infer_task(y)
            if len(x) == 0:
                raise ValueError("it has no rows, but every part needs at least one.")
        except ValueError as error:
            raise ValueError(f"In the {part} part of {source}: {error}") from error
        if x.shape[1:] != pairs["train"][0].shape[1:] or y.shape[1:] != pairs["train"][1].shape[1:]:
            raise ValueError(
                f"{subject} has a train part with x of shape {pairs['train'][0].shape} and y of "
                f"shape {pairs['train'][1].shape}, but a {part} part with shapes {x.shape} and "
                f"{y.shape}. All axes but the first must agree."
            )
    assert task is not None
    features = [f"x{index}" for index in range(pairs["train"][0].shape[-1])]
    targets = {part: _targets(y, part, source, task) for part, (_, y) in pairs.items()}
    class_names = _class_names(targets, class_names, subject) if task == "classification" else None
    origin = _origin("train", source)
    checks.check_rows(len(pairs["train"][0]), origin)
    if class_names is None:
        checks.check_regression_target(targets["train"], origin)
    standardisation = _standardisation(*pairs["train"], task=task, standardise=standardise)
    return assemble_parts(
        {
            part: (_inputs(x, standardisation, features, _origin(part, source)), targets[part])
            for part, (x, _) in pairs.items()
        },
        standardisation,
        name=name,
        feature_names=features,
        target_name=target_name,
        class_names=class_names,
        description=description or f"Arrays of {source}, with a split of their own.",
        sha256=content_hash(*(array for pair in pairs.values() for array in pair)),
    )


def _origin(part: str, source: str) -> checks.Origin:
    whole = f"the {part} part of {source}"
    return checks.Origin(f"T{whole[1:]}", f"The target of {whole}")


def _targets(y: np.ndarray, part: str, source: str, task: Task) -> np.ndarray:
    if task == "regression":
        bad = ~np.isfinite(y).reshape(len(y), -1).all(axis=1)
        if bad.any():
            raise checks.missing_target(bad, _origin(part, source))
        return y.astype(np.float64)
    if part == "train":
        try:
            return labels(y)
        except ValueError as error:
            raise ValueError(f"In the {part} part of {source}: {error}") from error
    if not np.array_equal(y, np.round(y)):
        raise ValueError(f"In the {part} part of {source}: labels must be integers 0..K-1.")
    return y.astype(np.int64)


def _class_names(
    targets: dict[str, np.ndarray], names: Sequence[str] | None, subject: str
) -> list[str]:
    """The names of the labels, of which each must occur in the training part."""
    classes = int(targets["train"].max()) + 1
    for part, y in targets.items():
        unseen = np.setdiff1d(y, targets["train"]).tolist()
        if unseen:
            raise ValueError(
                f"{subject} has labels in its {part} part that never occur in its train part: "
                f"{checks.listing(map(str, unseen))}. No row could teach them: add training rows "
                "of these classes, or remove them."
            )
    if classes < 2:
        raise ValueError(
            f"{subject} has a single class, so there is nothing to learn. Classification needs at "
            "least two classes."
        )
    return list(names) if names and len(names) >= classes else [str(k) for k in range(classes)]


def _blocks(x: np.ndarray) -> Iterator[slice]:
    rows = max(1, _BLOCK_BYTES // max(1, 8 * int(np.prod(x.shape[1:]))))
    return (slice(start, start + rows) for start in range(0, len(x), rows))


def _standardisation(
    x: np.ndarray, y: np.ndarray, *, task: Task, standardise: Units
) -> Standardisation:
    """As `Standardisation.fit`, in two passes over blocks of float64."""
    outputs = y.shape[1] if y.ndim > 1 else None
    if not standardise:
        return Standardisation.identity(x.shape[-1], outputs)
    d = x.shape[-1]
    count = x.size // d

    def over_rows(reduce: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
        return [reduce(np.asarray(x[rows], np.float64).reshape(-1, d)) for rows in _blocks(x)]

    mean = np.sum(over_rows(lambda block: block.sum(axis=0)), axis=0) / count
    squares = over_rows(lambda block: ((block - mean) ** 2).sum(axis=0))
    scale = np.sqrt(np.sum(squares, axis=0) / count)
    lowest = np.min(over_rows(lambda block: block.min(axis=0)), axis=0)
    highest = np.max(over_rows(lambda block: block.max(axis=0)), axis=0)
    constant = (lowest == highest) | (scale == 0)
    mean, scale = np.where(constant, lowest, mean), np.where(constant, 1.0, scale)
    if not (np.isfinite(mean).all() and np.isfinite(scale).all()):
        # The error about missing entries, which names them, comes with the inputs.
        return Standardisation.identity(d, outputs)
    moments = Standardisation.fit(np.zeros((len(y), 1)), y, task, standardise=standardise)
    return Standardisation(mean, scale, moments.y_mean, moments.y_scale)


def _inputs(
    x: np.ndarray, standardisation: Standardisation, names: Sequence[str], origin: checks.Origin
) -> np.ndarray:
    """float32 inputs; refuse entries that are missing or infinite."""
    result = np.empty(x.shape, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in _blocks(x):
            result[rows] = standardisation.apply_x(x[rows])
            if not np.isfinite(result[rows]).all():
                checks.check_finite(np.asarray(x), names, origin)
    return result
