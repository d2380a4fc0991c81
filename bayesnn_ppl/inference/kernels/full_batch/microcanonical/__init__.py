"""Microcanonical samplers: momenta of fixed length, turned by gradients."""
