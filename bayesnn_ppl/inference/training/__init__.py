"""Runs of an optimiser over the rows: `train`, and what it compiles."""
