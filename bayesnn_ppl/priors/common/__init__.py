"""What a prior may be, and what all families share."""
