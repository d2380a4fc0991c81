"""What a diagnosis is made of, checked."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.diagnostics.convergence.measures import rectangular

__all__ = ["Given"]

_STATISTICS = (
    "diverging",
    "energy",
    "acceptance_rate",
    "tree_depth",
    "n_steps",
    "step_size",
    "lp",
    "stopped",
)
_AXES = ("chain", "draw")


class Given(NamedTuple):
    """Arrays of the same chains in the same order.

    Attributes:
        functions, draws: name -> (chain, draw, ...). One of them may be of every k-th draw.
        stats: name -> (chain, draw).
        starts: label of `functions` -> (chain, ...).
        every: draws that were made for each that is given.
        superchains: how many groups of chains there are, or None.
    """

    functions: Mapping[str, NDArray]
    draws: Mapping[str, NDArray]
    stats: Mapping[str, NDArray]
    starts: Mapping[str, NDArray]
    every: int
    superchains: int | None

    @classmethod
    def checked(
        cls,
        functions: Mapping[str, ArrayLike],
        draws: Mapping[str, ArrayLike],
        stats: Mapping[str, ArrayLike],
        starts: Mapping[str, ArrayLike] | None,
        *,
        every: int,
        superchains: int | None,
    ) -> "Given":
        """The arguments of `diagnose`; see there, also for what is raised."""
        misplaced = {"max_tree_depth", "target_acceptance"} & set(stats)
        if misplaced:
            raise ValueError(
                f"`stats` holds {', '.join(sorted(misplaced))}, which is a setting and not a "
                "statistic of a draw. Pass it as a keyword argument of `diagnose`."
            )
        every = integer(every, "`every`", at_least=1)
        values, weights = _arrays(functions, "functions"), _arrays(draws, "draws")
        known = {name: stats[name] for name in _STATISTICS if name in stats}
        statistics = _arrays(known, "stats", axes=2)
        if not values and not weights:
            raise ValueError(
                "`functions` and `draws` are both empty: there is nothing to diagnose. "
                "Pass the posterior's draws, and best function values at probe inputs too."
            )
        groups = (values, weights, statistics)
        chains = {array.shape[0] for group in groups for array in group.values()}
        if len(chains) > 1:
            raise ValueError(
                f"The arrays have different numbers of chains, {sorted(chains)}. The first axis of "
                "`functions`, `draws` and `stats` must be the same chains in the same order."
            )
        if superchains is not None:
            superchains = integer(superchains, "`superchains`", at_least=1)
        given = cls(values, weights, statistics, _starts(starts or {}, values), every, superchains)
        recorded, reported = given.recorded, {a.shape[1] for a in statistics.values()}
        if reported and max(reported) not in range(recorded, recorded * every + every):
            raise ValueError(
                f"`stats` are of {max(reported)} draws a chain, and there are {recorded}"
                f"{f' of every {every}-th' if every > 1 else ''} in `functions` and `draws`: they "
                "must be of the same draws, without those of the warm-up. If fewer were kept, say "
                "of how many: `every=10` for every tenth."
            )
        return given

    @property
    def chains(self) -> int:
        """How many."""
        return next(iter((self.functions or self.draws).values())).shape[0]

    @property
    def recorded(self) -> int:
        """Draws of a chain in the larger of the two groups."""
        return max(a.shape[1] for a in (*self.functions.values(), *self.draws.values()))


def _arrays(group: Mapping[str, ArrayLike], what: str, axes: int | None = None) -> dict:
    """Real arrays with the axes (chain, draw), the same draws within the group."""
    arrays = {name: _array(value, f"{what}[{name!r}]") for name, value in group.items()}
    for name, array in arrays.items():
        some = array.shape[:2] if what == "draws" else array.shape  # a layer may have no weights
        if array.ndim < 2 or (axes is not None and array.ndim != axes) or 0 in some:
            raise ValueError(
                f"`{what}[{name!r}]` has shape {array.shape}, but must be "
                f"(chain, draw{', ...' if axes is None else ''}) with at least one of each. "
                "For a single chain add the axis: array[None]."
            )
        if array.dtype.kind not in "fiub":
            raise TypeError(
                f"`{what}[{name!r}]` has dtype {array.dtype}, but a diagnosis needs real numbers."
            )
    sizes = {array.shape[1] for array in arrays.values()}
    if len(sizes) > 1:
        raise ValueError(
            f"The arrays of `{what}` have different numbers of draws, {sorted(sizes)}. "
            "Give all of them at the same draws."
        )
    return arrays


def _array(value: Any, name: str) -> NDArray:
    if set(_AXES) <= set(getattr(value, "dims", ())):  # of xarray, whose axes have names
        value = value.transpose(*_AXES, ...)
    return rectangular(value, name)


def _starts(starts: Mapping[str, ArrayLike], values: Mapping[str, NDArray]) -> dict[str, NDArray]:
    if starts and values and not set(starts) & set(values):
        raise ValueError(
            f"`starts` are of {', '.join(map(repr, starts))}, and `functions` of "
            f"{', '.join(map(repr, values))}: starts are compared with draws of the same label."
        )
    return {name: np.atleast_1d(array) for name, array in starts.items() if name in values}
