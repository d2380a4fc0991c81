"""Does each draw from a prior put most images in one class? Against σ and depth.

    BAYESNN_DATA=... python -m benchmarks prior_collapse [--draws 50] [--images 100]
        [--out benchmarks/results]

Wenzel et al. (2020, arXiv:2002.02405) drew ResNet-20 from N(0, I) on all parameters and found that
each draw maps all images of CIFAR-10 to one class, though the average over draws is even. Here:

* ResNets on CIFAR-10 under N(0, σ²) on all parameters, over σ (σ² = 1/5 is bnn_hmc's) and over
  depth;
* MLPs of width 100 on MNIST, tanh and relu, under N(0, σ²/fan-in) with biases of sd 0.1, over σ and
  depth; and under N(0, 1) on all parameters;
* ResNet-20 under a prior that should not collapse. `almost linear` keeps units where swish is a
  straight line: gains of sd 0.1, no offsets, thresholds out of reach. What collapses a ResNet is
  that swish and the thresholds have a mean, which is the same for all images.

A row is one prior: the median over draws of the share of images in the largest class, where nine
draws in ten lie, and the share of what the last hidden layer says that is the same for all images.
Rows are stored as they come, and rows that are there are not made again.

Writes `prior_collapse.json`, `prior_collapse.png` (over σ and depth) and `prior_collapse_draws.png`
(single draws and their average, the picture of the paper).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpyro.distributions as dist

import bayesnn_ppl as bnn
from bayesnn_ppl.plots.figure import new_figure, palette, styled
from benchmarks.harness.records import RESULTS, Record

SIGMAS = (0.1, 0.447, 1.0, 3.0)
DEPTHS = (8, 14, 20, 32)
MLP_SIGMAS = (0.7, 1.5, 3.0)
MLP_DEPTHS = (1, 2, 4, 8)
COLLAPSED = "resnet, depth 20, sigma 1"
SPREAD = "resnet, depth 20, almost linear"


def almost_linear() -> Any:
    """A prior under which ResNet-20 is nearly a linear function of each image."""
    fan_in = bnn.priors.fan_in_normal
    return bnn.priors.by_name(
        {
            "Dense_0.kernel": fan_in(30.0),
            "*.kernel": fan_in(1.0),
            "*.gamma": dist.Normal(0.0, 0.1),
            "*.tau": dist.Normal(-1.0, 0.1),
            "*": dist.Normal(0.0, 1e-3),
        }
    )


def resnet(depth: int, prior: Any) -> Any:
    """The published network, at any depth."""
    return bnn.models.resnet20_frn(depth=depth, prior=prior)


def mlp(activation: str, depth: int, prior: Any) -> Any:
    """A multilayer perceptron of ten classes."""
    return bnn.models.mlp(
        hidden=(100,) * depth,
        activation=activation,
        likelihood=bnn.likelihoods.categorical(10),
        prior=prior,
    )


def rows() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Name of a row, its images, and what makes its model."""
    normal, fan_in = bnn.priors.normal, bnn.priors.fan_in_normal
    yield SPREAD, "cifar10", lambda: resnet(20, almost_linear())
    for sigma in SIGMAS:
        name = f"resnet, depth 20, sigma {sigma:g}"
        yield name, "cifar10", lambda sigma=sigma: resnet(20, normal(sigma))
    for depth in DEPTHS:
        name = f"resnet, depth {depth}, sigma 1"
        yield name, "cifar10", lambda depth=depth: resnet(depth, normal(1.0))
    for activation in ("tanh", "relu"):
        for depth in MLP_DEPTHS:
            for sigma in MLP_SIGMAS:
                name = f"mlp {activation}, depth {depth}, sigma {sigma:g}"
                prior = fan_in(sigma, bias_scale=0.1)
                yield name, "mnist", lambda a=activation, d=depth, p=prior: mlp(a, d, p)
            name = f"mlp {activation}, depth {depth}, N(0, 1)"
            yield name, "mnist", lambda a=activation, d=depth: mlp(a, d, normal(1.0))


def measured(model: Any, x: np.ndarray, draws: int) -> dict[str, Any]:
    """What is recorded of one prior."""
    began = time.perf_counter()
    found = bnn.diagnostics.prior_predictive(model, x, draws=draws)
    classes = found.classes
    assert classes is not None
    return {
        "status": found.status,
        "largest": float(np.median(classes.largest)),
        "interval": np.quantile(classes.largest, [0.05, 0.95]).tolist(),
        "confidence": classes.confidence,
        "average": classes.average.tolist(),
        "common": found.layers[-2].common,
        "crossings": None if found.length is None else found.length.crossings,
        "seconds": time.perf_counter() - began,
        "probabilities": classes.probabilities.tolist(),
    }


def rounded(value: Any) -> Any:
    """Five digits after the point are more than 50 draws know."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(value, 5) if isinstance(value, float) else value


def _line(name: str, row: Mapping[str, Any]) -> str:
    low, high = row["interval"]
    return (
        f"{name:<34} {row['status']:<10} largest class {row['largest']:.2f} ({low:.2f} to "
        f"{high:.2f}), in common {row['common']:.3f}, {row['seconds']:.0f} s"
    )


@styled
def picture(found: Mapping[str, Mapping[str, Any]]) -> Any:
    """The share of the largest class over σ and over depth."""

    def line(axis: Any, index: int, label: str, names: Mapping[float, str]) -> None:
        values = np.array([found[name]["largest"] for name in names.values()])
        bounds = np.array([found[name]["interval"] for name in names.values()]).T
        axis.fill_between(list(names), *bounds, color=palette(index), alpha=0.12, linewidth=0)
        axis.plot(list(names), values, color=palette(index), marker="o", label=label)

    figure = new_figure(width=10.5, height=6.2)
    axes = figure.subplots(2, 2, sharey=True)
    first, second, *perceptrons = axes.ravel()
    line(first, 0, "N(0, σ²)", {s: f"resnet, depth 20, sigma {s:g}" for s in SIGMAS})
    first.axhline(
        found[SPREAD]["largest"], color=palette(2), label="a prior that does not collapse"
    )
    first.set(xscale="log", xlabel="σ", title="ResNet-20 on CIFAR-10, over σ")
    line(second, 0, "N(0, 1)", {d: f"resnet, depth {d}, sigma 1" for d in DEPTHS})
    second.set(xlabel="depth", title="ResNets on CIFAR-10, over depth")
    for axis, activation in zip(perceptrons, ("tanh", "relu"), strict=True):
        for index, sigma in enumerate(MLP_SIGMAS):
            names = {d: f"mlp {activation}, depth {d}, sigma {sigma:g}" for d in MLP_DEPTHS}
            line(axis, index, f"N(0, σ²/fan-in), σ = {sigma:g}", names)
        names = {d: f"mlp {activation}, depth {d}, N(0, 1)" for d in MLP_DEPTHS}
        line(axis, len(MLP_SIGMAS), "N(0, 1)", names)
        axis.set(xlabel="hidden layers", title=f"MLPs on MNIST, {activation}")
    for axis in axes.ravel():
        axis.axhline(0.1, color="0.3", linestyle="--", linewidth=0.8)
        axis.set_ylim(0, 1.02)
        axis.legend(fontsize="small")
    figure.supylabel(
        "share of the images in the largest class of a draw (median, 5 to 95 %)",
        fontsize="medium",
    )
    figure.suptitle("Draws from a prior that put most images in one class")
    return figure


def main(*, draws: int = 50, images: int = 100, out: Path = RESULTS) -> None:
    """Print a line for each prior, write JSON and pictures."""
    settings = {"draws": draws, "images": images}
    record = Record(out / "prior_collapse.json", settings=settings)
    data = cache(lambda source: np.asarray(bnn.data.load(source).train.x[:images]))
    for name, source, make in rows():
        if name not in record.rows:
            row = measured(make(), data(source), draws)
            if name not in (COLLAPSED, SPREAD):
                del row["probabilities"]
            record[name] = rounded(row)
        print(_line(name, record.rows[name]), flush=True)
    found = record.rows
    picture(found).savefig(out / "prior_collapse.png")
    single = {
        "N(0, 1)": found[COLLAPSED]["probabilities"],
        "almost linear": found[SPREAD]["probabilities"],
    }
    bnn.plots.plot_class_collapse(single, y_label="mean probability").savefig(
        out / "prior_collapse_draws.png"
    )
