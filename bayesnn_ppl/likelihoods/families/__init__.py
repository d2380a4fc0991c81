"""Likelihoods, one file each."""
