"""Stopping when done: a run that ends once its functions have converged, or its time is up."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from bayesnn_ppl.core.arguments import near_misses, positive

__all__ = ["Until"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_ESS = 400.0  # 100 for each of four chains (Vehtari et al. 2021)
_NAMES = ("function_rhat", "ess", "max_time")


@dataclass(frozen=True)
class Until:
    """When a run is done.

    Attributes:
        function_rhat: R-hat that every function value at the probe inputs must keep below, or None.
        ess: effective sample size, bulk and tail, that every one of them must reach, with the
            precision that a diagnosis with this threshold asks for; 400 where only `function_rhat`
            is given; or None.
        max_seconds: wall time of the call, compilation and warm-up included, or None.
    """

    function_rhat: float | None = None
    ess: float | None = None
    max_seconds: float | None = None

    @classmethod
    def parse(cls, given: Mapping[str, Any] | None) -> Self | None:
        """From what `sample(until=...)` takes.

        Raises:
            TypeError, ValueError: an unknown name, or a value out of range.
        """
        if given is None:
            return None
        if not isinstance(given, Mapping):
            raise TypeError(
                "`until` is a mapping such as dict(function_rhat=1.01, ess=400, "
                f'max_time="10m"), not {given!r}.'
            )
        for name in given:
            if name not in _NAMES:
                raise ValueError(f"`until` knows no `{name}`. {near_misses(str(name), _NAMES)}")
        if not given:
            raise ValueError(f"`until` is empty. Give one or more of {', '.join(_NAMES)}.")
        rhat = given.get("function_rhat")
        if rhat is not None and positive(rhat, "`until` function_rhat") <= 1.0:
            raise ValueError(
                f"`until` has function_rhat {rhat:g}, but R-hat comes near 1 from above: 1.01 is "
                "the usual threshold."
            )
        # R-hat says little where draws are few, so it never decides alone.
        ess = given.get("ess", None if rhat is None else _ESS)
        limit = given.get("max_time")
        return cls(
            None if rhat is None else float(rhat),
            None if ess is None else positive(ess, "`until` ess"),
            None if limit is None else seconds_of(limit),
        )

    @property
    def watches_functions(self) -> bool:
        """Whether function values are needed."""
        return self.function_rhat is not None or self.ess is not None

    def reached(self, rhat: float, ess: float) -> bool:
        """Whether a largest R-hat and a smallest effective sample size are what is wanted."""
        if self.function_rhat is not None and not rhat < self.function_rhat:
            return False
        return self.ess is None or ess >= self.ess


def seconds_of(given: Any) -> float:
    """Seconds of a number, or of text such as "90s", "10m" or "1h30m".

    Raises:
        TypeError, ValueError: it is neither.
    """
    if not isinstance(given, str):
        return positive(given, "`until` max_time, in seconds,")
    text = given.replace(" ", "").lower()
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(
            f"`until` has max_time {given!r}, which is not a time. Write seconds as a number, or "
            'text such as "90s", "10m" or "1h30m".'
        )
    return positive(sum(float(number) * _UNITS[unit] for number, unit in parts), "`until` max_time")
