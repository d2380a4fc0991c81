"""The one thing that pyproject.toml cannot say: found packages plus two mapped folders."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["bayesnn_ppl", "bayesnn_ppl.*"]),
        "bayesnn_ppl.models",
        "bayesnn_ppl.notebooks",
    ]
)
