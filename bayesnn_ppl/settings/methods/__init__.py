"""Kernels and approximations by word."""
