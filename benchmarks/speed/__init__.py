"""How long things take, over a baseline timed in the same run."""
