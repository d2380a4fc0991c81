import numpy as np
import pytest

from bayesnn_ppl.plots.rhat_histogram import EDGES, plot_rhat


def histogram(axis):
    return axis.patches[0].get_data().values


def bin_of(rhat):
    return int(np.searchsorted(EDGES, rhat - 1, side="right")) - 1


def test_each_group_has_its_histogram_marks_and_shares():
    figure = plot_rhat({"function space": [1.002, 1.005, 1.02, 1.5], "net.Dense_0.bias": [1.001]})
    first, second = figure.axes
    assert first.get_title(loc="left") == "function space (4)\n50 % below 1.01, 75 % below 1.1"
    assert second.get_title(loc="left") == "net.Dense_0.bias (1)\n100 % below 1.01, 100 % below 1.1"
    counts = histogram(first)
    assert counts.sum() == 4
    for rhat in (1.002, 1.005, 1.02, 1.5):
        assert counts[bin_of(rhat)] == 1
    for axis in (first, second):
        np.testing.assert_allclose([line.get_xdata()[0] for line in axis.lines], [0.01, 0.1])
    assert second.get_xlabel() == "R-hat (log scale of R-hat - 1)"


def test_values_off_the_axis_are_kept_at_its_ends_and_undefined_ones_are_said():
    figure = plot_rhat({"layer": [0.999, 1.0, np.inf, 40.0, np.nan]})
    counts = histogram(figure.axes[0])
    assert (counts[0], counts[-1], counts.sum()) == (2, 2, 4)
    title = figure.axes[0].get_title(loc="left")
    assert title == "layer (5)\n40 % below 1.01, 40 % below 1.1, 1 undefined"


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({}, "`groups` is empty"),
        ({"layer": []}, r"`groups\['layer'\]` is empty"),
        ({"layer": np.ones((2, 2))}, r"`groups\['layer'\]` has shape \(2, 2\)"),
    ],
)
def test_refusals(groups, message):
    with pytest.raises(ValueError, match=message):
        plot_rhat(groups)
