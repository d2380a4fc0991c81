"""What a study does with a method besides scoring it on held-out rows."""
