"""Draws as an ArviZ DataTree, in memory and in a run folder on disk."""

from bayesnn_ppl.storage.folder import RunFolder, write
from bayesnn_ppl.storage.inspection import check, repair
from bayesnn_ppl.storage.reading import read
from bayesnn_ppl.storage.tree import build_tree, read_attributes, variable_names

__all__ = [
    "RunFolder",
    "build_tree",
    "check",
    "read",
    "read_attributes",
    "repair",
    "variable_names",
    "write",
]
