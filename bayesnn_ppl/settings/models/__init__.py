"""Models by name, of the zoo or of a file."""
