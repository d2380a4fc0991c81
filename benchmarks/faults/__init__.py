"""Runs that are killed, and draws through changes of the code."""
