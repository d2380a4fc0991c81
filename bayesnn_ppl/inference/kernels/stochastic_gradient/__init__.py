"""Kernels whose steps use minibatches, their gradient estimators and preconditioners."""
