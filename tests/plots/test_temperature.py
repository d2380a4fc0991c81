import numpy as np
import pytest

from bayesnn_ppl.plots import plot_step_sizes, plot_temperatures

NAMES = ["net.Dense_0.kernel", "net.Dense_0.bias"]
READ = np.array([[1.0, 0.9, 1.1], [1.2, 1.1, 1.3]])


def points(axes):
    """Positions of the markers that stand for readings."""
    return [line.get_xydata() for line in axes.lines if line.get_linestyle() == "None"]


def test_readings_expected_line_and_band():
    figure = plot_temperatures(NAMES, {"kinetic": READ, "configurational": READ + 0.05})
    (axes,) = figure.axes
    kinetic, configurational = points(axes)
    np.testing.assert_allclose(kinetic[:, 0], READ[:, 0])
    np.testing.assert_allclose(configurational[:, 0], READ[:, 0] + 0.05)
    assert [label.get_text() for label in axes.get_yticklabels()] == NAMES
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [list(line.get_xdata()) for line in dashed] == [[1.0, 1.0]]
    ends = np.array([c for c in axes.collections[0].get_segments()])[:, :, 0]
    np.testing.assert_allclose(ends, READ[:, 1:])


def test_over_time_has_an_axes_for_each_diagnostic_and_the_oddest_arrays():
    many = [f"layer {i}" for i in range(9)]
    table = np.ones((9, 5, 3)) + np.array([0.0, -0.1, 0.1])
    table[4] += 1.0
    read = table.mean(axis=1)
    figure = plot_temperatures(
        many, {"kinetic": read}, over_time={"kinetic": table, "configurational": table}
    )
    assert len(figure.axes) == 3
    first = figure.axes[1]
    assert first.get_title(loc="left") == "kinetic over time (6 of 9 arrays, the oddest)"
    labels = [text.get_text() for text in first.get_legend().get_texts()]
    assert len(labels) == 6 and "layer 4" in labels


def test_a_reading_far_off_is_said_in_figures_and_one_that_is_missing_is_left_out():
    read = READ.copy()
    read[1] = [250.0, 200.0, 300.0]
    axes = plot_temperatures(NAMES, {"kinetic": read}).axes[0]
    assert axes.get_xlim()[1] < 5
    assert [text.get_text() for text in axes.texts] == ["250"]
    read[1] = np.nan
    assert len(points(plot_temperatures(NAMES, {"kinetic": read}).axes[0])[0]) == 1


def test_ladder():
    figure = plot_step_sizes(
        [1e-5, 4e-5, 1.6e-4], [1.02, 1.4, np.nan], [True, False, False], chosen=1e-5
    )
    (axes,) = figure.axes
    assert axes.get_xscale() == "log" and axes.get_yscale() == "log"
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["right", "passed", "not passed", "not finite", "chosen: 1e-05"]
    assert len(plot_step_sizes([1e-5], [np.nan], [False]).axes) == 1
    figure.canvas.draw()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], {}), "nothing to draw"),
        ((NAMES, {"kinetic": READ[:1]}), r"must be \(2, 3\)"),
        ((NAMES, {"kinetic": READ}, {"kinetic": READ}), r"must be \(2, parts, 3\)"),
    ],
)
def test_refusals(arguments, message):
    names, readings, *rest = arguments
    with pytest.raises(ValueError, match=message):
        plot_temperatures(names, readings, over_time=rest[0] if rest else None)


def test_more_refusals():
    with pytest.raises(ValueError, match="positive temperature"):
        plot_temperatures(NAMES, {"kinetic": READ}, expected=0.0)
    with pytest.raises(ValueError, match="must be positive"):
        plot_step_sizes([0.0, 1.0], [1.0, 1.0], [True, True])
    with pytest.raises(ValueError, match="`hottest` has 1 entries"):
        plot_step_sizes([0.1, 1.0], [1.0], [True, True])
