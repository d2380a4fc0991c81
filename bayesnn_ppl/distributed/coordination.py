"""Processes of one mesh: they agree on what to do next, and learn which of them was lost.

All of it goes through JAX's distributed service, which process 0 holds. Its key-value store carries
what each process says, and why a run ends; its heartbeats tell which processes live. JAX alone
would end the others by `abort`, without a name: here the service tolerates a loss
(`jax_enable_recoverability`), and the first process that learns of one says so to all.
"""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bayesnn_ppl.distributed.alone import LOST, Alone, EndedTogether

__all__ = ["MeshProcesses", "print_and_end"]

_WAIT_MILLISECONDS = 1000  # of one wait for a key, and between looks at who lives
_HEARD_SECONDS = 1.5  # process 0 stays so long after an ending, for the others to hear of it
# Words of JAX's errors where a collective has lost its other end.
_BROKEN_COLLECTIVE = ("Gloo", "UNAVAILABLE", "DEADLINE_EXCEEDED", "Connection", "NCCL", "heartbeat")


class MeshProcesses(Alone):
    """This process among those whose devices make one mesh.

    Args:
        index, count: its place, and how many there are.
        client: of JAX's distributed service.
        silence: seconds without a heartbeat after which the service takes a process for lost.
        leave: called with a sentence when the run ends elsewhere; by default it is printed, and
            this process ends with status 75.

    Attributes:
        failed: whether this process has told the others of an error of its own.
        sentence: why this process ends, once it is known.
    """

    def __init__(
        self,
        index: int,
        count: int,
        client: Any,
        *,
        silence: int,
        leave: Callable[[str], None] | None = None,
    ) -> None:
        self.index, self.count = index, count
        self.failed = False
        self.sentence: str | None = None
        self._client, self._silence, self._leave = client, silence, leave or print_and_end
        self._place: Any = None
        self._number = 0
        self._done = self._closed = False
        client.key_value_set(_key("name", index), _own_name())
        self._threads = [
            threading.Thread(target=watch, name=f"bayesnn{watch.__name__}", daemon=True)
            for watch in (self._watch_processes, self._watch_ending)
        ]
        for thread in self._threads:
            thread.start()

    def agree(self, value: Any) -> list[Any]:
        """What all processes say, in their order; `value` is what this one says.

        Args:
            value: JSON-ready.

        Raises:
            RuntimeError: the process has been told to end.
        """
        self._number = number = self._number + 1
        said = _key(number, "said")
        if not self.leads:
            self._client.key_value_set(f"{said}/{self.index}", json.dumps(value))
            return json.loads(self._wait_for(_key(number, "agreed"), 0))
        values = {"0": json.dumps(value)}
        # Most have spoken once the last has: one look at all of them spares as many waits.
        for index in map(str, range(self.count - 1, 0, -1)):
            if index not in values:
                self._wait_for(f"{said}/{index}", int(index))
                found = self._client.key_value_dir_get(said)
                values |= {key.rpartition("/")[2]: word for key, word in found}
        agreed = f"[{', '.join(values[str(i)] for i in range(self.count))}]"
        self._client.key_value_set(_key(number, "agreed"), agreed)
        # All that have spoken now have read what was agreed before.
        self._client.key_value_delete(_key(number - 1))
        return json.loads(agreed)

    def _wait_for(self, key: str, index: int) -> str:
        """The value of a key that process `index` sets."""
        left = False
        while True:
            try:
                return self._client.blocking_key_value_get(key, _WAIT_MILLISECONDS)
            except Exception as error:
                if not _says(error, "DEADLINE_EXCEEDED"):  # no service: JAX ends this process
                    self.wait_for_the_end(self._silence + 5.0)
                    raise
            if self.sentence is not None:
                raise RuntimeError(self.sentence)
            if left:
                self._end([index], "ended before the others had.")
            left = self._has_left(index)  # and is waited for once more: it may just have spoken

    def _has_left(self, index: int) -> bool:
        return self._read(_key("left", index)) is not None

    def _read(self, key: str) -> str | None:
        try:
            return self._client.key_value_try_get(key)
        except Exception as error:
            if _says(error, "NOT_FOUND"):
                return None
            raise

    def _watch_processes(self) -> None:
        """Ask the service, as all processes do, which of them live."""
        everyone = range(self.count)
        while not self._closed:
            try:
                alive = self._client.get_live_nodes(everyone)
                lost = [i for i in everyone if i not in alive and not self._has_left(i)]
            except Exception:  # no service: JAX ends this process
                return
            if lost:
                self._end(
                    lost,
                    f"gave no sign of life for {self._silence} s: killed, stopped or cut off.",
                )
            time.sleep(1e-3 * _WAIT_MILLISECONDS)

    def _watch_ending(self) -> None:
        """Wait for the sentence that ends the run, and leave with it."""
        while not self._closed:
            try:
                ending = self._client.blocking_key_value_get(_key("ending"), _WAIT_MILLISECONDS)
            except Exception as error:
                if _says(error, "DEADLINE_EXCEEDED"):
                    continue
                return
            if not self.failed:  # one that failed says its own error
                self._leave_with(ending)
            return

    def _leave_with(self, ending: str) -> None:
        self.sentence = self._with_what_is_kept(ending)
        if self._done:  # all is well here, and `close` waits no longer
            return
        if self.leads:
            time.sleep(_HEARD_SECONDS)
        self._leave(self.sentence)

    def _with_what_is_kept(self, ending: str) -> str:
        where = (
            "" if self._place is None else f" in {self._place}, and `resume` continues from there"
        )
        return f"{ending} What was committed is kept{where}."

    def _end(self, indices: list[int], how: str) -> None:
        """Tell all processes by which of them the run ends, and how; the first message counts."""
        with suppress(Exception):  # another was first, or without a service JAX ends this process
            names = [self._read(_key("name", index)) for index in indices]
            who = " and ".join(
                f"{index} of {self.count}{f' ({name})' if name else ''}"
                for index, name in zip(indices, names, strict=True)
            )
            noun = "Process" if len(indices) == 1 else "Processes"
            self._client.key_value_set(_key("ending"), f"{noun} {who} {how}")

    def fail(self, error: BaseException) -> None:
        """Tell the others of an error that ends this process, if no other's end has caused it."""
        # A broken collective is the trace of another's end, which is told in a moment.
        broken = _says(error, *_BROKEN_COLLECTIVE)
        if broken and (left := [i for i in range(self.count) if self._has_left(i)]):
            self._end(left, "ended before the others had.")
        self.wait_for_the_end(2 * self._silence + 5.0 if broken else 0.7)
        self.failed = True
        said = " ".join(str(error).strip().split("\n")[0][:500].split()) or type(error).__name__
        end = "" if said.endswith((".", "?", "!")) else "."
        self._end([self.index], f"ended with an error: {said}{end}")
        if self.leads:
            time.sleep(_HEARD_SECONDS)

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
            self.fail(error)
            raise
        finally:
            self._place = None

    def service_lost(self) -> str:
        """Why this process ends when JAX has lost its connection to process 0."""
        if self.sentence is not None:
            time.sleep(1.0)  # another thread is saying why
        return self._with_what_is_kept(f"Process 0 of {self.count} is lost, or has lost this one.")

    def wait_for_the_end(self, seconds: float) -> None:
        """Leave the word to the thread that knows who was lost, if one was."""
        time.sleep(seconds)

    def close(self) -> None:
        """Leave in peace; process 0 does when all others have left, since they need its service."""
        self._done = True
        self._client.key_value_set(_key("left", self.index), "")
        if self.leads:
            for index in range(1, self.count):
                while self.sentence is None and not self._has_left(index):
                    time.sleep(0.05)
        self._closed = True
        self._client.shutdown()  # ends the calls in which the threads wait
        for thread in self._threads:
            thread.join(self._silence)


def _key(*parts: Any) -> str:
    return "/".join(["bayesnn", *map(str, parts)])


def _says(error: BaseException, *words: str) -> bool:
    return any(word in str(error) for word in words)


def _own_name() -> str:
    """What this process is called in the sentences of the others."""
    return f"host {socket.gethostname()}, process number {os.getpid()}"


def print_and_end(sentence: str) -> None:
    """Say why this process ends, and end it with status 75, whatever its threads do."""
    print(f"bayesnn: error: {sentence}", file=sys.stderr, flush=True)
    os._exit(LOST)
