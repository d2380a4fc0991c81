"""Kernels that use all rows of the data in each step."""
