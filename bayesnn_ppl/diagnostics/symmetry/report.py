"""How much of the disagreement between chains in weight space is the network's symmetry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesnn_ppl.core.arguments import positive, readable
from bayesnn_ppl.core.wording import listed, percent
from bayesnn_ppl.diagnostics.convergence.measures import rhat
from bayesnn_ppl.diagnostics.posterior_protocol import PosteriorDraws
from bayesnn_ppl.diagnostics.symmetry.alignment import aligned_weights
from bayesnn_ppl.diagnostics.symmetry.canonical import canonical_weights, layers_and_weights
from bayesnn_ppl.diagnostics.symmetry.hidden_layers import HiddenLayer

__all__ = ["RhatSummary", "SymmetryReport", "function_modes", "symmetry_report"]

_THRESHOLD, _LIMIT = 1.01, 1.1


@readable
class RhatSummary(NamedTuple):
    """R-hat over the elements of some variables; constants are left out.

    Shares are of the `elements` that vary, below 1.01 and below 1.1.
    """

    elements: int
    below_threshold: float
    below_limit: float
    median: float
    largest: float


@readable
@dataclass(frozen=True)
class SymmetryReport:
    """R-hat of functions, and of weights before and after their symmetries are taken away.

    Attributes:
        functions: at the probe inputs, which no symmetry touches.
        raw: of the network's weights as they were drawn.
        canonical: in `canonical_form`.
        aligned: by `align`.
        modes: chains that are at one place in function space, as `function_modes` finds them.
        distances: between the functions of each two chains, (chain, chain); 1 is none.
        layers: the hidden layers, with their symmetries.
    """

    functions: RhatSummary
    raw: RhatSummary
    canonical: RhatSummary
    aligned: RhatSummary
    modes: tuple[tuple[int, ...], ...]
    distances: NDArray[np.float64]
    layers: tuple[HiddenLayer, ...]

    def _figures(self) -> dict[str, Any]:
        names = ("functions", "raw", "canonical", "aligned")
        largest = {f"rhat_{name}": getattr(self, name).largest for name in names}
        return {"modes": len(self.modes), **largest}

    def __str__(self) -> str:
        rows = {
            "functions": self.functions,
            "weights as drawn": self.raw,
            "weights, canonical": self.canonical,
            "weights, aligned": self.aligned,
        }
        lines = [
            f"Symmetries of {_described(self.layers)}",
            "",
            f"  {'R = R-hat':<20}{'count':>8}{'R<1.01':>10}{'R<1.1':>10}{'median':>9}{'max R':>9}",
        ]
        for name, row in rows.items():
            shares = (row.below_threshold, row.below_limit) if row.elements else ()
            cells = [percent(share) for share in shares] or ["-", "-"]
            lines.append(
                f"  {name:<20}{row.elements:>8}{cells[0]:>10}{cells[1]:>10}"
                f"{row.median:>9.3f}{row.largest:>9.3f}"
            )
        places = "; ".join(listed(list(chains)) for chains in self.modes)
        return "\n".join(
            [*lines, "", f"Modes visited, up to symmetry: {len(self.modes)} ({places})"]
        )


def symmetry_report(
    posterior: PosteriorDraws,
    x: Any = None,
    *,
    network: Any = None,
    input_shape: Sequence[int] | None = None,
    name: str = "net",
) -> SymmetryReport:
    """R-hat in function space, and of weights raw, canonical and aligned; modes visited.

    R-hat of weights far above that of functions which falls in the other two forms is symmetry;
    what is left is either directions that the data leave open, along which chains move slowly, or
    modes that no symmetry joins. Aligned weights lie together by construction (see `align`), so
    function space remains the judge.

    Args:
        posterior: of two chains or more, with its model and its weights.
        x: probe inputs (N, ...); None for the probe inputs of the run.
        network, input_shape, name: as in `canonical_form`.

    Raises:
        TypeError, ValueError: as `canonical_form`; one chain only, fewer than four draws, or
            inputs that `posterior.function_values` refuses, or at which a function is not finite.

    References:
        Papamarkou, Hinkle, Young, Womble (2022), Challenges in Markov chain Monte Carlo for
        Bayesian neural networks, Statistical Science 37(3).
    """
    layers, weights, _ = layers_and_weights(
        posterior, network=network, input_shape=input_shape, name=name
    )
    chains, draws = next(iter(weights.values())).shape[:2]
    if chains < 2 or draws < 4:
        raise ValueError(
            f"R-hat compares chains, two at least, of four draws or more; these are {chains} of "
            f"{draws}."
        )
    functions = posterior.function_values(x)
    modes, distances = function_modes(functions)
    return SymmetryReport(
        functions=_summary(functions),
        raw=_summary(weights),
        canonical=_summary(canonical_weights(weights, layers)),
        aligned=_summary(aligned_weights(weights, layers)),
        modes=modes,
        distances=distances,
        layers=layers,
    )


def function_modes(
    functions: Mapping[str, ArrayLike], *, limit: float = _LIMIT
) -> tuple[tuple[tuple[int, ...], ...], NDArray[np.float64]]:
    r"""Which chains are at one place in function space, whatever their weights.

    Outputs count alike, whatever their scales. The distance of two chains is the root mean square
    distance of a function of one from a function of the other, each output f_o in units of that
    between draws of one chain, over the outputs:

        d_ab² = mean_o E(f_{a,o} - f_{b,o})² / (½ E(f_{a,o} - f'_{a,o})² + ½ E(f_{b,o} - f'_{b,o})²)
              = 1 + mean_o (E f_{a,o} - E f_{b,o})² / (v_{a,o} + v_{b,o}),

    with means and variances over draws; an output that is one constant over all draws is left out.
    For one output d_ab is the R-hat of the two chains, neither split nor rank-normalised (to
    1/draws in its square). Chains nearer than `limit` are joined, and so is what is joined to
    either; 1.1 is two means 0.65 standard deviations apart in every output, or √O times as far in
    one of O. A chain of n independent draws is at √(1 + 1/n) or so from another in the same mode.

    Args:
        functions: label -> values at probe inputs, (chain, draw, ...); of several labels the
            largest distance counts.
        limit: above 1.

    Returns:
        The modes, each a tuple of chains numbered from 0, and the distances (chain, chain).

    Raises:
        ValueError: no functions, arrays without draws, values that are not finite, or a limit that
            is not above 1.
    """
    limit = positive(limit, "`limit`")
    arrays = {label: np.asarray(array, dtype=float) for label, array in functions.items()}
    if limit <= 1:
        raise ValueError(f"`limit` must be above 1, the distance of equal chains, not {limit:g}.")
    if not arrays or any(a.ndim < 2 or a.shape[1] < 2 for a in arrays.values()):
        raise ValueError(
            "`functions` must map labels to arrays (chain, draw, ...) of at least two draws."
        )
    flat = {label: a.reshape(*a.shape[:2], -1) for label, a in arrays.items()}
    for label, values in flat.items():
        lost = np.flatnonzero(~np.isfinite(values).all(axis=(1, 2))).tolist()
        if lost:
            # Taken along, such a chain would be near to every other, and join their modes.
            raise ValueError(
                f"The functions `{label}` are not finite in {listed(lost)}, so these are at no "
                "place that could be compared. Leave them out, or the rows at which they are not "
                "finite."
            )
    each = [_distances(values) for values in flat.values()]
    distances = np.maximum.reduce(each)
    left, modes = set(range(len(distances))), []
    while left:
        mode: set[int] = set()
        fresh = {min(left)}
        while fresh:
            mode |= fresh
            fresh = {b for b in left - mode if any(distances[a, b] < limit for a in fresh)}
        left -= mode
        modes.append(tuple(sorted(mode)))
    return tuple(modes), distances


def _distances(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances of chains (chain, chain) by finite values (chain, draw, output)."""
    varies = np.ptp(values, axis=(0, 1)) > 0
    if not varies.any():
        return np.ones((len(values), len(values)))
    means, spread = (a[:, varies] for a in (values.mean(axis=1), values.var(axis=1, ddof=1)))
    distances = []
    for mean, own in zip(means, spread, strict=True):
        apart, within = (mean - means) ** 2, own + spread
        # Two chains that never move are at one place, or infinitely far apart.
        ratio = np.where(apart > 0, np.inf, 0.0)
        np.divide(apart, within, out=ratio, where=within > 0)
        distances.append(np.sqrt(1 + ratio.mean(axis=1)))
    return np.array(distances)


def _summary(variables: Mapping[str, NDArray]) -> RhatSummary:
    found = np.concatenate([np.ravel(rhat(array)) for array in variables.values()])
    found = found[~np.isnan(found)]
    if not found.size:
        return RhatSummary(0, np.nan, np.nan, np.nan, np.nan)
    return RhatSummary(
        elements=found.size,
        below_threshold=float(np.mean(found < _THRESHOLD)),
        below_limit=float(np.mean(found < _LIMIT)),
        median=float(np.median(found)),
        largest=float(found.max()),
    )


def _described(layers: tuple[HiddenLayer, ...]) -> str:
    if not layers:
        return "a network without hidden layers: none"
    words = []
    for layer in layers:
        also = ", scales" * layer.scales + ", signs" * layer.signs
        words.append(f"{layer.name} ({layer.units} units: order{also})")
    return "; ".join(words)
