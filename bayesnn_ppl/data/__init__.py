"""Data sets: by name, from files and folders, from TFDS and OpenML, and from arrays."""

from bayesnn_ppl.data.catalogue import load, names
from bayesnn_ppl.data.common.arrays import from_arrays
from bayesnn_ppl.data.common.dataset import Dataset, Split
from bayesnn_ppl.data.common.encoding import TableEncoding
from bayesnn_ppl.data.common.splits import uci_split_indices
from bayesnn_ppl.data.common.standardisation import Standardisation
from bayesnn_ppl.data.common.target import Labels, StandardisedInputs, StandardisedTarget
from bayesnn_ppl.data.common.text import build_vocabulary, encode_texts, read_vocabulary
from bayesnn_ppl.data.corruptions import corrupt, corrupt_dataset
from bayesnn_ppl.data.ood import ood_pair
from bayesnn_ppl.data.sources.archives import load_npz
from bayesnn_ppl.data.sources.image_folders import load_image_folder
from bayesnn_ppl.data.sources.imdb import load_imdb
from bayesnn_ppl.data.sources.openml import load_openml
from bayesnn_ppl.data.sources.tfds import load_tfds
from bayesnn_ppl.data.streaming.streams import Stream, stream
from bayesnn_ppl.data.tables.new_rows import read_split, read_target
from bayesnn_ppl.data.tables.table_files import load_csv, load_table, read_features

__all__ = [
    "Dataset",
    "Labels",
    "Split",
    "Standardisation",
    "StandardisedInputs",
    "StandardisedTarget",
    "Stream",
    "TableEncoding",
    "build_vocabulary",
    "corrupt",
    "corrupt_dataset",
    "encode_texts",
    "from_arrays",
    "load",
    "load_csv",
    "load_image_folder",
    "load_imdb",
    "load_npz",
    "load_openml",
    "load_table",
    "load_tfds",
    "names",
    "ood_pair",
    "read_features",
    "read_split",
    "read_target",
    "read_vocabulary",
    "stream",
    "uci_split_indices",
]
