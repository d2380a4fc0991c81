"""Figures of a posterior: arrays in, one Matplotlib figure out.

No function here shows a figure, registers it with pyplot or changes a global setting, so nothing
has to be closed. Save a figure with `figure.savefig(path)`; a notebook displays it as the value of
a cell.
"""

from bayesnn_ppl.plots.comparison import plot_comparison
from bayesnn_ppl.plots.posterior_surface import plot_segment, plot_surface
from bayesnn_ppl.plots.predictions.calibration import plot_calibration
from bayesnn_ppl.plots.predictions.coverage import plot_coverage
from bayesnn_ppl.plots.predictions.pit import plot_pit
from bayesnn_ppl.plots.predictions.posterior_predictive import plot_posterior_predictive
from bayesnn_ppl.plots.predictions.predicted_observed import plot_predicted_observed
from bayesnn_ppl.plots.predictions.predictive_band import plot_band
from bayesnn_ppl.plots.predictions.reliability import plot_reliability
from bayesnn_ppl.plots.predictions.risk_coverage_curve import plot_risk_coverage
from bayesnn_ppl.plots.prior import (
    plot_class_collapse,
    plot_function_draws,
    plot_function_surfaces,
    plot_layers,
)
from bayesnn_ppl.plots.rhat_histogram import plot_rhat
from bayesnn_ppl.plots.severity import plot_severity
from bayesnn_ppl.plots.study import plot_study
from bayesnn_ppl.plots.temperature import plot_step_sizes, plot_temperatures
from bayesnn_ppl.plots.trace_rank import plot_trace_rank

__all__ = [
    "plot_band",
    "plot_calibration",
    "plot_class_collapse",
    "plot_comparison",
    "plot_coverage",
    "plot_function_draws",
    "plot_function_surfaces",
    "plot_layers",
    "plot_pit",
    "plot_posterior_predictive",
    "plot_predicted_observed",
    "plot_reliability",
    "plot_rhat",
    "plot_risk_coverage",
    "plot_segment",
    "plot_severity",
    "plot_step_sizes",
    "plot_study",
    "plot_surface",
    "plot_temperatures",
    "plot_trace_rank",
]
