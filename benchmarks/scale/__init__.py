"""Memory, files and devices as data, weights, draws or chains grow."""
