import numpy as np
import pytest

from bayesnn_ppl.plots import plot_study

CURVE = [(1.0, 0.5, 0.1), (0.1, 0.4, 0.2), (0.01, 0.6, np.nan)]
LABELS = {"x_label": "temperature", "y_label": "nll"}


def test_curves_with_error_bars_in_the_order_of_x():
    axes = plot_study({"cold": CURVE, "plain": [(np.nan, 0.7, 0.1)]}, logarithmic=True, **LABELS)
    axes = axes.axes[0]
    assert axes.get_xscale() == "log"
    (bars,) = axes.containers
    line, _, (segments,) = bars.lines
    np.testing.assert_allclose(line.get_xdata(), [0.01, 0.1, 1.0])
    np.testing.assert_allclose(line.get_ydata(), [0.6, 0.4, 0.5])
    ends = np.array(segments.get_segments())[:, :, 1]
    np.testing.assert_allclose(ends, [(0.6, 0.6), (0.2, 0.6), (0.4, 0.6)])
    level = [other for other in axes.lines if other.get_linestyle() == "--"]
    assert [list(one.get_ydata()) for one in level] == [[0.7, 0.7]]
    assert axes.get_ylabel() == "nll, mean ± standard error"


def test_single_runs_and_the_caption_are_told():
    figure = plot_study({"a": [(1.0, 0.5, np.nan)]}, caption="word " * 40, **LABELS)
    assert figure.axes[0].get_ylabel() == "nll, single runs"
    lines = figure.get_supxlabel().split("\n")
    assert len(lines) == 3 and max(map(len, lines)) <= 95
    assert not plot_study({"a": CURVE}, **LABELS).get_supxlabel()


def test_arms_without_a_place_stand_side_by_side():
    figure = plot_study({"a": [(np.nan, 1.0, 0.1)], "b": [(np.nan, 2.0, np.nan)]}, **LABELS)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]
    np.testing.assert_allclose(axes.containers[0].lines[0].get_ydata(), [1.0, 2.0])


@pytest.mark.parametrize(
    ("curves", "options", "sentence"),
    [
        ({}, {}, "nothing to draw"),
        ({"a": [(1.0, 2.0)]}, {}, r"rows of \(x, mean, standard error\)"),
        ({"a": [(1.0, np.inf, 0.1)]}, {}, "not finite"),
        ({"a": [(0.0, 1.0, 0.1)]}, {"logarithmic": True}, "logarithmic"),
        ({"a": [(np.nan, 1.0, 0.1), (1.0, 1.0, 0.1)]}, {}, "is one row"),
    ],
)
def test_what_cannot_be_drawn_is_refused(curves, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        plot_study(curves, **options, **LABELS)
