"""What the sections of a page are made of."""
