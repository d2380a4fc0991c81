"""The arithmetic that samplers and predictions are computed in."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import jax
from jax._src import xla_bridge

__all__ = ["arithmetic"]

_without_threads = False


def _notice_fork() -> None:
    """Called in each fork: it has the locks of JAX's threads, and not the threads."""
    global _without_threads
    # Without `backends_are_initialized`, which takes such a lock.
    _without_threads = _without_threads or bool(xla_bridge._backends)


os.register_at_fork(after_in_child=_notice_fork)


@contextmanager
def arithmetic(*, float64: bool) -> Iterator[None]:
    """Single or double precision, and matrix products in all of it.

    Accelerators round the factors of a matrix product to 8 or 11 bits unless told otherwise. A
    sampler that compares energies then rejects, or tunes its step, by rounding errors: 50 leapfrogs
    on a 784-256-256-10 network were accepted at 0.31 on an H200 with its TF32, and at 0.87 with
    full products. A precision that the caller has set (`jax.default_matmul_precision`) stays.

    Raises:
        RuntimeError: this process is a fork of one in which JAX had started. JAX warns where it
            forks; here it would wait for threads that are not there, for ever.
    """
    if _without_threads:
        raise RuntimeError(
            "This process was forked from one in which JAX had started, so anything computed here "
            "would hang: a fork does not have JAX's threads. Start processes with "
            '`multiprocessing.get_context("spawn")`, or fork before anything is computed.'
        )
    chosen = jax.config.jax_default_matmul_precision
    with jax.enable_x64(float64), jax.default_matmul_precision(chosen or "highest"):
        yield
