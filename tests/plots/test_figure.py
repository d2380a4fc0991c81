import io

import matplotlib
import numpy as np
import pytest

from bayesnn_ppl import plots
from bayesnn_ppl.metrics import risk_coverage
from bayesnn_ppl.plots.figure import new_figure, palette, percent, styled, vector, with_unit


def every_plot():
    line = np.linspace(0.1, 0.9, 5)
    return {
        "plot_band": plots.plot_band(line, line, line - 1, line + 1),
        "plot_calibration": plots.plot_calibration({"a": np.arange(40) % 8}, [7]),
        "plot_class_collapse": plots.plot_class_collapse({"": [[0.5, 0.5], [0.1, 0.9]]}),
        "plot_comparison": plots.plot_comparison(["a", "b"], [1.0, 2.0], [0.1, 0.2]),
        "plot_coverage": plots.plot_coverage(line, line, 50),
        "plot_function_draws": plots.plot_function_draws(line, np.stack([line, -line])),
        "plot_function_surfaces": plots.plot_function_surfaces(
            np.stack([line, line**2], axis=1), np.stack([line, -line])
        ),
        "plot_layers": plots.plot_layers(["a", "b"], [1.0, 2.0], {"dead": [0.1, np.nan]}),
        "plot_pit": plots.plot_pit(line),
        "plot_posterior_predictive": plots.plot_posterior_predictive(
            line, np.stack([line, line + 0.1])
        ),
        "plot_predicted_observed": plots.plot_predicted_observed(line, line, line - 1, line + 1),
        "plot_reliability": plots.plot_reliability(line, line, np.ones(5)),
        "plot_rhat": plots.plot_rhat({"function space": 1 + line}),
        "plot_risk_coverage": plots.plot_risk_coverage(risk_coverage(line, line)),
        "plot_segment": plots.plot_segment(line, {"posterior": -line}),
        "plot_severity": plots.plot_severity(["noise"] * 5, np.arange(1, 6), line),
        "plot_step_sizes": plots.plot_step_sizes(line, 1 + line, line < 0.5),
        "plot_study": plots.plot_study(
            {"cold": [(1.0, 0.5, 0.1), (0.1, 0.4, 0.2)]},
            x_label="temperature",
            y_label="nll",
            title="Cold",
        ),
        "plot_surface": plots.plot_surface(
            line,
            line,
            {"posterior": -np.add.outer(line, line**2)},
            [(0.1, 0.1), (0.9, 0.1), (0.4, 0.9)],
        ),
        "plot_temperatures": plots.plot_temperatures(
            ["w"], {"kinetic": np.array([[1.0, 0.9, 1.1]])}
        ),
        "plot_trace_rank": plots.plot_trace_rank({"f": np.arange(20.0).reshape(2, 10)}),
    }


def test_every_plot_is_titled_labelled_and_can_be_saved_as_a_picture():
    figures = every_plot()
    assert sorted(figures) == sorted(plots.__all__)
    for name, figure in figures.items():
        assert figure.get_suptitle() or figure.axes[0].get_title(), name
        assert figure.axes[0].get_ylabel() or figure.get_supylabel(), name
        # Behind a panel may stand its colour bar.
        assert figure.axes[-1].get_xlabel() or figure.axes[0].get_xlabel(), name
        picture = io.BytesIO()
        figure.savefig(picture, format="png")
        assert picture.getvalue().startswith(b"\x89PNG"), name


def test_the_style_holds_inside_a_plot_and_its_colours_outlive_it():
    matplotlib_blue = matplotlib.colors.to_hex("C0")

    @styled
    def draw():
        figure = new_figure(width=2, height=2)
        figure.subplots().plot([0, 1], color=palette(0))
        return figure, matplotlib.rcParams["legend.frameon"]

    figure, frame = draw()
    assert frame is False
    assert figure.axes[0].lines[0].get_color() == "#0072b2" != matplotlib_blue


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((3, 2)), r"`x` has shape \(3, 2\), but a vector"),
        ([], "`x` is empty"),
        ([1.0, 2.0], "`x` has 2 entries, but `y` has 3"),
        ([1.0, np.nan, np.inf], "`x` holds 2 NaN or infinite entries of 3"),
    ],
)
def test_a_vector_that_cannot_be_drawn_is_refused_with_a_sentence(values, message):
    with pytest.raises(ValueError, match=message):
        vector("x", values, length=3, like="y")


def test_labels():
    assert with_unit("power", "MW") == "power [MW]"
    assert with_unit("power", None) == "power"
    assert [percent(share) for share in (0, 0.001, 0.5, 0.9999, 1)] == [
        "0 %",
        "< 1 %",
        "50 %",
        "> 99 %",
        "100 %",
    ]
