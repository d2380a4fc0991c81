"""The recipes, one file each."""
