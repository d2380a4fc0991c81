"""The command line `bayesnn`; `main` is its entry point."""

from bayesnn_ppl.cli.entry import main

__all__ = ["main"]
