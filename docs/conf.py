"""Sphinx configuration: Markdown files and docstrings, warnings as errors (`make docs`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "ext"))

project = "bayesnn_ppl"
author = "The bayesnn_ppl authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
extensions += ["sphinx.ext.mathjax", "sphinx-mathjax-offline"]
extensions += ["pages", "method_pages", "linked_names"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "ext", "_generated/bnn_hmc_flags.md"]
myst_heading_anchors = 3
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
# Words in single quotes of a docstring are code, as in Markdown.
default_role = "code"
autodoc_typehints = "none"
# A default that is a function shows its name, not an address in memory.
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
# Light, dark and narrow, with fonts of the reader's own machine: nothing is fetched.
html_theme = "furo"
html_title = "bayesnn_ppl"
html_show_sourcelink = False
# Summaries are fetched from each page that was found, which browsers refuse to pages read as files.
html_show_search_summary = False
html_copy_source = False
html_show_copyright = False
