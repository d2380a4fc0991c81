"""One process that makes a run by itself: what a team of several is in the simplest case."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LOST = 75  # EX_TEMPFAIL of sysexits: `resume` continues the run


class EndedTogether(RuntimeError):
    """An end that all processes have agreed on, of which none has to tell the others.

    Attributes:
        by: what ended the run, as in its record.
    """

    def __init__(self, message: str, *, by: str) -> None:
        super().__init__(message)
        self.by = by


class Alone:
    """One process that makes a run by itself.

    Attributes:
        index, count: 0 of 1.
    """

    index, count = 0, 1

    @property
    def leads(self) -> bool:
        """Whether this is process 0, which commits and reports."""
        return self.index == 0

    def agree(self, value: Any) -> list[Any]:
        """What all processes say, in their order; `value` is what this one says."""
        return [value]

    @contextmanager
    def guarded(self, place: Any = None) -> Iterator[None]:
        """A block in which the others learn of an error here."""
        yield

    def close(self) -> None:
        """Leave in peace."""


ALONE = Alone()
