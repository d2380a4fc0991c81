"""Start the processes of a test, and see them end."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("worker.py")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(folder, count, *cases):
    """`count` processes of worker.py."""
    port = str(free_port())
    return [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(folder), str(index), str(count), port, *cases],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        for index in range(count)
    ]


def ended(processes, seconds=300):
    """(exit status, stdout, stderr) of each."""
    try:
        found = [(*process.communicate(timeout=seconds), process) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, out, error) for out, error, process in found]


def told(out):
    """The lines of JSON among what a worker has printed."""
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]
