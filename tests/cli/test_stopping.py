"""What a run that SIGTERM ends may raise, and what it may not hide."""

import os
import signal

import pytest

from bayesnn_ppl.cli import main
from bayesnn_ppl.distributed import Alone, EndedTogether
from bayesnn_ppl.experiments.stopping import STOPPED, Stop, stop_on_sigterm


class Pair(Alone):
    """This process and another one."""

    count = 2


def ended(stop, error):
    with stop.expected():
        raise error


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("The callback ended SWAG in its burn-in"),  # of a fit
        EndedTogether("The callback ended the run in its warm-up", by="callback"),
    ],
)
def test_an_end_before_anything_was_drawn_passes_where_sigterm_came(error):
    stop = Stop()
    with pytest.raises(RuntimeError):
        ended(stop, error)
    assert not stop.came
    stop.came = True
    ended(stop, error)
    with pytest.raises(ValueError):
        ended(stop, ValueError("something else"))


@pytest.mark.parametrize(("by", "passes"), [("callback", True), ("max_time", False)])
def test_sigterm_may_have_come_to_another_process(by, passes, monkeypatch):
    monkeypatch.setattr("bayesnn_ppl.experiments.stopping.current", Pair)
    stop, error = Stop(), EndedTogether("ended in the warm-up", by=by)
    if passes:
        ended(stop, error)
    else:
        with pytest.raises(EndedTogether):
            ended(stop, error)
    assert stop.came == passes


@pytest.fixture
def outside():
    """The numbers of the signals that came to the handler outside of a stop's block."""
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    yield came
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("team", [Alone, Pair])
def test_a_second_sigterm_ends_no_process_of_several(team, outside, monkeypatch):
    """Each worker of a supervisor that is gone gets its own, up to half a second apart."""
    monkeypatch.setattr("bayesnn_ppl.experiments.stopping.current", team)
    with stop_on_sigterm() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.came_to_any()
    os.kill(os.getpid(), signal.SIGTERM)
    assert bool(outside) == (team is Alone)


@pytest.mark.parametrize("team", [Alone, Pair])
def test_a_run_that_was_not_stopped_leaves_sigterm_as_it_was(team, outside, monkeypatch):
    monkeypatch.setattr("bayesnn_ppl.experiments.stopping.current", team)
    with stop_on_sigterm() as stop:
        assert not stop.came_to_any()
    os.kill(os.getpid(), signal.SIGTERM)
    assert outside


def test_sigterm_may_come_while_the_processes_agree(outside, tmp_path, monkeypatch, capsys):
    """The last block is drawn, and others wait for this process's word."""
    agree = Stop.came_to_any

    def late(stop):
        os.kill(os.getpid(), signal.SIGTERM)
        return agree(stop)

    monkeypatch.setattr(Stop, "came_to_any", late)
    line = "sample hmc linear --num-leapfrogs 3 --warmup 20 --draws 20 --chains 1 --quiet"
    assert main([*line.split(), "--no-diagnose", "--out", str(tmp_path / "run")]) == STOPPED
    assert main(["resume", str(tmp_path / "run"), "--quiet", "--no-diagnose"]) == STOPPED
    assert capsys.readouterr().err.count("Stopped by SIGTERM; all is saved.") == 2
    assert not outside
