"""From runs to a page: trajectories as 16-bit numbers, a still figure, and the script."""

import base64
import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.plots.figure import new_figure, palette, styled
from bayesnn_ppl.report.building import Page, assets, document
from bayesnn_ppl.report.gallery.running import (
    FACTORS,
    SAMPLERS,
    TEMPERATURES,
    Run,
    looks,
    run,
    stein,
)
from bayesnn_ppl.report.gallery.targets import REACH, TARGETS
from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.svg_figures import figure

_GRID = 96
_SPAN = 16.0  # half the width of what 16 bits hold; what is farther stands at the edge
_MIDDLE = (FACTORS.index(1.0), TEMPERATURES.index(1.0))
_SHORT = 120  # steps of the particles, which are many

type Runs = dict[tuple[str, str, int, int], Run]  # by target, sampler, step and temperature


def gallery_page(
    *,
    draws: int = 240,
    seed: int = 0,
    targets: tuple[str, ...] = tuple(TARGETS),
    samplers: tuple[str, ...] = tuple(SAMPLERS),
    report: Callable[[str], None] | None = None,
) -> Page:
    """A page on which the library's kernels move over targets in the plane.

    Target × sampler × step size × temperature, four chains each; R-hat, effective sample size and
    temperatures follow the animation. Every number comes from a run of `sample` (of the library's
    Stein direction for SVGD), and none from the page's script.

    Args:
        draws: of each chain, without warm-up; 40 at least.
        seed: of everything random.
        targets, samplers: those that are shown.
        report: called with a line for each sampler.

    Returns:
        A `Page`; `page.save("gallery.html")` writes it.

    Raises:
        ValueError: too few draws, or a name that is unknown.
    """
    integer(draws, "`draws` of the gallery", at_least=40)
    for name, known in ((targets, TARGETS), (samplers, SAMPLERS)):
        for one in name:
            if one not in known:
                raise ValueError(f"`{one}` is unknown. Known are: {', '.join(known)}.")
    runs: Runs = {}
    for sampler in samplers:
        if report:
            report(f"{sampler}: {len(targets) * len(FACTORS) * len(TEMPERATURES)} runs")
        chosen = SAMPLERS[sampler]
        for target, i, j in itertools.product(
            targets, range(len(FACTORS)), range(len(TEMPERATURES))
        ):
            step, temperature = FACTORS[i] * chosen.step, TEMPERATURES[j]
            if chosen.kernel is None:
                found = stein(target, step, temperature, min(draws, _SHORT), seed)
            else:
                found = run(target, sampler, step, temperature, draws, seed)
            runs[target, sampler, i, j] = found
    return Page(_page(runs, targets, samplers), {})


def _page(runs: Runs, targets: tuple[str, ...], samplers: tuple[str, ...]) -> str:
    data = {
        "reach": REACH,
        "span": _SPAN,
        "grid": _GRID,
        "temperatures": TEMPERATURES,
        "densities": {name: _density(name) for name in targets},
        "samplers": {
            name: {
                "steps": [float(f"{f * SAMPLERS[name].step:.3g}") for f in FACTORS],
                "meaning": SAMPLERS[name].meaning,
                "gradients": SAMPLERS[name].gradients,
            }
            for name in samplers
        },
        "runs": {"/".join(map(str, key)): _packed(found) for key, found in runs.items()},
    }
    words = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    still = figure(
        _still(runs, targets, samplers),
        "still",
        f"{len(targets)} targets (rows) by {len(samplers)} samplers (columns): contours, the "
        "draws of one chain, and the way of its first 40, at temperature 1.",
        "The middle step size at temperature 1: one chain, its draws (blue) and the way of the "
        "first 40 (orange). SVGD: where its particles ended.",
    )
    parts = [
        ("all", "All of them", still),
        ("numbers", "In numbers", _table(runs, targets, samplers)),
        ("how", "What is shown", _how()),
    ]
    body = (
        '<section id="play" aria-labelledby="play-title"><h2 id="play-title">Play</h2>'
        '<noscript><p class="verdict">The animation needs scripts; the figure and the table below '
        "do not.</p></noscript>"
        '<div id="stage"></div></section>' + "".join(markup.section(*part) for part in parts)
    )
    body += f'<script type="application/json" id="runs">{words}</script>'
    return document(
        "Sampler gallery",
        body,
        contents=[("play", "Play"), *((name, title) for name, title, _ in parts)],
        subtitle="The library's own kernels on densities in the plane",
        script=assets("gallery/gallery.js"),
        style=assets("gallery/gallery.css"),
    )


def _how() -> str:
    words = (
        "Every trajectory was drawn by the library's kernels (bayesnn_ppl.sample), four chains "
        "from fixed starts, without a warm-up, so that adaptation hides nothing. SGLD and SGHMC "
        "take minibatches of 8 of 32 rows, whose gradients have a standard deviation of about 1 "
        "around the exact one; where the step is long this noise and the discretisation heat "
        "them, and a chain whose numbers overflow stops where it is. SVGD moves 20 particles "
        "together, and is not a Markov chain.",
        "At temperature T the target is exp(-U/T). The configurational temperature is the mean of "
        "⟨z, ∇U⟩/2 over the draws so far, and T where the draws have the right distribution and "
        "the tails have been seen; the kinetic one, of the momenta, is recorded by SGHMC. R-hat "
        "and the bulk effective sample size are the library's, the worse of the two coordinates.",
        "Things to try: HMC on the correlated target with a long step, then SGHMC, which rejects "
        "nothing; any sampler in the funnel's neck; at which temperature two modes become one.",
    )
    return "".join(map(markup.paragraph, words))


def _table(runs: Runs, targets: tuple[str, ...], samplers: tuple[str, ...]) -> str:
    rows = []
    for target, sampler in itertools.product(targets, samplers):
        found = runs[target, sampler, *_MIDDLE]
        accepted = "–" if np.isnan(found.accepted) else f"{found.accepted:.0%}"
        last = float(found.rhat[-1]), float(found.ess[-1]), float(found.configurational.mean())
        rhat, ess, temperature = (markup.number(value, 3) for value in last)
        rows.append([target, sampler, rhat, ess, accepted, temperature])
    return markup.table(
        "The middle step size at temperature 1, all draws",
        ["target", "sampler", "R-hat", "ESS", "accepted", "configurational T"],
        rows,
        words=(1,),
    )


def _density(name: str) -> str:
    """exp(log density minus its maximum) on a grid, a byte each, from the top left."""
    along = np.linspace(-REACH, REACH, _GRID)
    values = _on_grid(name, along)
    shown = np.exp(0.5 * (values - values.max()))
    return _text(np.round(255 * shown[::-1]).astype(np.uint8))


def _on_grid(name: str, along: NDArray[np.float64]) -> NDArray[np.float64]:
    a, b = np.meshgrid(along, along)
    log_density: Any = jax.vmap(TARGETS[name])
    flat = log_density(jnp.asarray(a.ravel()), jnp.asarray(b.ravel()))
    return np.asarray(flat, np.float64).reshape(a.shape)


def _packed(found: Run) -> dict[str, Any]:
    whole = np.nan_to_num(found.draws.astype(np.float64), nan=_SPAN)
    scaled = np.clip(whole / _SPAN, -1, 1) * 32767
    record: dict[str, Any] = {
        "shape": found.draws.shape[:2],
        "draws": _text(np.round(scaled).astype("<i2")),
        "looks": looks(found.draws.shape[1]).tolist(),
        "rhat": [_known(v, 3) for v in found.rhat],
        "ess": [_known(v, 0) for v in found.ess],
        "accepted": _known(found.accepted, 3),
        "configurational": _running(found.configurational),
    }
    if found.kinetic is not None:
        record["kinetic"] = _running(found.kinetic)
    return record


def _running(series: NDArray[np.float64]) -> list[float | None]:
    """The mean of all draws so far, at the moments of the other numbers."""
    means = np.cumsum(series) / np.arange(1, len(series) + 1)
    return [_known(means[count - 1], 3) for count in looks(len(series))]


def _known(value: float, digits: int) -> float | None:
    return round(float(value), digits) if math.isfinite(value) else None


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode()


@styled
def _still(runs: Runs, targets: tuple[str, ...], samplers: tuple[str, ...]) -> Figure:
    drawn = new_figure(width=1.3 * len(samplers) + 0.8, height=1.3 * len(targets) + 0.6)
    axes = drawn.subplots(len(targets), len(samplers), squeeze=False, sharex=True, sharey=True)
    along = np.linspace(-REACH, REACH, 60)
    for i, target in enumerate(targets):
        values = _on_grid(target, along)
        levels = values.max() + np.array([-4.5, -2.0, -0.5])
        for j, sampler in enumerate(samplers):
            axis, found = axes[i, j], runs[target, sampler, *_MIDDLE]
            axis.contour(along, along, values, levels=levels, colors="0.6", linewidths=0.6)
            chain = found.draws[0][:150]
            particles = SAMPLERS[sampler].kernel is None
            points = found.draws[:, -1] if particles else chain
            axis.plot(*points.T, ".", markersize=1.6, color=palette(0))
            if not particles:
                axis.plot(*chain[:40].T, linewidth=0.5, color=palette(1))
            axis.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), xticks=[-4, 0, 4])
            axis.set_yticks([-4, 0, 4])
            if i == 0:
                axis.set_title(sampler, fontsize=9)
        axes[i, 0].set_ylabel(f"{target}\nsecond coordinate", fontsize=7)
    for axis in axes[-1]:
        axis.set_xlabel("first coordinate", fontsize=7)
    return drawn
