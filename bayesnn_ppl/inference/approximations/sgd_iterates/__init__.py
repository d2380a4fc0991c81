"""Posteriors from the iterates of SGD."""
