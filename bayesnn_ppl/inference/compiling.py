"""Compilation that Ctrl-C does not have to wait for."""

import threading
from concurrent.futures import Future
from typing import Any

from bayesnn_ppl.inference.interrupts import raise_if_swallowed
from bayesnn_ppl.precision import arithmetic

__all__ = ["compiled"]


def compiled(lowered: Any, *, float64: bool, options: dict[str, Any] | None = None) -> Any:
    """What `lowered.compile(compiler_options=options)` gives.

    XLA compiles for seconds to minutes in one call, in which Python hears no signal. So another
    thread makes that call. After a Ctrl-C it runs to its end, which nobody waits for.

    Args:
        lowered: a function that JAX has lowered.
        float64: in which arithmetic, since JAX's settings are a thread's own.
        options: of the compiler.

    Raises:
        KeyboardInterrupt: Ctrl-C came.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone hears Ctrl-C
        return lowered.compile(compiler_options=options)
    raise_if_swallowed()
    found: Future[Any] = Future()

    def compile_it() -> None:
        try:
            with arithmetic(float64=float64):
                found.set_result(lowered.compile(compiler_options=options))
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=compile_it, name="bayesnn-compiles", daemon=True).start()
    return found.result()
