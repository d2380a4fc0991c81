"""The parts of variational inference: targets, families of q, bounds, and the optimisation loop."""
