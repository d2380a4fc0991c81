"""Priors with dependence between parameters: hierarchies, covariances, whole networks."""
