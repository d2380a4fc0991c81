"""Scores of rows that a posterior was fitted without."""
