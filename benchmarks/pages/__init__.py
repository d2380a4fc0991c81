"""Figures and tables of the documentation, made from stored results."""
