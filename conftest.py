"""What must be set before JAX starts, for tests and doctests alike."""

import os

import jax

# Multi-device code is tested everywhere: four host devices, whatever the machine has.
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)

# No test may open a window.
os.environ["MPLBACKEND"] = "Agg"
