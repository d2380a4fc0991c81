"""Data sources by name, one file each."""
