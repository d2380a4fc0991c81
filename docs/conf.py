"""Sphinx configuration: Markdown, notebooks and docstrings, warnings as errors (`make docs`)."""

import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "ext"))
# A style that furo imports has every library log what it does.
for library in ("arviz", "jax"):
    logging.getLogger(library).setLevel(logging.WARNING)

project = "bayesnn_ppl"
author = "The bayesnn_ppl authors"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_design",
    "pages",
    "method_pages",
    "linked_names",
    "lessons",
    "hosted",
]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build", "_generated/bnn_hmc_flags.md"]

myst_heading_anchors = 3
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
# Notebooks are shown with the outputs that they hold: a build runs none.
nb_execution_mode = "off"
# Sliders do nothing on a page, and their scripts would be fetched.
nb_ipywidgets_js = {}
nb_merge_streams = True
# Without its menu MathJax makes no equation a stop of the keyboard.
mathjax3_config = {"options": {"enableMenu": False}}

# What is copied is what is typed.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_remove_prompts = True
# Outputs of a notebook are read, and listings of what is printed.
copybutton_selector = "div.highlight-python pre, div.highlight-console pre"

# Words in single quotes of a docstring are code, as in Markdown.
default_role = "code"
autodoc_typehints = "none"
# A default that is a function shows its name, not an address in memory.
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"

# Light, dark and narrow, with fonts of the reader's own machine: nothing is fetched.
html_theme = "furo"
html_title = "bayesnn_ppl"
pygments_dark_style = "github-dark"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
# Summaries are fetched from each page that was found, which browsers refuse to pages read as files.
html_show_search_summary = False
html_copy_source = False
html_show_copyright = False
