"""Data sets: by name, from CSV files and from arrays, with their splits and their units."""

from bayesnn_ppl.data.arrays import from_arrays
from bayesnn_ppl.data.catalogue import load, names
from bayesnn_ppl.data.dataset import Dataset, Split
from bayesnn_ppl.data.files import load_csv, read_features
from bayesnn_ppl.data.splits import uci_split_indices
from bayesnn_ppl.data.standardisation import Standardisation
from bayesnn_ppl.data.target import StandardisedTarget

__all__ = [
    "Dataset",
    "Split",
    "Standardisation",
    "StandardisedTarget",
    "from_arrays",
    "load",
    "load_csv",
    "names",
    "read_features",
    "uci_split_indices",
]
