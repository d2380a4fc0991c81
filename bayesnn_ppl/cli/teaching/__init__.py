"""Versions of the teaching notebooks: for students, as slides, for a repository of one's own."""
