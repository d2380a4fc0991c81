"""From networks, priors and likelihoods to NumPyro models."""
