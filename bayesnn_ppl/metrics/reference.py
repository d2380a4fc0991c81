"""Predictions to compare with, and how far a posterior's predictions are from them."""

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.core.predictions import class_probabilities
from bayesnn_ppl.metrics.fidelity import agreement, total_variation, wasserstein

type Published = Literal["cifar10", "imdb"]

_SHAPES: dict[Published, tuple[int, int]] = {"cifar10": (5000, 10), "imdb": (12500, 2)}


@readable
@dataclass(frozen=True, eq=False)
class Reference:
    """Class probabilities of a reference at some of the rows that are evaluated.

    Args:
        probabilities: averaged over draws, shape (R, ..., K).
        rows: row i of `probabilities` belongs to input `rows[i]`; shape (R,), no row twice.

    Raises:
        ValueError: the probabilities are none, or there is not one row each, or rows are negative
            or repeated.
        TypeError: the rows are not integers.
    """

    probabilities: NDArray[Any]
    rows: NDArray[np.intp]

    def __init__(self, probabilities: ArrayLike, rows: ArrayLike) -> None:
        p = class_probabilities(probabilities)
        object.__setattr__(self, "probabilities", p)
        object.__setattr__(self, "rows", _row_numbers(rows))
        if self.rows.shape != p.shape[:1]:
            raise ValueError(
                f"`rows` has shape {self.rows.shape}, but `probabilities` {p.shape} needs "
                f"{p.shape[:1]}: one row number for each of its rows."
            )
        if np.unique(self.rows).size < self.rows.size:
            raise ValueError("`rows` names a row twice, but a row has one reference prediction.")

    def select(self, rows: ArrayLike) -> Self:
        """The reference for `x[rows]`, where it is the reference for `x`.

        For part of a test set, or for another order of it; rows it does not know are left out.

        Args:
            rows: the row numbers that x is indexed with.

        Raises:
            ValueError: none of the rows has a reference prediction, or one is negative.
            TypeError: they are not integers.
        """
        wanted = _row_numbers(rows)
        order = np.argsort(self.rows)
        place = np.minimum(np.searchsorted(self.rows, wanted, sorter=order), order.size - 1)
        source = order[place]
        known = np.flatnonzero(self.rows[source] == wanted)
        if known.size == 0:
            raise ValueError(
                f"None of the {wanted.size} `rows` is among the {self.rows.size} rows of the "
                "reference. Pass the row numbers of the data that the reference was made for."
            )
        return type(self)(self.probabilities[source[known]], known)


def hmc_reference(name: Published) -> Reference:
    """Predictions of full-batch HMC at half of a published test set, from `BAYESNN_DATA`.

    Those of the competition Approximate Inference in Bayesian Deep Learning. The rows count in the
    original order of the test set: for another one, use `select` with the permutation.

    Args:
        name: "cifar10" (ResNet-20 with filter response normalisation; rows of the original test
            set) or "imdb" (CNN-LSTM; rows of the test reviews sorted by label and file name).

    Raises:
        FileNotFoundError: BAYESNN_DATA is not set, or `hmc_reference.npz` is not in it.
        ValueError: the name is unknown, or the file does not hold what it should.

    References:
        Izmailov et al. (2021), arXiv:2104.14421; Wilson et al. (2022), Evaluating approximate
        inference in Bayesian deep learning, PMLR 176.
    """
    if name not in _SHAPES:
        raise ValueError(
            f"`name` is {name!r}, but published HMC predictions are here for "
            f"{' and '.join(map(repr, _SHAPES))} only. Pass another posterior as the reference."
        )
    # Not above: data sets load JAX, which scores do without.
    from bayesnn_ppl.data.common.stored_files import find_file, read_archive, require_shapes

    path = find_file("hmc_reference.npz", "The HMC reference")
    rows, classes = _SHAPES[name]
    shapes = {f"{name}_probs": (rows, classes), f"{name}_rows": (rows,)}
    known = read_archive(path, list(shapes))
    require_shapes(known, shapes, path)
    return Reference(known[f"{name}_probs"], known[f"{name}_rows"])


def check_reference(reference: Any, rows: int) -> None:
    """Refuse, before anything is predicted, what cannot be a reference for `rows` rows."""
    if hasattr(reference, "predict"):
        return
    if isinstance(reference, Reference):
        if reference.rows.max() >= rows:
            raise ValueError(
                f"The reference reaches to row {reference.rows.max()}, but `x` has {rows} rows. "
                "Pass the whole test set in its original order, or, for x[rows], "
                "reference.select(rows)."
            )
        return
    found = class_probabilities(reference, "reference").shape
    if found[0] != rows:
        raise ValueError(
            f"`reference` has {found[0]} rows and `x` has {rows}. For part of the rows pass "
            "metrics.Reference(probabilities, rows)."
        )


def reference_scores(
    prediction: Any, reference: Any, x: Any, y: Any, samples: int
) -> dict[str, float]:
    """Distances between a prediction and a reference, named `reference_...`."""
    other = reference.predict(x) if hasattr(reference, "predict") else None
    if other is not None and other.task != prediction.task:
        raise ValueError(
            f"The posterior's task is {prediction.task} and that of `reference` {other.task}: "
            "their predictions cannot be compared."
        )
    if prediction.task == "classification":
        return _label_distances(prediction, reference if other is None else other)
    if other is None:
        raise ValueError(
            "`reference` holds class probabilities, but this posterior predicts numbers. Pass "
            "another posterior, or compare predictive samples with metrics.wasserstein."
        )
    return _number_distances(prediction, other, y, samples)


def _label_distances(prediction: Any, reference: Any) -> dict[str, float]:
    p = np.asarray(prediction.probabilities)
    if isinstance(reference, Reference):
        p = p[reference.rows]
    q = np.asarray(getattr(reference, "probabilities", reference))
    if p.shape != q.shape:
        raise ValueError(
            f"The posterior's class probabilities have shape {p.shape} and those of `reference` "
            f"{q.shape}, but both must have the same rows and the same classes in one order."
        )
    return {
        "reference_agreement": agreement(p, q),
        "reference_total_variation": total_variation(p, q),
    }


def _number_distances(prediction: Any, reference: Any, y: Any, samples: int) -> dict[str, float]:
    mean, expected = np.asarray(prediction.mean), np.asarray(reference.mean)
    if mean.shape != expected.shape:
        raise ValueError(
            f"The posterior predicts shape {mean.shape} at these inputs and `reference` "
            f"{expected.shape}, but predictions are compared element by element."
        )
    if not np.allclose(prediction.y(y), reference.y(y)):
        raise ValueError(
            "The posterior and `reference` were trained on targets in different units, so `x` and "
            "`y` cannot suit both. Train both on data standardised alike."
        )
    # One seed for both: a posterior is at distance 0 from itself, and noise shared by both cancels.
    return {
        "reference_mean_difference": float(np.mean(np.abs(mean - expected))),
        "reference_wasserstein": wasserstein(
            prediction.samples(samples, seed=0), reference.samples(samples, seed=0)
        ),
    }


def _row_numbers(rows: ArrayLike) -> NDArray[np.intp]:
    array = np.asarray(rows)
    if array.dtype.kind not in "iu":
        raise TypeError(f"`rows` has dtype {array.dtype}, but holds row numbers: pass integers.")
    if array.ndim != 1 or array.size == 0 or array.min() < 0:
        raise ValueError(
            f"`rows` has shape {array.shape} and must be a list of row numbers, at least one and "
            "none negative."
        )
    return array.astype(np.intp)
