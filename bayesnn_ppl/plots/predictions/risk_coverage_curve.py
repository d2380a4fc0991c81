"""How much is gained by referring the most uncertain inputs?"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from bayesnn_ppl.metrics.referral import RiskCoverage
from bayesnn_ppl.plots.figure import (
    new_figure,
    palette,
    require_entries,
    require_finite,
    styled,
    with_unit,
)


@styled
def plot_risk_coverage(
    curves: RiskCoverage | Mapping[str, RiskCoverage],
    *,
    risk: str = "risk",
    unit: str | None = None,
) -> Figure:
    """Mean loss of the most certain rows against their share, with the best order there is.

    Args:
        curves: what `metrics.risk_coverage` or `metrics.evaluate_referral` returned, or name ->
            curve for several on the same rows. Of one the oracle is drawn too, and the overall
            risk, which an order that says nothing has at every coverage.
        risk: what the loss is called, for the axis.
        unit: its unit.

    Returns:
        A figure with one axes.

    Raises:
        ValueError: there is no curve, or one has NaN or infinite risks.
        TypeError: a curve is not a `RiskCoverage`.
    """
    named = {"": curves} if isinstance(curves, RiskCoverage) else dict(curves)
    require_entries("curves", named)
    for name, curve in named.items():
        if not isinstance(curve, RiskCoverage):
            raise TypeError(
                f"`curves[{name!r}]` is {type(curve).__name__}, but a figure shows what "
                "`metrics.risk_coverage` or `metrics.evaluate_referral` returned."
            )
        require_finite("curves", np.asarray(curve.risk))
    figure = new_figure(width=5.2, height=4.2)
    axes = figure.subplots()
    for index, (name, curve) in enumerate(named.items()):
        label = f"{name or 'ranked by uncertainty'}: AURC {curve.aurc:.4g}"
        axes.plot(curve.coverage, curve.risk, color=palette(index), label=label)
    if len(named) == 1:
        area = float(curve.oracle.mean())
        axes.plot(
            *(curve.coverage, curve.oracle),
            color=palette(1),
            linestyle="--",
            label=f"ranked by the loss itself: AURC {area:.4g}",
        )
        axes.axhline(curve.risk[-1], color="0.5", linewidth=1.0, label="no order")
    axes.set(xlim=(0, 1), xlabel="share of rows that are predicted", ylabel=with_unit(risk, unit))
    if min(curve.risk.min() for curve in named.values()) >= 0:  # a log score may be negative
        axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_title("Risk where uncertain rows are referred")
    figure.legend(loc="outside lower center", ncols=1)
    return figure
