"""Helpers that import nothing else of this package."""
