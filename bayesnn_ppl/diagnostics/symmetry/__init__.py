"""Permutations and signs of hidden units."""
