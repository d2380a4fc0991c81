"""Samplers of this library and of others on the same posteriors."""
