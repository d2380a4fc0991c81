"""A page that follows a run: rebuilt when a block has been committed, and served to this host."""

import html
import json
import signal
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bayesnn_ppl.report.building import assets, built, document
from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.storage import fetched, read_commit, read_config

__all__ = ["Watched", "serve"]

HOST = "127.0.0.1"
_REST = 3.0  # pages are made at most for a quarter of the time, so that the run keeps the machine
_LOOK_SECONDS = 5.0  # between looks at an address
_FEWEST = 4  # draws, below which nothing can be judged


class Watched:
    """The page of a run, and which commit it shows.

    Attributes:
        place: folder or address of the run.
        folder: where it is here.
        name: of the run.
        subject: opens what is committed and says what the page is about.
    """

    def __init__(self, place: str | Path, name: str, subject: Callable[[], Any]) -> None:
        self.place, self.name, self.subject = place, name, subject
        self.folder, self._looked = fetched(place), time.monotonic()
        self._lock = threading.Lock()
        self._shown: tuple[str, str] | None = None  # of which commit, and the page
        self._next = 0.0

    def state(self) -> dict[str, Any]:
        """What is committed, and what the page shows; cheap enough to be asked every second."""
        if time.monotonic() - self._looked > _LOOK_SECONDS and self._lock.acquire(blocking=False):
            try:  # not while a page is made of what it would replace
                fetched(self.place)
                self._looked = time.monotonic()
            finally:
                self._lock.release()
        record = read_commit(self.folder)
        return {
            "commit": _version(record),
            "shown": None if self._shown is None else self._shown[0],
            "wait": max(0.0, self._next - time.monotonic()),
            "phase": record["phase"],
            "done": record["done"],
            "draws": record["draws"],
            "complete": record["complete"],
        }

    def page(self) -> str:
        """The page of the last commit, or the one before where it was made a moment ago."""
        with self._lock:
            record = read_commit(self.folder)
            version = _version(record)
            early = self._shown is not None and time.monotonic() < self._next
            if self._shown is not None and (self._shown[0] == version or early):
                return self._shown[1]
            begin = time.monotonic()
            try:
                made = self._made(record)
            except (ValueError, OSError, KeyError):
                # Files may have been replaced while they were read, by a run that commits fast.
                if (later := read_commit(self.folder)) == record:
                    raise
                record, version = later, _version(later)
                made = self._made(record)
            self._next = time.monotonic() + _REST * (time.monotonic() - begin)
            self._shown = (version, made)
            return made

    def _made(self, record: dict[str, Any]) -> str:
        script = assets("watch.js") + f"\nfollow({json.dumps(_version(record))});"
        if record["draws"] < _FEWEST:
            return self._waiting(record, script)
        return built([self.subject()], script=script).html

    def _waiting(self, record: dict[str, Any], script: str) -> str:
        wanted = read_config(self.folder)
        phase, done = record["phase"], record["done"]
        whole = wanted.get("warmup") if phase == "warmup" else wanted.get("draws_requested")
        words = (
            f"{done} of {whole} draws of the phase `{phase}` are made."
            if whole
            else f"The phase `{phase}` is at {done}."
        )
        body = markup.paragraph("There is nothing to judge yet.", "verdict")
        body += markup.paragraph(words) + self._history()
        body += markup.note("The page updates itself when the next block has been written.")
        return document(
            f"Report: {self.name}",
            markup.section("verdict", "In progress", body),
            script=script,
        )

    def _history(self) -> str:
        """The last lines of `metrics.csv`."""
        file = self.folder / "metrics.csv"
        lines = file.read_text().splitlines() if file.is_file() else []
        if len(lines) < 2:
            return ""
        header = lines[0].split(",")
        rows = [line.split(",") for line in lines[1:][-10:]]
        shown = [i for i in range(len(header)) if any(len(r) > i and r[i] for r in rows)]
        return markup.table(
            "The last lines of metrics.csv",
            [header[i].replace("_", " ") for i in shown],
            [[row[i] for i in shown] for row in rows if len(row) == len(header)],
        )


def serve(
    watched: Watched,
    *,
    port: int,
    started: Callable[[str], None],
    browser: bool = False,
) -> None:
    """Serve the page to this machine until Ctrl-C, or SIGINT from elsewhere.

    Args:
        watched: the run.
        port: of the loopback address; 0 for a free one.
        started: called with the address once it is served.
        browser: whether to open it.

    Raises:
        OSError: the port is taken.
    """
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(watched))
    except (OSError, OverflowError) as error:
        why = str(error).rstrip(".")
        raise OSError(
            f"The port {port} cannot be used: {why}. Choose another one with --port, or 0 for any "
            "that is free."
        ) from None
    server.daemon_threads = True
    address = f"http://{HOST}:{server.server_address[1]}/"
    started(address)
    if browser:
        import webbrowser

        webbrowser.open(address)
    # A job that a script started with `&` inherits the signal ignored, and nothing else ends this.
    main = threading.current_thread() is threading.main_thread()
    ignored = main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    try:
        if ignored:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _handler(watched: Watched) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/":
                self._answer(watched.page, "text/html; charset=utf-8")
            elif self.path == "/state":
                self._answer(lambda: json.dumps(watched.state()), "application/json")
            else:
                self.send_error(404)

        def _answer(self, make: Callable[[], str], kind: str) -> None:
            try:
                status, body = 200, make()
            except (ValueError, OSError, KeyError) as error:
                # A run that was removed, or is damaged: the page says so and asks again.
                status, body = (
                    503,
                    '<!DOCTYPE html><meta http-equiv="refresh" content="3"><title>bayesnn</title>'
                    f'<link rel="icon" href="data:,">{html.escape(str(error))}',
                )
                kind = "text/html; charset=utf-8"
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            try:
                self.wfile.write(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the reader has left

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _version(record: dict[str, Any]) -> str:
    return f"{record['phase']}-{record['done']}-{record['draws']}-{record['complete']}"
