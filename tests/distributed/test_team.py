"""Processes agree, and notice when one of them is gone; in threads, with sockets of their own."""

import json
import socket
import threading
import time

import pytest

from bayesnn_ppl import distributed
from bayesnn_ppl.distributed import Team


class Members:
    """Teams of one run in this process; `left` is what each said when it would have ended."""

    def __init__(self, count, **settings):
        self.left = {}
        hub, key, gather = Team.listen(
            count, leave=lambda s: self.left.setdefault(0, s), **settings
        )
        waiting = threading.Thread(target=gather, args=(10.0,))
        waiting.start()
        self.teams = [hub]
        for index in range(1, count):
            self.teams.append(
                Team.join(
                    index,
                    count,
                    "127.0.0.1",
                    key,
                    leave=lambda s, i=index: self.left.setdefault(i, s),
                    **settings,
                )
            )
        waiting.join()

    def wait_for(self, condition, seconds=10.0):
        ends = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < ends, self.left
            time.sleep(0.02)

    def close(self):
        for team in self.teams:
            team.close()


def test_what_comes_along_with_the_greeting_is_heard():
    """Two messages in one packet: whoever reads the first must not lose the second."""
    hub, key, gather = Team.listen(2, leave=lambda _: None)
    port, _, token = key.partition(":")
    words = [{"hello": 1, "token": token, "name": "other"}, {"say": 1, "value": "early"}]
    with socket.create_connection(("127.0.0.1", int(port))) as other:
        other.sendall("".join(json.dumps(word) + "\n" for word in words).encode())
        gather(10.0)
        found = []
        talk = threading.Thread(target=lambda: found.append(hub.agree("hub")), daemon=True)
        talk.start()
        talk.join(5.0)
        hub.close()
    assert found == [["hub", "early"]]


def test_all_hear_what_each_says():
    members = Members(3)
    found = {}

    def talk(team):
        for number in range(50):
            found[team.index, number] = team.agree({"from": team.index, "number": number})

    threads = [threading.Thread(target=talk, args=(team,)) for team in members.teams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    for (_, number), values in found.items():
        assert values == [{"from": i, "number": number} for i in range(3)]
    assert len(found) == 150
    members.close()
    time.sleep(0.5)
    assert members.left == {}, "a team that is closed loses nobody"


@pytest.mark.parametrize("victim", [0, 1])
def test_one_that_ends_without_a_word_is_named(victim):
    members = Members(3)
    for link in members.teams[victim]._links.values():
        link.socket.shutdown(socket.SHUT_RDWR)
    others = {0, 1, 2} - {victim}
    members.wait_for(lambda: others <= set(members.left))
    for index in others:
        assert f"Process {victim} of 3 (host " in members.left[index]
        assert "is lost" in members.left[index] and members.left[index].endswith("is kept.")


def test_one_that_is_silent_is_named(monkeypatch):
    monkeypatch.setattr("bayesnn_ppl.distributed.team._BEAT_SECONDS", 0.1)
    members = Members(2, silence=0.6)
    time.sleep(1.0)
    assert members.left == {}, "beats are heard"
    for link in members.teams[1]._links.values():
        monkeypatch.setattr(link, "send", lambda message: True)
    members.wait_for(lambda: 0 in members.left)
    assert "Process 1 of 2" in members.left[0] and "nothing was heard" in members.left[0]


def test_an_error_is_told_to_the_others_with_the_place():
    members = Members(2)
    with members.teams[0].guarded("runs/one"):
        with pytest.raises(ValueError, match="bad data"), members.teams[1].guarded("runs/one"):
            raise ValueError("There are bad data in row 3")
        members.wait_for(lambda: 0 in members.left)
    said = members.left[0]
    assert "ended with an error: There are bad data in row 3." in said
    assert "kept in runs/one, and `resume` continues from there." in said


def test_a_stranger_is_not_let_in():
    team, key, gather = Team.listen(2)
    port = int(key.partition(":")[0])
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(b'{"hello": 1, "token": "guess", "name": "stranger"}\n')
        with pytest.raises(TimeoutError, match=r"the 2 processes of the run, \[1\] did not come"):
            gather(0.5)


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
    with pytest.raises(ValueError, match="from 1 to 20 seconds"):
        distributed.initialize("10.0.0.1:1234", 2, 0, silence=100.0)
