"""A connection to one other process of a run: lines of JSON, sent and heard."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

_LINE_BYTES = 2**24  # of one message; more is not a message of ours


class Connection:
    """A connection to one other process."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        # One reader for all that comes: another one would miss what this has read ahead.
        self.lines = connection.makefile("rb")
        self.heard = time.monotonic()
        self.name = ""
        self.left = False
        self._sending = threading.Lock()

    def send(self, message: dict[str, Any]) -> bool:
        """Send a message; False where the other end is gone."""
        try:
            with self._sending:
                self.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return False
        return True

    def messages(self) -> Iterator[dict[str, Any]]:
        """What comes, until the other end is gone."""
        try:
            while line := self.lines.readline(_LINE_BYTES):
                self.heard = time.monotonic()
                yield json.loads(line)
        except (OSError, ValueError):
            return
        finally:
            self.lines.close()
            self.socket.close()


def own_name() -> str:
    """What this process is called in the sentences of the others."""
    return f"host {socket.gethostname()}, process number {os.getpid()}"
