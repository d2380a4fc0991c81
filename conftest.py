"""What must be set before JAX starts, for tests and doctests alike."""

import atexit
import os
import shutil
import tempfile

# Workers and the commands under test compile many programs alike: each is compiled once a session.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    folder = tempfile.mkdtemp(prefix="bayesnn-compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"

import jax

# Multi-device code is tested everywhere: four host devices, whatever the machine has.
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)

# No test may open a window.
os.environ["MPLBACKEND"] = "Agg"
