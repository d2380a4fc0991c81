"""Posteriors made of trained networks."""
