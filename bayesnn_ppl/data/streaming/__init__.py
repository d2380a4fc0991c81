"""Data that are read from the disk during a run."""
