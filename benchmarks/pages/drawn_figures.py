"""The figures of the performance page, drawn from the results that its tables are made from."""

from collections.abc import Callable
from typing import Any

from bayesnn_ppl.plots.figure import new_figure, palette, styled
from benchmarks.pages import efficiency_table as efficiency
from benchmarks.pages import made_tables as tables
from benchmarks.pages.table_ranks import ranks, scores
from benchmarks.practice.table_benchmark import PEERS

WIDTH = 6.4  # inches; with letters of this size a page may show it at half of its width
FONT = 11
OURS, THEIRS = 0, 1  # colours of the style's cycle
GREY = "#595959"


def _plain(name: str) -> str:
    for code, plain in (("`", ""), ("kernels.", "bnn "), (", compilation", "\ncompilation")):
        name = name.replace(code, plain)
    return name


def _enlarge(figure: Any) -> None:
    """Letters that can be read where a page shows the figure small."""
    for text in figure.findobj(match=lambda item: hasattr(item, "set_fontsize")):
        text.set_fontsize(max(FONT, text.get_fontsize()))


def _beside(axis: Any, words: str, point: Any, points: tuple[int, int], **how: Any) -> None:
    """Words so many points to the right of and above a point of the data."""
    how = {"va": "center"} | how
    axis.annotate(words, point, xytext=points, textcoords="offset points", **how)


def _is_ours(name: str) -> bool:
    return name.startswith(("`kernels", "`bnn"))


def _dots(axis: Any, found: dict[str, list[float]], cases: str, most: float) -> None:
    """One line a contender with a full dot for the first case and an open one for the second."""
    for place, (name, values) in enumerate(reversed(found.items())):
        colour = palette(OURS if _is_ours(name) else THEIRS)
        axis.plot(values, [place, place], color=colour, lw=1, alpha=0.5)
        for value, fill in zip(values, (colour, "white"), strict=True):
            axis.plot(value, place, "o", ms=8, mfc=fill, mec=colour, mew=1.5)
        words = f"{values[0]:.2f}" if values[0] < 10 else f"{values[0]:.0f}"
        _beside(axis, words, (max(values), place), (9, 0), color=colour)
    axis.axvline(1, color=GREY, lw=1)
    axis.set_yticks(range(len(found)), [_plain(name) for name in reversed(found)])
    axis.set(ylim=(-0.6, len(found) - 0.4), xlim=(0.76, most), xscale="log")
    axis.set_title(cases, color=GREY)
    axis.minorticks_off()


@styled
def step_cost() -> Any:
    """Time of a step over the gradient it needs, full-batch above and minibatch below."""
    figure = new_figure(width=WIDTH, height=6)
    above, below = figure.subplots(2, 1, height_ratios=(5, 6))
    full, open_ = "\N{BLACK CIRCLE}", "\N{WHITE CIRCLE}"
    _dots(above, tables.full_batch_ratios(), f"{full} 100 rows   {open_} 1 000 rows", 2.4)
    above.set_xticks([0.8, 1, 1.25, 1.5, 2], ["0.8", "1", "1.25", "1.5", "2"])
    above.set_xlabel("time of a leapfrog\n[times that of a gradient]")
    _dots(below, tables.minibatch_ratios(), f"{full} MLP, B = 64   {open_} LeNet", 130)
    below.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    below.set_xlabel("time of a minibatch step\n[times that of its gradient]")
    return figure


@styled
def effective_draws() -> Any:
    """Smallest effective sample size a second; samplers whose bias is too large are hollow."""
    figure = new_figure(width=WIDTH, height=4.6)
    names = list(reversed(efficiency.CHOSEN))
    axes = figure.subplots(1, 2, sharey=True)
    for axis, data in zip(axes, ("bostonHousing", "concrete"), strict=True):
        rows = tables.result(f"efficiency-{data}")
        for place, name in enumerate(names):
            value, bias = rows[name]["ess_min_per_second"], rows[name]["bias_max"] or 0.0
            colour = palette(OURS if _is_ours(efficiency.SAMPLERS[name]) else THEIRS)
            if value is None:
                _beside(axis, "too few draws", (0.05, place), (3, 0), color=GREY)
                continue
            biased = name in efficiency.UNADJUSTED and bias > efficiency.UNBIASED
            look = {"facecolor": "white", "hatch": "///"} if biased else {"facecolor": colour}
            axis.barh(place, value - 0.05, left=0.05, height=0.65, edgecolor=colour, **look)
            words = efficiency.per_second(value) + (" biased" if biased else "")
            _beside(axis, words, (value, place), (3, 0), color=colour)
        axis.set(xscale="log", xlim=(0.05, 3000), title=f"UCI {data}")
        axis.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
        axis.grid(visible=False, axis="y")
    axes[0].set_yticks(range(len(names)), [_plain(efficiency.SAMPLERS[name]) for name in names])
    figure.supxlabel("smallest effective sample size a second [1/s]")
    return figure


@styled
def equal_time() -> Any:
    """NLL above that of the best contender on six posteriors."""
    figure = new_figure(width=WIDTH, height=4.4)
    axis = figure.subplots()
    found = tables.hard_posteriors()
    looks = (("o", OURS), ("s", THEIRS), ("^", 2), ("D", 3), ("v", 6))
    styles = dict(zip(tables.HARD, looks, strict=True))
    for place, rows in enumerate(reversed(found.values())):
        best = min(rows[name]["nll"] for name in tables.HARD)
        for name, (marker, colour) in reversed(styles.items()):
            label = _plain(tables.HARD[name]) if place == 0 else None
            look: dict[str, Any] = {
                "color": palette(colour),
                "label": label,
                "clip_on": False,
                "zorder": 3,
            }
            axis.plot(rows[name]["nll"] - best, place, marker, ms=8, alpha=0.9, **look)
    seconds = [rows["bde"]["seconds"] for rows in found.values()]
    labels = [f"{name}, {s:.0f} s" for name, s in zip(found, seconds, strict=True)]
    axis.set_yticks(range(len(found)), reversed(labels))
    axis.set(xlim=(0, 2.9), ylim=(-0.5, len(found) - 0.5))
    axis.set_xlabel("test NLL above that of the best, in equal time [nats a row]")
    handles, names = axis.get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], loc="outside upper center", ncols=3)
    return figure


@styled
def mnist() -> Any:
    """Minutes and NLL on MNIST."""
    figure = new_figure(width=WIDTH, height=3.8)
    axis = figure.subplots()
    # Where a label is, in points from its dot, since dots lie close together.
    places = {
        "lenet, SGHMC": ((-9, 0), "right"),
        "lenet, SGLD": ((20, 15), "right"),
        "lenet, cyclical": ((8, -15), "right"),
        "mlp_classification, SGHMC": ((9, 2), "left"),
        "mlp_classification, SGLD": ((-5, -15), "left"),
        "mlp_classification, cyclical": ((9, 2), "left"),
    }
    for network, shown in tables.NETWORKS.items():
        for kernel, name in tables.MNIST.items():
            row = tables.result("mnist")[f"{network}, {kernel}"]
            colour = palette(OURS if network == "lenet" else THEIRS)
            point = (row["minutes"], row["nll"])
            axis.plot(*point, "o", ms=8, color=colour)
            points, side = places[f"{network}, {kernel}"]
            words = f"{shown}, {name}: {100 * row['accuracy']:.2f} %"
            _beside(axis, words, point, points, color=colour, ha=side)
    axis.set(xlim=(0, 16), ylim=(0, 0.13))
    axis.set(xlabel="time on two cores [minutes]", ylabel="test NLL [nats an image]")
    return figure


@styled
def scale() -> Any:
    """A leapfrog on more devices, and an agreement among more processes."""
    figure = new_figure(width=WIDTH, height=3.6)
    left, right = figure.subplots(1, 2)
    found = tables.devices()
    counts = [n for n, *_ in found]
    for values, words, colour, points in (
        ([shared for _, shared, *_ in found], "measured", OURS, (-16, 22)),
        ([alone for _, _, alone, _ in found], "arithmetic alone", THEIRS, (0, -18)),
    ):
        left.plot(counts, values, "o-", ms=7, color=palette(colour))
        _beside(left, words, (4, values[2]), points, color=palette(colour), ha="center")
    left.set(xscale="log", ylim=(0, 10), ylabel="a leapfrog [ms]")
    left.set_xlabel("devices that share the rows")
    left.set_xticks(counts, map(str, counts))
    left.set_title("1 chain, 2 cores", loc="left")
    agreed = tables.agreement()
    right.plot(list(agreed), list(agreed.values()), "o-", ms=7, color=palette(OURS))
    for n, ms in agreed.items():
        _beside(right, f"{ms:.1f}", (n, ms), (-4, 10), color=palette(OURS), ha="right")
    right.set(xscale="log", yscale="log", xlim=(0.6, 900), ylim=(0.5, 300))
    right.set_xticks(list(agreed), map(str, agreed))
    right.set_yticks([1, 10, 100], ["1", "10", "100"])
    right.set(xlabel="processes", ylabel="an agreement [ms]")
    right.set_title("all on 2 cores", loc="left")
    for axis in (left, right):
        axis.minorticks_off()
    return figure


@styled
def table_ranks() -> Any:
    """Rank on each table, and the mean ranks with half of the critical difference on each side."""
    each, critical = ranks(scores(tables.stored(f"{tables.RESULTS}/table_benchmark.json"), "nll"))
    means = {name: sum(of) / len(of) for name, of in each.items()}
    order = sorted(means, key=lambda name: -means[name])
    figure = new_figure(width=WIDTH, height=4.6)
    axis = figure.subplots()
    for place, name in enumerate(order):
        colour = palette(THEIRS if name in PEERS else OURS)
        axis.plot(each[name], [place] * len(each[name]), "o", ms=7, color=colour, alpha=0.2, mew=0)
        half = critical / 2
        axis.errorbar(means[name], place, xerr=half, fmt="o", ms=8, color=colour, lw=2, capsize=4)
    axis.set_yticks(range(len(order)), order)
    ends = (min(means.values()) - critical / 2, max(means.values()) + critical / 2)
    axis.set(xlim=(min(ends[0], 1) - 0.3, ends[1] + 0.3), ylim=(-0.6, len(order) - 0.4))
    axis.set_xticks(range(1, len(order) + 1))
    tables_ranked = len(each[order[0]])
    axis.set_xlabel(
        f"rank by test NLL, 1 is best; pale dots: {tables_ranked} tables\n"
        "means whose bars do not meet differ"
    )
    axis.set_title("orange: other libraries", color=GREY)
    return figure


# File of docs/figures/performance -> the function that draws it.
FIGURES: dict[str, Callable[[], Any]] = {
    "step_cost": step_cost,
    "effective_draws": effective_draws,
    "equal_time": equal_time,
    "mnist": mnist,
    "scale": scale,
    "table_ranks": table_ranks,
}


def draw(name: str) -> Any:
    """One of the figures, its letters large enough."""
    figure = FIGURES[name]()
    _enlarge(figure)
    return figure
