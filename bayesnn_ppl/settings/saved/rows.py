"""Inputs and targets for a saved run: its own test rows, a data set's, or a file's."""

from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl.settings.saved.run_file import Run, as_model_inputs, same_features

__all__ = ["held_out", "inputs", "inputs_and_targets"]


def held_out(dataset: Any) -> tuple[np.ndarray, Any]:
    """The test rows, or the training inputs, without targets to score, where all rows train."""
    return tuple(dataset.test) if len(dataset.test) else (dataset.train.x, None)


def inputs(run: Run, data: str | None, *, split: int | None = None) -> tuple[np.ndarray, str]:
    """Inputs as the model was given them, and what they are in a few words.

    Args:
        run: the saved run.
        data: a `.csv` or Parquet file, the name of a data set, or None for the run's own test rows,
            or its training rows where it has no others.
        split: of a data set; None takes that of the run.

    Raises:
        ValueError: the features are not those of the run, or a split is given for a file.
    """
    _require_names(run, data)
    if data is not None and _is_table(data):
        if split is not None:
            raise ValueError("--split is for data sets; of a file every row is predicted.")
        raw = bnn.data.read_features(data, run.feature_names, encoding=run.encoding)
        return as_model_inputs(run, raw), f"the {len(raw)} rows of {data}"
    dataset, own = _dataset(run, data, split)
    if own:
        x, y = held_out(dataset)
        part = "training" if y is None else "test"
        return x, f"the {len(x)} {part} rows of {run.data_label}"
    return as_model_inputs(run, dataset.test.x), f"the {len(dataset.test.x)} test rows of {data}"


def inputs_and_targets(run: Run, data: str | None) -> tuple[np.ndarray, Any, str]:
    """Inputs and targets as the model was given them, and what they are in a few words.

    Args:
        run: the saved run.
        data: a `.csv` or Parquet file, the name of a data set, or None for the run's own test rows.

    Raises:
        ValueError: features or target are not those of the run.
    """
    _require_names(run, data)
    if data is not None and _is_table(data):
        x, y = bnn.data.read_split(
            data,
            feature_names=run.feature_names,
            target_name=run.target_name,
            class_names=run.class_names,
            standardisation=run.units,
            encoding=run.encoding,
        )
        return x, y, f"the {len(x)} rows of {data}"
    x, label = inputs(run, data)
    dataset, own = _dataset(run, data, None)
    if own:
        if not len(dataset.test):
            raise ValueError(
                f"All rows of {run.data_label} trained this run, so none are left to score "
                "it. Give others with --data."
            )
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


def _require_names(run: Run, data: str | None) -> None:
    if data is not None and not run.feature_names:
        raise ValueError(
            "The run was made in Python from arrays, and does not know the names of its features, "
            "by which --data is matched. Predict in Python, or train on `bayesnn_ppl.data.load` "
            "or `from_arrays`, whose targets remember them."
        )


def _standardised(run: Run, y: Any) -> np.ndarray:
    return run.units.apply_y(np.asarray(y)).astype(np.float32)


def _is_table(data: str) -> bool:
    return data.lower().endswith((".csv", ".parquet", ".pq"))


def _dataset(run: Run, data: str | None, split: int | None) -> tuple[Any, bool]:
    """A data set, and whether its rows are already in the units of the run's model."""
    if data is None:
        if split is None or split == run.data.get("split"):
            return run.load_data(), True
        data = str(run.data["name"])
        dataset = bnn.data.load(**{**run.data, "split": split, "standardise": False})
    else:
        chosen = run.data.get("split", 0) if split is None else split
        dataset = bnn.data.load(data, split=chosen, standardise=False)
        # A file of the user's own has a path there, though its stem be the name of a set.
        name = (dataset.loaded_by or {}).get("name")
        if name == run.data.get("name") and chosen == run.data.get("split"):
            return run.load_data(), True
    same_features(run, dataset, data)
    return dataset, False
