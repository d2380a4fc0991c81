"""Runs on disk: what they remember, and how they are opened."""
