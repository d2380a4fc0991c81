"""What a prior over weights means in function space, before any data."""

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from bayesnn_ppl.core.arguments import html_table, readable
from bayesnn_ppl.diagnostics.diagnosis.tables import plain
from bayesnn_ppl.diagnostics.prior import report_sentences
from bayesnn_ppl.diagnostics.prior.class_collapse import ClassCollapse, collapse_of
from bayesnn_ppl.diagnostics.prior.function_variation import (
    FunctionScale,
    LengthScale,
    function_scale,
    length_scale,
)
from bayesnn_ppl.diagnostics.prior.functions import PriorDraws, draw_functions
from bayesnn_ppl.diagnostics.prior.layer_activity import LayerActivity

__all__ = ["PriorPredictive", "prior_predictive"]

type PriorStatus = Literal[
    "collapsed", "leaning", "spread", "flat", "rough", "varied", "not finite"
]


@readable
@dataclass(frozen=True, eq=False)
class PriorPredictive:
    """Functions drawn from a prior, and what they are like; `print` shows it.

    Attributes:
        status: of labels "collapsed" (half of the draws put 90 % of the inputs or more in one
            class), "leaning" (more than half way from an even spread to one class) or "spread";
            of quantities "flat" (90 % of the variance is a constant for each draw), "rough" (a
            function crosses its mean four times or more between two inputs) or "varied"; of
            either "not finite" when no draw is.
        verdict: what that means, in sentences.
        draws, rows: their numbers.
        broken: draws with a value that is not finite; they are left out of all figures.
        classes: the classes that each draw predicts; None for quantities.
        scale: size of the functions; of categorical labels that of the logits less their mean
            over the classes, which no probability depends on. None when no draw is finite.
        length: over which length they vary; None for tokens, and for a single input.
        noise_sd: standard deviation of y around its function, the median; None for labels.
        layers: size and saturation layer by layer, of Flax Linen networks.
        no_layers: why there are none; empty where there are.
        functions: the draws themselves at the inputs, see `function_draws`.
    """

    status: PriorStatus
    verdict: str
    draws: int
    rows: int
    broken: int
    classes: ClassCollapse | None
    scale: FunctionScale | None
    length: LengthScale | None
    noise_sd: float | None
    layers: tuple[LayerActivity, ...]
    no_layers: str
    functions: np.ndarray

    def __str__(self) -> str:
        return report_sentences.text(self)

    def _repr_html_(self) -> str:
        of = ("draws", f"{self.draws} at {self.rows} inputs")
        rows = [("verdict", self.verdict), of, *report_sentences.figure_lines(self)]
        return html_table(f"Prior predictive: {self.status}", rows)

    def _figures(self) -> dict[str, Any]:
        found = {
            "status": self.status,
            "draws": self.draws,
            "rows": self.rows,
            "largest_class": None
            if self.classes is None
            else float(np.median(self.classes.largest)),
            "sd": None if self.scale is None else self.scale.sd,
            "length": None if self.length is None else self.length.value,
            "noise_sd": self.noise_sd,
        }
        return {name: value for name, value in found.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """Everything but the functions, as plain dictionaries, lists and numbers."""
        whole = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "functions"}
        scale = self.scale
        return whole | {
            "classes": None if self.classes is None else self.classes.to_dict(),
            "scale": None
            if scale is None
            else {**asdict(scale), "constant_share": scale.constant_share},
            "length": None if self.length is None else asdict(self.length),
            "layers": [asdict(layer) for layer in self.layers],
        }

    def to_json(self) -> str:
        """`to_dict` as JSON; NaN and infinities become null."""
        return json.dumps(plain(self.to_dict()), indent=2, allow_nan=False)


def prior_predictive(
    model: Any, x: ArrayLike, *, draws: int = 200, seed: int = 0
) -> PriorPredictive:
    """Draw functions from the prior of a program, and say in words what they are like.

    The prior is that of the program as it stands. A temperature, of `tempered` or `cold`, scales
    log densities, which no draw is made from, and so does not enter.

    Args:
        model: a NumPyro program of the model contract; its `y` is not needed.
        x: inputs (N, ...), two at least, best real ones: rows of the training data.
        draws: functions to draw, two at least.
        seed: of all randomness. Two priors are compared at the same lines between inputs.

    Returns:
        A `PriorPredictive`.

    Raises:
        TypeError: inputs that are no numbers, or a number of draws or a seed that is not whole.
        ValueError: fewer than two inputs or draws, inputs that are not finite, a program without
            a latent site or a site "y", or one whose prior has no draws: an improper
            distribution, a factor, a network parameter without a prior.

    References:
        Wenzel et al. (2020), arXiv:2002.02405; Gabry et al. (2019), Visualization in Bayesian
        workflow, section 3 (prior predictive checks).
    """
    if np.shape(x)[:1] == (1,):
        raise ValueError(
            "`x` has a single row, but how functions vary shows between two inputs or more. "
            "`function_draws` takes a single one."
        )
    return _judged(draw_functions(model, x, draws=draws, seed=seed))


def _judged(drawn: PriorDraws) -> PriorPredictive:
    every = drawn.functions
    axes = tuple(range(1, every.ndim))
    good = np.isfinite(every).all(axis=axes)
    if drawn.ends is not None:
        good &= np.isfinite(drawn.ends).all(axis=tuple(range(1, drawn.ends.ndim)))
    report = PriorPredictive(
        status="not finite",
        verdict="",
        draws=len(every),
        rows=every.shape[1],
        broken=int((~good).sum()),
        classes=None,
        scale=None,
        length=None,
        noise_sd=None,
        layers=drawn.layers,
        no_layers=drawn.no_layers,
        functions=every,
    )
    if good.any():
        report = _measured(report, drawn, good)
        report = replace(report, status=_status(report))
    return replace(report, verdict=" ".join(report_sentences.sentences(report)))


def _measured(report: PriorPredictive, drawn: PriorDraws, good: np.ndarray) -> PriorPredictive:
    functions = drawn.functions[good]
    ends = None if drawn.ends is None else drawn.ends[good]
    classes = None
    if drawn.kind == "bernoulli":
        classes = collapse_of(np.stack([np.zeros_like(functions), functions], axis=-1))
    elif drawn.kind == "categorical":
        classes = collapse_of(functions)
        functions = functions - functions.mean(axis=-1, keepdims=True)
        ends = None if ends is None else ends - ends.mean(axis=-1, keepdims=True)
    length = None
    if ends is not None and drawn.distances is not None:
        length = length_scale(ends, drawn.distances[good], step=drawn.step)
    return replace(
        report,
        classes=classes,
        scale=function_scale(functions),
        length=length,
        noise_sd=None if drawn.noise is None else float(np.median(drawn.noise[good])),
    )


def _status(report: PriorPredictive) -> PriorStatus:
    if report.classes is not None:
        share, even = float(np.median(report.classes.largest)), 1 / report.classes.classes
        if share >= report_sentences.COLLAPSED:
            return "collapsed"
        return "leaning" if share > (1 + even) / 2 else "spread"
    assert report.scale is not None
    if report.scale.constant_share >= report_sentences.CONSTANT:
        return "flat"
    crossings = 0.0 if report.length is None else report.length.crossings
    return "rough" if crossings >= report_sentences.ROUGH else "varied"
