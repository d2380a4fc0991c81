"""How often the verdict is wrong, on runs whose truth is known."""
