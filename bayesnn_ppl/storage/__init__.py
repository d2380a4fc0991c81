"""Draws as an ArviZ DataTree, in memory and in a run folder on disk."""

from bayesnn_ppl.storage.commits import read_commit, read_config
from bayesnn_ppl.storage.derived import GROUPS
from bayesnn_ppl.storage.dimensions import dimension_names, labelled
from bayesnn_ppl.storage.files import is_written_to, writing_to
from bayesnn_ppl.storage.folder import RunFolder, write
from bayesnn_ppl.storage.inspection import check, repair
from bayesnn_ppl.storage.reading import read, read_values
from bayesnn_ppl.storage.remote import (
    absolute,
    fetched,
    is_address,
    remove_run,
    send,
    working_copy,
)
from bayesnn_ppl.storage.shared import SharedFolder
from bayesnn_ppl.storage.tree import (
    MOMENTS,
    PROBE,
    STARTS,
    build_tree,
    chains_first,
    read_attributes,
    variable_names,
)
from bayesnn_ppl.storage.zarr_store import kept_before, stored_groups

__all__ = [
    "GROUPS",
    "MOMENTS",
    "PROBE",
    "RunFolder",
    "STARTS",
    "SharedFolder",
    "absolute",
    "build_tree",
    "chains_first",
    "check",
    "dimension_names",
    "fetched",
    "is_address",
    "is_written_to",
    "kept_before",
    "labelled",
    "read",
    "read_attributes",
    "read_commit",
    "read_config",
    "read_values",
    "remove_run",
    "repair",
    "send",
    "stored_groups",
    "variable_names",
    "working_copy",
    "write",
    "writing_to",
]
