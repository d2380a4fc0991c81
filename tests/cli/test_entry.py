"""The end of a command's process."""

import subprocess
import sys

from bayesnn_ppl.cli import entry
from bayesnn_ppl.inference.runtime.program_cache import COMPILING

PROGRAM = """
import atexit, sys, threading, time
from bayesnn_ppl.cli import main
atexit.register(print, "taken apart")
if sys.argv.pop(1) != "none":
    threading.Thread(target=time.sleep, args=(60,), name=sys.argv[-1], daemon=True).start()
    sys.argv.pop()
sys.exit(main())
"""


def ended(*words):
    """Exit status and standard output of a command beside a thread of that name."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout


def test_a_process_that_still_compiles_is_not_taken_apart():
    """XLA's thread would outlive the interpreter: 1 of 20 such ends was a SIGSEGV."""
    assert entry._COMPILING == COMPILING
    status, said = ended("thread", "compare", "nowhere", COMPILING)
    assert status == 1 and "taken apart" not in said
    status, said = ended("none", "compare", "nowhere")
    assert status == 1 and "taken apart" in said
    status, said = ended("thread", "--help", COMPILING)
    assert status == 0 and "bayesnn" in said
