"""Flax networks and layers that Flax itself lacks."""

from bayesnn_ppl.nn.mlp import MLP

__all__ = ["MLP"]
