"""Loaded by workers of this machine: Ctrl-C is for the process that started them.

A terminal sends it to all of them. The one that started them lets them end at one draw.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
