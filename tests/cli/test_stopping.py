"""What a run that SIGTERM ends may raise, and what it may not hide."""

import pytest

from bayesnn_ppl.cli.stopping import Stop
from bayesnn_ppl.distributed import Alone, EndedTogether


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
    monkeypatch.setattr("bayesnn_ppl.cli.stopping.current", Pair)
    stop, error = Stop(), EndedTogether("ended in the warm-up", by=by)
    if passes:
        ended(stop, error)
    else:
        with pytest.raises(EndedTogether):
            ended(stop, error)
    assert stop.came == passes
