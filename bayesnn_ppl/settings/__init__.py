"""Plain values from and to models, kernels, approximations, data and runs."""
