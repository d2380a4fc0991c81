"""What a study does with a method, other than scoring it on held-out rows."""
