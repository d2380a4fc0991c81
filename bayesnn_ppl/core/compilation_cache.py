"""Compiled programs of commands and notebooks, kept in the user's cache folder.

JAX names an entry by the program, the compiler's options, its own version and the device, so an
entry of another version is never met. Its own bound on the folder's size needs a package that is
not among our dependencies, and a lock at every read; here room is made once, at a command's start.
"""

import os
import platform
import sys
from pathlib import Path

__all__ = ["is_about_an_entry", "keep_compiled_programs"]

_MOST_BYTES = 2**29
_LEAST_SECONDS = 0.2  # programs that compile faster are not worth a file
_ABOUT = " persistent compilation cache entry for '"


def keep_compiled_programs() -> Path | None:
    """Tell JAX, before it compiles, to keep compiled programs in the user's cache folder.

    Nothing is changed where JAX_COMPILATION_CACHE_DIR is set: to a folder, or to nothing, which
    is no cache. A folder that cannot be written costs the cache and no more.

    Returns:
        The folder; None where nothing was changed.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return None
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        # By machine: a home may be shared, and programs are compiled for one processor. For the
        # user alone: what is written there is run.
        folder = caches / "bayesnn_ppl" / f"compiled-{platform.node()}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            return None
        _make_room(folder)
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        return None
    # In the environment, so that processes that a command starts have it too.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    least = os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(_LEAST_SECONDS))
    if jax := sys.modules.get("jax"):  # which read the environment when it was imported
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", float(least))
    return folder


def is_about_an_entry(warning: str) -> bool:
    """Whether a warning of JAX says that an entry could not be read or written.

    The program is compiled then, as without a cache. JAX would leave a damaged entry as it is, such
    as one of a command that was killed as it wrote: those of this program's name are removed.
    """
    if _ABOUT not in warning:
        return False
    name = warning.split(_ABOUT)[1].split("'")[0]
    folder = Path(os.environ.get("JAX_COMPILATION_CACHE_DIR", ""))
    if folder.parent.name == "bayesnn_ppl":  # a folder that the caller chose is the caller's
        _remove([path for path in folder.iterdir() if path.name.startswith(f"{name}-")])
    return True


def _make_room(folder: Path) -> None:
    """Remove the entries that were used the longest ago, down to half of what may be kept."""
    found = [(path, path.stat()) for path in folder.rglob("*") if path.is_file()]
    room = _MOST_BYTES - sum(state.st_size for _, state in found)
    if room >= 0:
        return
    old = []
    for path, state in sorted(found, key=lambda entry: max(entry[1].st_atime, entry[1].st_mtime)):
        old.append(path)
        room += state.st_size
        if room >= _MOST_BYTES // 2:
            break
    _remove(old)


def _remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)  # another command may be first
