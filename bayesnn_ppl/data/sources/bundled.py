"""Real data sets that come with scikit-learn: no download, no files to lay out."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesnn_ppl.data.common.dataset import Dataset, assemble
from bayesnn_ppl.data.common.splits import Preparation
from bayesnn_ppl.data.common.standardisation import Task, Units

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class _Bundled:
    task: Task
    target: str
    description: str
    test_fraction: float | None = None  # None for the usual 10 %


SETS = {
    "diabetes": _Bundled(
        "regression",
        "disease progression",
        "Disease progression one year after baseline, 442 patients, 10 features "
        "(Efron et al. 2004); from scikit-learn.",
    ),
    "breast_cancer": _Bundled(
        "classification",
        "diagnosis",
        "Malignant or benign breast masses, 569 rows, 30 features of cell nuclei "
        "(Wolberg et al. 1995); from scikit-learn.",
    ),
    "wine": _Bundled(
        "classification",
        "cultivar",
        "Three Italian cultivars, 178 wines, 13 chemical features (Aeberhard and Forina 1992); "
        "from scikit-learn.",
    ),
    "digits": _Bundled(
        "classification",
        "digit",
        "Handwritten digits, 1797 images of 8x8 pixels as 64 features, three of them constant "
        "(Alpaydin and Kaynak 1998); from scikit-learn.",
    ),
    "nuclei": _Bundled(
        "regression",
        "worst concavity",
        "Concavity of the three most concave cell nuclei of a biopsy from eight measurements "
        "averaged over all of its nuclei, 569 biopsies, 30 % held out (Wolberg et al. 1995); from "
        "scikit-learn.",
        test_fraction=0.3,
    ),
}


def load_bundled(name: str, *, split: int, standardise: Units) -> Dataset:
    """One of `SETS`, split by the rule of `uci_split_indices`, splits 0..19."""
    entry = SETS[name]
    x, y, feature_names, class_names = _rows(name)
    return assemble(
        x,
        y,
        *Preparation(entry.test_fraction, split, standardise).rows(len(x)),
        standardise=standardise,
        name=name,
        feature_names=feature_names,
        target_name=entry.target,
        class_names=class_names,
        description=entry.description,
    )


def _rows(name: str) -> tuple[np.ndarray, np.ndarray, list[str], list[str] | None]:
    """Inputs (N, d), targets (N,), the names of the inputs and those of the classes."""
    from sklearn import datasets

    if name == "diabetes":
        # scikit-learn's own scaling uses all rows, test rows included: take the raw ones.
        bunch = datasets.load_diabetes(scaled=False)
    elif name == "nuclei":
        return _nuclei(datasets.load_breast_cancer(as_frame=True).data)
    else:
        bunch = getattr(datasets, f"load_{name}")()
    classes = SETS[name].task == "classification"
    return (
        np.asarray(bunch.data, dtype=np.float64),
        np.asarray(bunch.target, dtype=np.int64 if classes else np.float64),
        [str(feature) for feature in bunch.feature_names],
        [str(label) for label in bunch.target_names] if classes else None,
    )


def _nuclei(frame: "pandas.DataFrame") -> tuple[np.ndarray, np.ndarray, list[str], None]:
    """The means of the measurements, without perimeter and area, which repeat the radius."""
    names = [
        name
        for name in frame.columns
        if name.startswith("mean ") and name not in ("mean perimeter", "mean area")
    ]
    target = SETS["nuclei"].target
    return frame[names].to_numpy(np.float64), frame[target].to_numpy(np.float64), names, None
