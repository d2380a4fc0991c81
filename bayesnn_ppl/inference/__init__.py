"""Inference: the runner that samples with any MCMC kernel."""
