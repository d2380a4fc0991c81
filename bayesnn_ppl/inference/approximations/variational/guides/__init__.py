"""Families of variational distributions."""
