"""What must be set before JAX compiles anything, for tests and doctests alike."""

import os
import platform
import tempfile
import time
from pathlib import Path

import jax

_KEPT_SECONDS = 30 * 86_400


def _compiled_programs() -> Path:
    """The user's folder of compiled programs, without those of a month ago."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    # By machine, since a home may be shared and programs are compiled for one processor.
    folder = caches / "bayesnn_ppl" / f"compiled-for-tests-{platform.node()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            if time.time() - file.stat().st_mtime > _KEPT_SECONDS:
                file.unlink(missing_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="bayesnn-compiled-"))
    return folder


# Half of the tests' time is XLA's. Workers, commands under test and the next session meet the same
# programs again; JAX names them by what they are compiled from, by what, and for what. Small ones
# are kept too: most operations outside `jit` are such a program, which each module meets again.
# In the environment for commands that tests call, and in JAX's settings for the tests themselves.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    settings = {
        "jax_compilation_cache_dir": str(_compiled_programs()),
        "jax_persistent_cache_min_compile_time_secs": 0,
    }
    for name, value in settings.items():
        os.environ[name.upper()] = str(value)
        jax.config.update(name, value)

# Here kernels run for a moment and their compilation is the time: with fewer of LLVM's passes it is
# a quarter shorter. Notebooks are tested without this, as users run them.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=1"

# Multi-device code is tested everywhere: four host devices, whatever the machine has.
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)

# No test may open a window.
os.environ["MPLBACKEND"] = "Agg"
