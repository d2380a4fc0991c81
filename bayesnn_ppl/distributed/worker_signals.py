"""For workers of this machine: Ctrl-C is for the process that started them.

A terminal sends it to all of them. The one that started them lets them end at one draw.
"""

import signal
from typing import Any


def dask_setup(_: Any) -> None:
    """What Dask calls in a worker that is told of this module."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
