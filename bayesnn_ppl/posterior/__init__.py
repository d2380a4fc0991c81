"""Draws and what is computed from them: predictions, function values, ArviZ groups."""
