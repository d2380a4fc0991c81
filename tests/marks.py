"""Which parameters of a test `make test` runs; `make check` runs all."""

import pytest


def checked(cases, *quick):
    """Parameters, of which all but those named, or else the first, are left to `make check`."""
    cases = list(cases)
    quick = quick or (cases[0],)
    return [pytest.param(case, marks=() if case in quick else pytest.mark.check) for case in cases]
