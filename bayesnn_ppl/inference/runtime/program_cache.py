"""Compiled programs, kept for the next run of the same shapes; compiled where Ctrl-C is heard."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import jax

from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.inference.runtime.interrupts import raise_if_swallowed

__all__ = ["COMPILING", "ProgramCache", "compiling"]

COMPILING = "bayesnn-compiles"  # name of the thread


class ProgramCache[Program: Any]:
    """The last few programs, by all that they depend on.

    Args:
        kept: how many; the one that was used longest ago makes room.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self.programs: OrderedDict[Hashable, Program] = OrderedDict()

    def get(self, parts: tuple[Hashable, ...], compile_it: Callable[[], Program]) -> Program:
        """The program of these parts, compiled now or before.

        Args:
            parts: what distinguishes it, apart from JAX's own settings.
            compile_it: makes it, a dataclass with `compile_seconds`; these are 0 when it is found.
        """
        config = jax.config
        key = *parts, config.jax_default_matmul_precision, config.jax_threefry_partitionable
        if key in self.programs:
            self.programs.move_to_end(key)
            return self.programs[key]
        program = compile_it()
        self.programs[key] = replace(program, compile_seconds=0.0)
        if len(self.programs) > self._kept:
            self.programs.popitem(last=False)
        return program


def compiling(lowered: Any, *, float64: bool, options: dict[str, Any] | None = None) -> Future[Any]:
    """What `lowered.compile(compiler_options=options)` gives, as soon as it is there.

    XLA compiles for seconds to minutes in one call, in which Python hears no signal. So another
    thread makes that call, while this one may trace the next function, and waits for the result
    where Ctrl-C is heard. After one the call runs to its end, which nobody waits for.

    Args:
        lowered: a function that JAX has lowered.
        float64: in which arithmetic, since JAX's settings are a thread's own.
        options: of the compiler.

    Raises:
        KeyboardInterrupt: Ctrl-C came before.
    """
    if threading.current_thread() is threading.main_thread():  # which alone hears Ctrl-C
        raise_if_swallowed()
    found: Future[Any] = Future()

    def compile_it() -> None:
        try:
            with arithmetic(float64=float64):
                found.set_result(lowered.compile(compiler_options=options))
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=compile_it, name=COMPILING, daemon=True).start()
    return found
