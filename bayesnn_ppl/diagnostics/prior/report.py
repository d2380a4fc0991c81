"""What a prior means in function space: figures, the verdict in sentences, and both as text."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np

from bayesnn_ppl.core.arguments import html_table, readable
from bayesnn_ppl.core.wording import percent, plain
from bayesnn_ppl.diagnostics.presentation import cut, paragraph, value_lines
from bayesnn_ppl.diagnostics.prior.class_collapse import ClassCollapse
from bayesnn_ppl.diagnostics.prior.function_variation import FunctionScale, LengthScale
from bayesnn_ppl.diagnostics.prior.layer_activity import LayerActivity

__all__ = ["PriorPredictive", "figure_lines", "sentences"]

COLLAPSED = 0.9  # share of the inputs in one class
CONSTANT = 0.9  # share of the variance of functions
ROUGH = 4.0  # crossings of the mean between two inputs
_ALIKE = 0.9
_STUCK = 0.5
_GROWTH = 10.0

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
        scale: size of the functions; of categorical labels that of the logits minus their mean
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
        return _text(self)

    def _repr_html_(self) -> str:
        of = ("draws", f"{self.draws} at {self.rows} inputs")
        rows = [("verdict", self.verdict), of, *figure_lines(self)]
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


def sentences(found: PriorPredictive) -> list[str]:
    """What the figures of a prior mean."""
    words = []
    if found.broken:
        words.append(
            f"{found.broken} of {found.draws} draws have function values that are not finite"
            + (", and are left out." if found.broken < found.draws else ".")
            + " Scale the weights by fan-in, or take lighter tails or fewer layers."
        )
    if found.classes is not None:
        words += _of_classes(found, found.classes)
    elif found.scale is not None:
        words += _of_quantity(found)
    if found.length is not None and math.isfinite(found.length.value):
        length = found.length
        rough = length.crossings >= ROUGH
        words.append(
            f"Functions vary over a length of {length.value:.3g}, and two inputs are "
            f"{length.distance:.3g} apart: between them a function crosses its mean about "
            f"{length.crossings:.2g} times."
            + (" Functions at neighbouring inputs are almost independent." if rough else "")
        )
    return words + _of_layers(found.layers)


def _of_classes(found: PriorPredictive, classes: ClassCollapse) -> list[str]:
    share, even = float(np.median(classes.largest)), 1 / classes.classes
    where = f"an even spread over {classes.classes} classes would put {percent(even)} there"
    if found.status == "collapsed":
        words = [f"Each draw puts {percent(share)} of the inputs in one class (the median of "]
        words[0] += f"{found.draws} draws; {where})."
    else:
        start = "No collapse: the" if found.status == "spread" else "The"
        words = [f"{start} median draw puts {percent(share)} of the inputs in one class; {where}."]
    low, high = classes.average.min(), classes.average.max()
    hidden = found.status != "spread" and high < 2 * even
    words.append(
        f"Averaged over draws the classes have {percent(low)} to {percent(high)}"
        + (", which hides what each draw does." if hidden else ".")
    )
    words.append(f"The predicted class has a probability of {classes.confidence:.2g} on average.")
    if found.status != "spread" and found.scale is not None:
        words.append(
            f"Logits differ between draws by a constant of sd {found.scale.offset_sd:.3g}, and "
            f"change from input to input by sd {found.scale.change_sd:.3g}. Reduce the part that "
            "is the same for all inputs: centred inputs, smaller biases, weights scaled by "
            "fan-in, fewer "
            "layers."
        )
    return words


def _of_quantity(found: PriorPredictive) -> list[str]:
    scale = found.scale
    assert scale is not None
    share = percent(scale.constant_share)
    if found.status == "flat":
        words = [
            f"Each draw is almost a constant: {share} of the functions' variance is a constant for "
            "each draw, and the rest changes with the input. Use a smaller scale for the biases, "
            "or a larger one for the weights."
        ]
    else:
        words = [
            f"Draws are functions of the input: {share} of their variance is a constant for each "
            "draw, the rest changes with the input."
        ]
    noise = "" if found.noise_sd is None else f", with noise of sd {found.noise_sd:.3g} (median)"
    words.append(
        f"Over draws and inputs they have sd {scale.sd:.3g}{noise}, in the model's units of `y`."
    )
    if scale.sd > 5 or scale.sd < 0.2:
        words.append(
            f"If the targets are standardised, that is {scale.sd:.2g} times the spread that they "
            "have."
        )
    return words


def _of_layers(layers: Sequence[LayerActivity]) -> list[str]:
    words = []
    for what, field in (
        ("tanh units are saturated (|tanh| > 0.99)", "saturated"),
        ("relu units are dead (0 at every input)", "dead"),
    ):
        given = [layer for layer in layers if getattr(layer, field) is not None]
        worst = max(given, key=lambda layer: getattr(layer, field), default=None)
        if worst is not None and getattr(worst, field) >= _STUCK:
            words.append(f"In {worst.name} {percent(getattr(worst, field))} of the {what}.")
    hidden = [layer for layer in layers[:-1] if math.isfinite(layer.sd)]
    if len(hidden) > 1 and min(layer.sd for layer in hidden) > 0:
        first, last = hidden[0], hidden[-1]
        ratio = last.sd / first.sd
        if ratio > _GROWTH or ratio < 1 / _GROWTH:
            words.append(
                f"Pre-activations {'grow' if ratio > 1 else 'shrink'} with depth, from sd "
                f"{first.sd:.3g} in {first.name} to {last.sd:.3g} in {last.name}."
            )
    if hidden and hidden[-1].common >= _ALIKE:
        words.append(
            f"At {hidden[-1].name} the inputs of a draw have {percent(hidden[-1].common)} in "
            f"common, and {percent(hidden[0].common)} at {hidden[0].name}."
        )
    return words


def figure_lines(found: PriorPredictive) -> list[tuple[str, str]]:
    """The figures as pairs of a name and a text."""
    lines = []
    classes, scale, length = found.classes, found.scale, found.length
    if classes is not None:
        low, high = np.quantile(classes.largest, [0.05, 0.95])
        lines += [
            (
                "largest class",
                f"{percent(float(np.median(classes.largest)))} of the inputs (median draw; nine "
                f"draws in ten have {percent(low)} to {percent(high)})",
            ),
            ("classes in use", f"{classes.effective_classes:.2g} of {classes.classes}"),
            ("probability", f"{classes.confidence:.3g} for the predicted class"),
            (
                "average over draws",
                f"{percent(classes.average.min())} to {percent(classes.average.max())} a class",
            ),
        ]
    if scale is not None:
        lines.append(
            (
                "outputs" if classes is None else "logits",
                f"sd {scale.sd:.3g}: constants {scale.offset_sd:.3g}, changes with the input "
                f"{scale.change_sd:.3g}",
            )
        )
    if found.noise_sd is not None:
        lines.append(("noise", f"sd {found.noise_sd:.3g} (median)"))
    if length is not None:
        lines.append(
            (
                "length-scale",
                f"{length.value:.3g}; inputs are {length.distance:.3g} apart, "
                f"{length.crossings:.2g} crossings",
            )
        )
    if not found.layers:
        lines.append(("layers", f"not read: {found.no_layers}"))
    return lines


def _text(found: PriorPredictive) -> str:
    """The whole report in at most 88 columns, the verdict first."""
    lines = [f"Prior predictive: {found.status}", "", *paragraph(found.verdict)]
    lines += ["", f"{found.draws} draws at {found.rows} inputs", *value_lines(figure_lines(found))]
    if found.layers:
        lines += ["", "Layers, before the activation", *_layer_table(found.layers)]
    return "\n".join(lines)


def _layer_table(layers: Sequence[LayerActivity]) -> list[str]:
    columns = ["sd", "in common"]
    columns += ["saturated"] if any(layer.saturated is not None for layer in layers) else []
    columns += ["dead"] if any(layer.dead is not None for layer in layers) else []
    width = min(44, max(len(layer.name) for layer in layers))
    lines = [f"  {'':<{width}}" + "".join(f"  {name:>9}" for name in columns)]
    for layer in layers:
        shares = {"in common": layer.common, "saturated": layer.saturated, "dead": layer.dead}
        cells = [f"{layer.sd:.3g}"]
        cells += [_share(shares[name]) for name in columns[1:]]
        lines.append(
            f"  {cut(layer.name, width):<{width}}" + "".join(f"  {cell:>9}" for cell in cells)
        )
    return lines


def _share(share: float | None) -> str:
    return "-" if share is None or not math.isfinite(share) else percent(share)
