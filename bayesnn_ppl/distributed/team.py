"""Processes that make one run: they agree on what to do next, and notice when one is lost.

Process 0 listens, the others keep one connection to it. Messages are lines of JSON: agreements, and
a beat every second. JAX's own coordination would do for agreements, but ends a process by `abort`
when another is lost, without saying which; here the connection's end names it at once, and silence
does after `silence` seconds.
"""

import json
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bayesnn_ppl.distributed.alone import LOST, Alone, EndedTogether
from bayesnn_ppl.distributed.connection import Connection, own_name

_BEAT_SECONDS = 1.0
# Words of JAX's errors where a collective has lost its other end.
_BROKEN_COLLECTIVE = ("Gloo", "UNAVAILABLE", "DEADLINE_EXCEEDED", "Connection", "NCCL", "heartbeat")


class Team(Alone):
    """This process among those that make a run together.

    Args:
        index, count: its place, and how many there are.
        silence: seconds without a beat after which a process counts as lost.
        leave: called with a sentence when another process is lost; by default it is printed, and
            this process ends with status 75.
    """

    def __init__(
        self,
        index: int,
        count: int,
        *,
        silence: float = 15.0,
        leave: Callable[[str], None] | None = None,
    ) -> None:
        self.index, self.count = index, count
        self.failed = False
        self._silence, self._leave = silence, leave or _print_and_end
        self._links: dict[int, Connection] = {}
        self._place: Any = None
        self._changed = threading.Condition()
        self._said: dict[int, dict[int, Any]] = {}
        self._agreed: dict[int, list[Any]] = {}
        self._number = 0
        self._closed = False
        self._lost = False
        self.sentence: str | None = None  # why this process ends, once it is known

    @classmethod
    def listen(cls, count: int, **settings: Any) -> tuple["Team", str, Callable[[float], None]]:
        """Process 0 of `count`.

        Returns:
            The team, the `port:token` that the others need, and a function that waits for them,
            given the seconds after which it raises a TimeoutError.
        """
        team = cls(0, count, **settings)
        listener = socket.create_server(("", 0), backlog=count)
        token = secrets.token_hex(8)

        def gather(seconds: float) -> None:
            ends = time.monotonic() + seconds
            with listener:
                while len(team._links) < count - 1:
                    listener.settimeout(max(0.01, ends - time.monotonic()))
                    try:
                        connection, _ = listener.accept()
                    except TimeoutError:
                        absent = sorted(set(range(1, count)) - set(team._links))
                        raise TimeoutError(
                            f"Of the {count} processes of the run, {absent} did not come within "
                            f"{seconds:g} s. Start all of them, with the same coordinator and "
                            "number of processes."
                        ) from None
                    team._welcome(connection, token)
            team._start()

        return team, f"{listener.getsockname()[1]}:{token}", gather

    def _welcome(self, connection: socket.socket, token: str) -> None:
        """Take a connection in, if it is of this run."""
        connection.settimeout(5.0)
        link = Connection(connection)
        try:
            hello = json.loads(link.lines.readline(4096))
            index = int(hello["hello"])
            known = secrets.compare_digest(str(hello["token"]), token)
        except (OSError, ValueError, KeyError, TypeError):
            known, index = False, -1
        if not known or not 0 < index < self.count or index in self._links:
            link.lines.close()
            connection.close()
            return
        connection.settimeout(None)
        link.name = str(hello["name"])
        self._links[index] = link
        link.send({"name": own_name()})

    @classmethod
    def join(
        cls, index: int, count: int, host: str, key: str, *, seconds: float = 60.0, **settings: Any
    ) -> "Team":
        """Another process than 0.

        Args:
            index, count: as for the class.
            host: of process 0.
            key: the `port:token` that `listen` gave.
            seconds: to find process 0 in.
            **settings: as for the class.

        Raises:
            TimeoutError: process 0 is not found.
        """
        team = cls(index, count, **settings)
        port, _, token = key.partition(":")
        ends = time.monotonic() + seconds
        while True:
            try:
                connection = socket.create_connection((host, int(port)), timeout=5.0)
                break
            except OSError as error:
                if time.monotonic() > ends:
                    raise TimeoutError(
                        f"Process {index} of {count} cannot reach process 0 at {host}, port "
                        f"{port}: {error}. Is the port open between the hosts?"
                    ) from error
                time.sleep(0.2)
        connection.settimeout(None)
        link = Connection(connection)
        link.send({"hello": index, "token": token, "name": own_name()})
        team._links[0] = link
        team._start()
        return team

    def _start(self) -> None:
        for index, link in self._links.items():
            threading.Thread(
                target=self._listen, args=(index, link), name=f"bayesnn-team-{index}", daemon=True
            ).start()
        threading.Thread(target=self._beat, name="bayesnn-team-beat", daemon=True).start()

    def _listen(self, index: int, link: Connection) -> None:
        for message in link.messages():
            if "name" in message:
                link.name = str(message["name"])
            elif "say" in message:
                with self._changed:
                    self._said.setdefault(message["say"], {})[index] = message["value"]
                    self._changed.notify_all()
            elif "all" in message:
                with self._changed:
                    self._agreed[message["all"]] = message["values"]
                    self._changed.notify_all()
            elif "bye" in message:
                link.left = True
            elif "failed" in message:
                self._lose(index, f"ended with an error: {_sentence(message['failed'])}")
            elif "lost" in message:
                self._end(message["lost"])
        if not link.left:
            if self.leads:  # one that JAX aborts, having lost another, is not the first loss
                time.sleep(0.3)
            self._lose(index, "is lost: it ended without a message.")

    def _beat(self) -> None:
        while not self._closed:
            for link in self._links.values():
                link.send({"beat": 1})
            time.sleep(_BEAT_SECONDS)
            for index, link in self._links.items():
                silent = time.monotonic() - link.heard
                if silent > self._silence and not link.left:
                    self._lose(index, f"is lost: nothing was heard of it for {silent:.0f} s.")

    def _lose(self, index: int, how: str) -> None:
        """Say everywhere that process `index` is gone, and end."""
        if self._closed:
            return
        name = self._links[index].name
        self._end(f"Process {index} of {self.count}{f' ({name})' if name else ''} {how}")

    def _end(self, sentence: str) -> None:
        with self._changed:
            if self._lost or self._closed or self.failed:  # this one says its own error
                return
            self._lost = True
        for link in self._links.values():
            if not link.left:
                link.send({"lost": sentence})
        kept = "What was committed is kept"
        if self._place is not None:
            kept += f" in {self._place}, and `resume` continues from there"
        self.sentence = " ".join(f"{sentence} {kept}.".split())
        self._leave(self.sentence)

    def agree(self, value: Any) -> list[Any]:
        """What all processes say, in their order; `value` is what this one says.

        Args:
            value: JSON-ready.

        Raises:
            RuntimeError: the process has been told to end.
        """
        self._number = number = self._number + 1
        if not self.leads:
            self._links[0].send({"say": number, "value": value})
            with self._changed:
                self._changed.wait_for(lambda: number in self._agreed)
                return self._agreed.pop(number)
        with self._changed:
            said = self._said.setdefault(number, {})
            said[0] = value
            self._changed.wait_for(lambda: len(said) == self.count)
            del self._said[number]
        values = [said[i] for i in range(self.count)]
        for link in self._links.values():
            link.send({"all": number, "values": values})
        # As the others get it, so that all processes see the same types.
        return json.loads(json.dumps(values))

    @contextmanager
    def guarded(self, place: Any = None) -> Iterator[None]:
        """A block in which the others learn of an error here.

        Args:
            place: the run folder, for the sentence of a loss.
        """
        self._place = place
        try:
            yield
        except EndedTogether:
            raise
        except BaseException as error:
            # A broken collective is the trace of another's end, which is told in a moment.
            broken = any(word in str(error) for word in _BROKEN_COLLECTIVE)
            self.wait_for_the_end(self._silence + 5.0 if broken else 0.7)
            self.failed = True
            said = str(error).strip().split("\n")[0] or type(error).__name__
            for link in self._links.values():
                link.send({"failed": said[:500]})
            self._closed = True  # the others say this back, and it has been said
            raise
        finally:
            self._place = None

    def wait_for_the_end(self, seconds: float) -> None:
        """Leave the word to the thread that knows who was lost, if one was."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            time.sleep(0.05)

    def close(self) -> None:
        """Leave in peace: the others do not count this process as lost."""
        self._closed = True
        for link in self._links.values():
            link.send({"bye": 1})


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _print_and_end(sentence: str) -> None:
    print(f"bayesnn: error: {sentence}", file=sys.stderr, flush=True)
    os._exit(LOST)
