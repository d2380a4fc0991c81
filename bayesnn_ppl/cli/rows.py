"""Inputs and targets for a saved run: its own test rows, a data set's, or a file's."""

import csv
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl.arguments import near_misses
from bayesnn_ppl.cli.runs import Run, as_model_inputs, same_features

__all__ = ["inputs", "inputs_and_targets"]


def inputs(run: Run, data: str | None, *, split: int | None = None) -> tuple[np.ndarray, str]:
    """Inputs as the model was given them, and what they are in a few words.

    Args:
        run: the saved run.
        data: a `.csv` file, the name of a data set, or None for the run's own test rows.
        split: of a data set; None takes that of the run.

    Raises:
        ValueError: the features are not those of the run, or a split is given for a file.
    """
    if data is not None and _is_csv(data):
        if split is not None:
            raise ValueError("--split is for data sets; of a .csv file every row is predicted.")
        raw = bnn.data.read_features(data, run.feature_names)
        return as_model_inputs(run, raw), f"the {len(raw)} rows of {data}"
    dataset, own = _dataset(run, data, split)
    if own:
        return dataset.test.x, f"the {len(dataset.test.x)} test rows of {run.data_label}"
    return as_model_inputs(run, dataset.test.x), f"the {len(dataset.test.x)} test rows of {data}"


def inputs_and_targets(run: Run, data: str | None) -> tuple[np.ndarray, Any, str]:
    """Inputs and targets as the model was given them, and what they are in a few words.

    Args:
        run: the saved run.
        data: a `.csv` file, the name of a data set, or None for the run's own test rows.

    Raises:
        ValueError: features or target are not those of the run.
    """
    x, label = inputs(run, data)
    if data is not None and _is_csv(data):
        if run.class_names is not None:
            return x, _labels(run, Path(data)), label
        y = _numbers(run, data)
        return x, run.units.apply_y(y).astype(np.float32), label
    dataset, own = _dataset(run, data, None)
    if own:
        return x, dataset.test.y, label
    if dataset.target_name != run.target_name or (
        run.class_names is not None and list(dataset.class_names or ()) != run.class_names
    ):
        raise ValueError(
            f"The target of the data set `{data}`, `{dataset.target_name}`, is not that of the "
            f"run, `{run.target_name}`."
        )
    y = dataset.test.y
    return x, (y if run.class_names is not None else _standardised(run, y)), label


def _standardised(run: Run, y: Any) -> np.ndarray:
    return run.units.apply_y(np.asarray(y)).astype(np.float32)


def _is_csv(data: str) -> bool:
    return data.lower().endswith(".csv")


def _dataset(run: Run, data: str | None, split: int | None) -> tuple[Any, bool]:
    """A data set, and whether its rows are already in the units of the run's model."""
    if data is None:
        if split is None or split == run.data["split"]:
            return run.load_data(), True
        data = str(run.data["name"])
        dataset = bnn.data.load(**{**run.data, "split": split, "standardise": False})
    else:
        chosen = run.data["split"] if split is None else split
        dataset = bnn.data.load(data, split=chosen, standardise=False)
        if dataset.name == run.data_label and chosen == run.data["split"]:
            return run.load_data(), True
    same_features(run, dataset, data)
    return dataset, False


def _numbers(run: Run, path: str) -> np.ndarray:
    try:
        return bnn.data.read_features(path, [run.target_name])[:, 0]
    except ValueError as error:
        raise ValueError(
            f"The target `{run.target_name}` of the run is needed to score its predictions. {error}"
        ) from None


def _labels(run: Run, path: Path) -> np.ndarray:
    """The labels 0..K-1 of a file whose features have been read already."""
    names = {name: label for label, name in enumerate(run.class_names or ())}
    labels = []
    for row, text in enumerate(_column(path, run.target_name), start=1):
        name = text.strip()
        if name not in names and name.removesuffix(".0") in names:
            name = name.removesuffix(".0")  # pandas writes integers so beside a missing one
        if name not in names:
            raise ValueError(
                f"Row {row} of the file `{path}` (the row below the header is row 1) has the class "
                f"`{name}`, which the run does not know. {near_misses(name, names)}"
            )
        labels.append(names[name])
    return np.asarray(labels, dtype=np.int32)


def _column(path: Path, name: str) -> list[str]:
    found: list[str] = []
    for delimiter in (",", ";", "\t"):
        with path.open(newline="", encoding="utf-8-sig") as handle:
            rows = csv.reader(handle, delimiter=delimiter, skipinitialspace=True)
            lines = [row for row in rows if "".join(row).strip()]
        header = [cell.strip() for cell in lines[0]]
        if name in header:
            return [row[header.index(name)] for row in lines[1:]]
        found = max(found, header, key=len)
    raise ValueError(
        f"The file `{path}` has no column `{name}`, the target of the run, which is needed to "
        f"score its predictions. {near_misses(name, found)}"
    )
