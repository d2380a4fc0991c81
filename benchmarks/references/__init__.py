"""The reference posteriors of the package."""
