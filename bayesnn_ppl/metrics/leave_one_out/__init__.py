"""Leave-one-out scores from one posterior."""
