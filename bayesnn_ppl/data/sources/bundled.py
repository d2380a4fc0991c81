"""Real data sets that come with scikit-learn: no download, no files to lay out."""

from dataclasses import dataclass

import numpy as np

from bayesnn_ppl.data.common.dataset import Dataset, assemble
from bayesnn_ppl.data.common.splits import split_rows
from bayesnn_ppl.data.common.standardisation import Task, Units


@dataclass(frozen=True)
class _Bundled:
    task: Task
    target: str
    description: str


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
}


def load_bundled(name: str, *, split: int, standardise: Units) -> Dataset:
    """One of `SETS`, split 90/10 by the rule of `uci_split_indices`, splits 0..19."""
    from sklearn import datasets

    entry = SETS[name]
    # scikit-learn's own scaling of diabetes uses all rows, test rows included: take the raw ones.
    bunch = (
        datasets.load_diabetes(scaled=False)
        if name == "diabetes"
        else getattr(datasets, f"load_{name}")()
    )
    classes = entry.task == "classification"
    return assemble(
        np.asarray(bunch.data, dtype=np.float64),
        np.asarray(bunch.target, dtype=np.int64 if classes else np.float64),
        *split_rows(len(bunch.data), split),
        standardise=standardise,
        name=name,
        feature_names=[str(feature) for feature in bunch.feature_names],
        target_name=entry.target,
        class_names=[str(label) for label in bunch.target_names] if classes else None,
        description=entry.description,
    )
