"""Runs of Markov chains: `sample`, and what it compiles."""
