"""What a prior says of functions."""
