"""Chains shared by the workers of a Dask cluster, each part in a folder of its own."""
