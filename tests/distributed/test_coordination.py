"""Processes of a mesh agree, and learn which of them is gone: threads with one service."""

import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from jaxlib import _jax

from bayesnn_ppl import distributed
from bayesnn_ppl.distributed import MeshProcesses
from tests.distributed.processes import ENVIRONMENT, free_port


class Members:
    """Members of one mesh in this process; `left` is what each said when it would have ended."""

    def __init__(self, count):
        self.left = {}
        address = f"127.0.0.1:{free_port()}"
        self._service = _jax.get_distributed_runtime_service(
            address, count, heartbeat_timeout=2, shutdown_timeout=5, recoverable=True
        )
        self.clients = [
            _jax.get_distributed_runtime_client(address, i, init_timeout=20, heartbeat_timeout=2)
            for i in range(count)
        ]
        together(client.connect for client in self.clients)
        self.members = [
            MeshProcesses(
                i, count, client, silence=2, leave=lambda s, i=i: self.left.setdefault(i, s)
            )
            for i, client in enumerate(self.clients)
        ]

    def wait_for(self, condition):
        ends = time.monotonic() + 20.0
        while not condition():
            assert time.monotonic() < ends, self.left
            time.sleep(0.02)

    def close(self):
        together(member.close for member in self.members)
        self._service.shutdown()


def together(calls):
    """Call all at once; what they return, in their order."""
    found = {}
    threads = [
        threading.Thread(target=lambda i=i, call=call: found.__setitem__(i, call()), daemon=True)
        for i, call in enumerate(calls)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert len(found) == len(threads), "some have not returned"
    return [found[i] for i in range(len(threads))]


@contextmanager
def mesh_of(count):
    found = Members(count)
    try:
        yield found
    finally:
        found.close()


def test_all_hear_what_each_says_and_nothing_of_it_is_kept():
    with mesh_of(3) as mesh:

        def talk(member):
            return [member.agree({"from": member.index, "number": i}) for i in range(50)]

        spoken = together(lambda m=member: talk(m) for member in mesh.members)
        expected = [[{"from": i, "number": number} for i in range(3)] for number in range(50)]
        assert spoken == [expected] * 3
        # What was agreed last is read by the others at their own time.
        kept = mesh.clients[1].key_value_dir_get("bayesnn")
        assert {key.split("/")[1] for key, _ in kept} == {"name", "50"}
    assert mesh.left == {}, "one that is closed is not missed"


def test_process_0_leaves_last_since_the_others_need_its_service():
    with mesh_of(2) as mesh:
        first = threading.Thread(target=mesh.members[0].close)
        first.start()
        first.join(1.0)
        assert first.is_alive(), "process 1 has not left yet"
        mesh.members[1].close()
        first.join(5.0)
        assert not first.is_alive() and mesh.left == {}
        mesh.members.clear()


@pytest.mark.parametrize("count", [2, 3])
def test_one_that_ends_without_a_word_is_named(count):
    with mesh_of(count) as mesh:
        mesh.clients[1].shutdown()
        others = {0, count - 1} - {1}
        mesh.wait_for(lambda: others <= set(mesh.left))
        for index in others:
            assert f"Process 1 of {count} (host " in mesh.left[index]
            assert "no sign of life for 2 s: killed, stopped or cut off." in mesh.left[index]
        mesh.members.pop(1)


def test_one_that_leaves_early_is_named_by_those_who_wait_for_it():
    with mesh_of(3) as mesh:
        mesh.members[2].close()
        with pytest.raises(RuntimeError, match=r"2 of 3 .* ended before the others had"):
            mesh.members[0].agree("more?")
        mesh.members.pop(2)


def test_an_error_is_told_to_the_others_with_the_place():
    with mesh_of(2) as mesh, mesh.members[0].guarded("runs/one"):
        with pytest.raises(ValueError, match="bad data"), mesh.members[1].guarded("runs/one"):
            raise ValueError("There are bad data in row 3\nand more")
        mesh.wait_for(lambda: 0 in mesh.left)
    said = mesh.left[0]
    assert said.startswith("Process 1 of 2 (host ")
    assert "ended with an error: There are bad data in row 3. What was committed" in said
    assert said.endswith("kept in runs/one, and `resume` continues from there.")
    assert 1 not in mesh.left, "it says its own error"


def test_the_first_reason_stands():
    with mesh_of(3) as mesh:
        mesh.members[1].fail(ValueError("first"))
        mesh.members[2].fail(ValueError("second"))
        mesh.wait_for(lambda: 0 in mesh.left)
    assert "first" in mesh.left[0] and "second" not in mesh.left[0]


@pytest.mark.check
@pytest.mark.parametrize("index", [0, 1])
def test_a_process_that_stays_alone_says_so(index):
    """JAX aborts it; an uncaught error of another one reaches it in the same way."""
    program = (
        "from bayesnn_ppl import distributed\n"
        f"distributed.initialize('127.0.0.1:{free_port()}', 2, {index}, timeout=2)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == distributed.LOST
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("bayesnn: error: Not all processes of the run met within 2 s.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("10.0.0.1:1234", 2, None), "some are given and others not"),
        (("10.0.0.1", 2, 0), "address is `host:port`"),
        (("10.0.0.1:1234", 2, 2), "from 0 to 1 with 2 processes"),
    ],
)
def test_wrong_arguments_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        distributed.initialize(*arguments)
    with pytest.raises(ValueError, match="from 1 to 20 whole seconds"):
        distributed.initialize("10.0.0.1:1234", 2, 0, silence=100)
