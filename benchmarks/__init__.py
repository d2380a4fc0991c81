"""Measurements: each prints ratios against a baseline timed in the same run."""
