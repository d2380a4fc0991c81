"""The figure of each method's page, drawn from the example of that page.

`python -m docs.figures.method_figures [NAME ...]` runs the example of each page under
`docs/methods/` whose figure is missing or whose example has changed, draws what it made, writes the
figures' numbers to `docs/figures/methods/results.json`, and puts them in the page's caption. It may
be stopped and started again. The reference that every figure shows is made first:
`python -m docs.figures.method_figures reference`.
"""

import ast
import hashlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).parents[1]
FOLDER = DOCS / "figures" / "methods"
RESULTS, REFERENCE = FOLDER / "results.json", FOLDER / "reference.json"
CENTRE = 0.0  # the middle of the gap, in the data's units
LEVEL = 0.9
# A long run of an exact sampler on the model and the data of every example.
REFERENCE_RUN = """
import numpy as np
import bayesnn_ppl as bnn

data = bnn.data.load("gap")
model = bnn.models.mlp(hidden=10, prior=bnn.priors.normal(1.5))
kernel = bnn.kernels.HMC(model, num_leapfrogs=400, jitter=0.5, mass="diagonal")
posterior = bnn.sample(kernel, *data.train, warmup=1000, draws=4000, chains=4, seed=1)
prediction = posterior.predict(np.linspace(-3.5, 3.5, 71)[:, None], raw=True)
"""
_CAPTION = re.compile(r"(?:At x = 0|\(At x = 0)[^\n]*\n")
_FEW = 30  # draws that are shown one by one


def pages() -> dict[str, Path]:
    """The page of each method by its name."""
    return {path.stem: path for path in sorted((DOCS / "methods").glob("*/*.md"))}


def example_of(path: Path) -> str:
    """The Python block of a page."""
    (text,) = re.findall(r"^```python\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)
    return text


def digest(text: str) -> str:
    """What says whether an example has changed, but for its layout, since its figure was drawn."""
    return hashlib.sha256(ast.dump(ast.parse(text)).encode()).hexdigest()[:12]


def run(code: str) -> dict[str, Any]:
    """The names that an example leaves."""
    names: dict[str, Any] = {}
    exec(compile(code, "<example>", "exec"), names)
    return names


def functions(names: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (N,) in the data's units, and what each draw's network says there.

    Returns:
        The inputs, and values of shape (chain, draw, N) in the data's units.
    """
    posterior, inputs = names["posterior"], names["prediction"].components.x
    units = posterior.standardisation
    values = posterior.function_values(inputs)["mean"]
    return np.linspace(-3.5, 3.5, len(inputs)), units["y_mean"] + units["y_scale"] * values


def in_the_gap(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The functions' values at the middle of the gap, shape (chain, draw)."""
    return values[..., int(np.argmin(abs(x - CENTRE)))]


def ends(values: np.ndarray) -> np.ndarray:
    """Both ends of the interval over the draws, shape (2, ...)."""
    return np.quantile(values.reshape(-1, *values.shape[2:]), [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], 0)


def make_reference() -> None:
    """Run the exact sampler, and keep what the figures show of it."""
    from bayesnn_ppl import diagnostics

    x, values = functions(run(REFERENCE_RUN))
    centre = in_the_gap(x, values)
    counts, edges = np.histogram(centre, bins=40, density=True)
    found = {
        "command": "python -m docs.figures.method_figures reference",
        "largest_rhat": round(float(np.max(diagnostics.rhat(values))), 4),
        "smallest_ess": round(float(np.min(diagnostics.ess_bulk(values)))),
        "width": round(float(np.ptp(ends(centre))), 3),
        "interval": ends(values).round(3).tolist(),
        "counts": counts.round(4).tolist(),
        "edges": edges.round(4).tolist(),
    }
    REFERENCE.write_text(json.dumps(found) + "\n")
    print({name: found[name] for name in ("largest_rhat", "smallest_ess", "width")})


def draw(names: dict[str, Any], reference: dict[str, Any], *, traced: bool) -> Any:
    """The band, and below it the functions' values in the gap: as a trace, or as a histogram."""
    import matplotlib

    import bayesnn_ppl as bnn
    from bayesnn_ppl.plots.figure import STYLE

    (x, values), prediction, data = functions(names), names["prediction"], names["data"]
    lower, upper = prediction.quantile([0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    rows, targets = data_in_units(data)
    with matplotlib.style.context([STYLE, {"font.size": 10, "legend.fontsize": 8}]):
        band = bnn.plots.plot_band(
            x, prediction.mean, lower, upper, epistemic=tuple(ends(values)), x_train=rows,
            y_train=targets, level=LEVEL,
        )  # fmt: skip
        band.set_size_inches(4.4, 4.9)
        (top,) = band.axes
        band.legends[0].remove()
        grid = band.add_gridspec(2, 1, height_ratios=(2, 1))
        top.set_subplotspec(grid[0])
        for end, label in zip(
            reference["interval"], ("exact posterior, function", None), strict=True
        ):
            top.plot(x, end, "--", color="C1", linewidth=1.1, label=label)
        top.set_title("")
        top.set_ylim(-3.2, 3.2)
        handles, labels = top.get_legend_handles_labels()
        short = [label.replace("interval of an observation", "of an observation")
                 .replace("interval of the function (epistemic)", "of the function")
                 for label in labels]  # fmt: skip
        band.legend(handles, short, loc="outside upper center", ncols=2)
        axis = band.add_subplot(grid[1])
        (draw_trace if traced else draw_histogram)(axis, in_the_gap(x, values), reference)
    return band


def data_in_units(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (N,) and targets (N,) of the training rows in the data's units."""
    x, y = data.train
    units = y.standardisation.to_dict()
    inputs = np.asarray(units["x_mean"]) + np.asarray(units["x_scale"]) * np.asarray(x)
    return inputs[:, 0], units["y_mean"] + units["y_scale"] * np.asarray(y)


def save(figure: Any, path: Path) -> None:
    """A PNG of 128 colours, which is a third of the size."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    Image.open(buffer).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(
        path, optimize=True
    )


def draw_trace(axis: Any, centre: np.ndarray, reference: dict[str, Any]) -> None:
    """Draw by draw, one line a chain, on the exact posterior's interval."""
    middle = len(reference["interval"][0]) // 2
    axis.axhspan(*(end[middle] for end in reference["interval"]), color="C1", alpha=0.15, lw=0)
    for number, chain in enumerate(centre):
        axis.plot(chain, color=f"C{(0, 2, 3, 5)[number % 4]}", linewidth=0.6)
    axis.set(xlabel="draw", ylabel="f(0)", xlim=(0, centre.shape[1]))


def draw_histogram(axis: Any, centre: np.ndarray, reference: dict[str, Any]) -> None:
    """How often each value is drawn, and the exact posterior's outline, both of height one."""
    if centre.size < _FEW:
        axis.vlines(centre.ravel(), 0, 1, color="C0", linewidth=1.2)
    else:
        counts, edges = np.histogram(centre, bins=25)
        axis.stairs(counts / counts.max(), edges, color="C0", alpha=0.35, fill=True)
    counts = np.asarray(reference["counts"])
    axis.stairs(counts / counts.max(), reference["edges"], color="C1", linewidth=1.1)
    axis.set(xlabel="f(0)", ylabel="frequency", yticks=[])


def sentence(found: dict[str, Any], reference: dict[str, Any]) -> str:
    """What the caption says of the numbers."""
    text = (
        f"At x = 0 the 90 % interval of the function is {found['width']:.2f} wide; "
        f"the exact posterior's is {reference['width']:.2f}."
    )
    if "ess" in found:
        text += f" Effective draws of f(0): {found['ess']} of {found['draws']}."
    return text


def make(name: str, path: Path, results: dict[str, Any], reference: dict[str, Any]) -> None:
    """Run the example of a page, draw it, and write its numbers where they are read."""
    from bayesnn_ppl import diagnostics

    code, traced = example_of(path), path.parent.name == "kernels"
    names = run(code)
    x, values = functions(names)
    centre = in_the_gap(x, values)
    found: dict[str, Any] = {
        "example": digest(code),
        "width": round(float(np.ptp(ends(centre))), 3),
    }
    if traced:
        found |= {"ess": round(float(diagnostics.ess_bulk(centre))), "draws": centre.size}
    save(draw(names, reference, traced=traced), FOLDER / f"{name}.png")
    results[name] = found
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    write_caption(path, sentence(found, reference))
    print(name, found, flush=True)


def write_caption(path: Path, text: str) -> None:
    """Replace the line of a page that has the figure's numbers."""
    page, count = _CAPTION.subn(text + "\n", path.read_text())
    if count != 1:
        raise ValueError(f"{path} needs one line in its caption that begins with `At x = 0`.")
    path.write_text(page)


def main(arguments: list[str]) -> None:
    """Draw the figures that are wanted, or all that are out of date."""
    if arguments == ["reference"] or not REFERENCE.exists():
        make_reference()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    reference = json.loads(REFERENCE.read_text())
    for name, path in pages().items():
        known = results.get(name, {}).get("example") == digest(example_of(path))
        wanted = name in arguments or not (known and (FOLDER / f"{name}.png").exists())
        if wanted and (not arguments or name in arguments):
            make(name, path, results, reference)


if __name__ == "__main__":
    main(sys.argv[1:])
