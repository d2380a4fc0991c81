"""From runs to a page: draws and paths as numbers, a still figure, a table, and the script."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.plots.figure import new_figure, palette, styled
from bayesnn_ppl.report.building import Page, assets, document
from bayesnn_ppl.report.gallery.packing import PER_UNIT, as_numbers, packed_arrays, packed_runs
from bayesnn_ppl.report.gallery.results import STARTS, Runs, looks
from bayesnn_ppl.report.gallery.running import FACTORS, TEMPERATURES, run_all
from bayesnn_ppl.report.gallery.samplers import SAMPLERS
from bayesnn_ppl.report.gallery.targets import REACH, TARGETS, marginals, on_grid
from bayesnn_ppl.report.parts import markup
from bayesnn_ppl.report.parts.svg_figures import figure

_GRID = 96
_CURVE = 121  # points of an exact marginal
_MIDDLE = (FACTORS.index(1.0), TEMPERATURES.index(1.0))
_SCRIPTS = ("data", "picture", "moves", "marginals", "controls")


def gallery_page(
    *,
    draws: int = 240,
    seed: int = 0,
    targets: tuple[str, ...] = tuple(TARGETS),
    samplers: tuple[str, ...] = tuple(SAMPLERS),
    report: Callable[[str], None] | None = None,
) -> Page:
    """A page on which the library's kernels move over targets in the plane.

    Target × sampler × step size × temperature, four chains each. The first chain is drawn with its
    path and its rejected proposals; marginals, traces, R-hat and effective sample size follow the
    animation. Every number comes from the library's kernels (from its Stein direction for SVGD),
    and none from the page's script.

    Args:
        draws: of each chain, without warm-up; 40 at least.
        seed: of everything random.
        targets, samplers: those that are shown, the first of each when the page opens.
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
    runs: dict[str, Runs] = {}
    for sampler in samplers:
        if report:
            report(f"{sampler}: {len(targets) * len(FACTORS) * len(TEMPERATURES)} runs")
        runs[sampler] = run_all(sampler, targets, draws, seed)
    return Page(_page(runs, targets), {})


def _page(runs: dict[str, Runs], targets: tuple[str, ...]) -> str:
    data = {
        "reach": REACH,
        "scale": PER_UNIT,
        "grid": _GRID,
        "starts": STARTS.astype(float).round(3).tolist(),
        "temperatures": TEMPERATURES,
        "targets": targets,
        "exact": _exact(targets),
        "samplers": {name: _sampler(name, found) for name, found in runs.items()},
    }
    words = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    still = figure(
        _still(runs, targets),
        "still",
        f"{len(targets)} targets (rows) by {len(runs)} samplers (columns): contours, the "
        "first 60 draws of one chain, and lines between the first 25, at temperature 1.",
        "The middle step size at temperature 1: the first 60 draws of one chain (blue), and lines "
        "between the first 25 (orange). SVGD: where its particles ended.",
    )
    parts = [
        ("all", "All of them", still),
        ("numbers", "In numbers", _table(runs, targets)),
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
        script="".join(assets(f"gallery/{name}.js") for name in _SCRIPTS),
        style=assets("gallery/gallery.css"),
    )


def _sampler(name: str, found: Runs) -> dict[str, Any]:
    sampler = SAMPLERS[name]
    return {
        "steps": [float(f"{f * sampler.step:.3g}") for f in FACTORS],
        "meaning": sampler.meaning,
        "gradients": sampler.gradients,
        "look": sampler.look,
        "path": sampler.path,
        "drift": sampler.drift,
        "exact": sampler.exact,
        "chains": found.draws.shape[3],
        "draws": found.draws.shape[4],
        "looks": looks(found.draws.shape[4]).tolist(),
        "runs": packed_runs(found),
    }


def _exact(targets: tuple[str, ...]) -> dict[str, Any]:
    """Densities on a grid, from the top left, and the marginals at each temperature."""
    along = np.linspace(-REACH, REACH, _GRID)
    grids = np.stack([on_grid(name, along)[::-1] for name in targets])
    # The script raises them to the power 4/T: enough levels are left in the tails at T = 4.
    levels = np.exp((grids - grids.max((1, 2), keepdims=True)) / 8)
    points = np.linspace(-REACH, REACH, _CURVE)
    curves = np.array([[marginals(name, t).at(points) for t in TEMPERATURES] for name in targets])
    peaks = curves.max(-1)
    arrays: dict[str, tuple[NDArray[Any], int]] = {
        "levels": (np.round(255 * levels).astype(np.uint8), 0),
        "curves": (as_numbers(curves / peaks[..., None], 32000), 1),
    }
    return {"peaks": peaks.round(4).tolist(), "points": _CURVE, **packed_arrays(arrays)}


def _how() -> str:
    words = (
        "Every draw was made by the library's kernels (NUTS is NumPyro's): four chains from fixed "
        "starts, without a warm-up, so adaptation hides nothing. The path of a draw is computed "
        "again from its state and its random key. SGLD and SGHMC take minibatches of 8 of 32 rows, "
        "whose gradients have a standard deviation of about 1 around the exact one. Where the step "
        "is long, this noise and the discretisation widen their draws; a chain whose numbers "
        "overflow stops, and is shown as stopped. SVGD moves 20 particles together, and is not a "
        "Markov chain.",
        "At temperature T the target is exp(-U/T). Curves at the edges of the plane are its exact "
        "marginals, by numerical integration; bars are the draws of all chains so far. The "
        "configurational temperature is the mean of ⟨z, ∇U⟩/2 over the draws so far, and T where "
        "the draws have the right distribution and the tails have been seen. The kinetic one is "
        "that of the momenta of SGHMC. R-hat and the bulk effective sample size are the library's, "
        "the worse of the two coordinates.",
        "Things to try: HMC on the banana with a long step; NUTS, and then MALA, on the "
        "correlated target; any sampler in the neck of the funnel; SGHMC with a long step, "
        "which stops; two modes at T = 4, between which chains can cross.",
    )
    return "".join(map(markup.paragraph, words))


def _table(runs: dict[str, Runs], targets: tuple[str, ...]) -> str:
    rows = []
    for (i, target), (sampler, found) in itertools.product(enumerate(targets), runs.items()):
        at = i, *_MIDDLE
        accepted = "–" if found.accepted is None else f"{found.accepted[*at, -1]:.0%}"
        last = (found.rhat[*at, -1], found.ess[*at, -1], found.configurational[*at, -1])
        rhat, ess, temperature = (markup.number(float(value), 3) for value in last)
        stopped = int((found.made[at] < found.draws.shape[4]).sum())
        rows.append([target, sampler, rhat, ess, accepted, temperature, stopped])
    return markup.table(
        "The middle step size at temperature 1, all draws",
        ["target", "sampler", "R-hat", "ESS", "accepted", "configurational T", "chains stopped"],
        rows,
        words=(1,),
    )


@styled
def _still(runs: dict[str, Runs], targets: tuple[str, ...]) -> Figure:
    drawn = new_figure(width=1.3 * len(runs) + 0.8, height=1.3 * len(targets) + 0.6)
    axes = drawn.subplots(len(targets), len(runs), squeeze=False, sharex=True, sharey=True)
    along = np.linspace(-REACH, REACH, 44)
    for i, target in enumerate(targets):
        values = on_grid(target, along)
        levels = values.max() + np.array([-4.0, -1.0])
        for j, (sampler, found) in enumerate(runs.items()):
            axis, draws = axes[i, j], found.draws[i, *_MIDDLE]
            axis.contour(along, along, values, levels=levels, colors="0.6", linewidths=0.6)
            particles = SAMPLERS[sampler].kernel is None
            points = draws[:, -1] if particles else draws[0, :60]
            # Points as short lines of round ends: a marker would take five times the letters.
            ends = np.stack([points, points + 0.01, np.full_like(points, np.nan)], axis=1)
            dots = ends.reshape(-1, 2).T
            if not particles:
                axis.plot(*draws[0, :25].T, linewidth=0.5, color=palette(1))
            axis.plot(*dots, linewidth=1.8, solid_capstyle="round", color=palette(0))
            axis.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), xticks=[-4, 0, 4])
            axis.set_yticks([-4, 0, 4])
            axis.grid(visible=False)
            axis.tick_params(left=j == 0, bottom=i == len(targets) - 1)
            if i == 0:
                axis.set_title(sampler, fontsize=9)
        axes[i, 0].set_ylabel(f"{target}\nsecond coordinate", fontsize=7)
    for axis in axes[-1]:
        axis.set_xlabel("first coordinate", fontsize=7)
    return drawn
