"""Sphinx configuration: a few Markdown files, warnings as errors (`make docs`)."""

project = "bayesnn_ppl"
author = "The bayesnn_ppl authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "alabaster"
