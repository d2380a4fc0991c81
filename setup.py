"""The one thing that pyproject.toml cannot say: found packages plus one mapped folder."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["bayesnn_ppl", "bayesnn_ppl.*"]), "bayesnn_ppl.models"])
