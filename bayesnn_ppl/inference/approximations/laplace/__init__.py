"""Normal distributions at a mode."""
