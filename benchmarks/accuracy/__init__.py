"""How good predictions, draws and scores are."""
