"""Priors that give every parameter a distribution of its own."""
