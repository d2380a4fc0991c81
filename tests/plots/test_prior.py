import numpy as np
import pytest

from bayesnn_ppl.plots.prior import (
    plot_class_collapse,
    plot_function_draws,
    plot_function_surfaces,
    plot_layers,
)

X = np.array([2.0, 0.0, 1.0])
DRAWS = np.arange(5.0)[:, None] + X
SQUARE = np.array([[a, b] for a in (0.0, 1.0, 2.0) for b in (0.0, 1.0)])


def test_draws_and_their_band_in_the_order_of_x():
    figure = plot_function_draws(
        X, DRAWS, level=0.5, shown=2, x_label="time", y_label="power", x_unit="h", unit="MW"
    )
    (axis,) = figure.axes
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("time [h]", "power [MW]")
    vertices = axis.collections[0].get_paths()[0].vertices
    at_one = vertices[vertices[:, 0] == 1, 1]
    assert (at_one.min(), at_one.max()) == (2, 4)
    first, second, median = axis.lines
    np.testing.assert_array_equal(first.get_xydata(), [[0, 0], [1, 1], [2, 2]])
    np.testing.assert_array_equal(second.get_ydata(), [1, 2, 3])
    np.testing.assert_array_equal(median.get_ydata(), [2, 3, 4])
    labels = [text.get_text() for text in figure.legends[0].texts]
    assert labels == ["50 % of the draws", "draws", "median"]


def test_surfaces_share_their_colours_and_show_the_spread():
    functions = np.stack([SQUARE[:, 0], -SQUARE[:, 0], 0 * SQUARE[:, 0]])
    figure = plot_function_surfaces(SQUARE, functions, shown=2, x_labels=("a", "b"))
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[:3] == ["draw 1", "draw 2", "sd of 3 draws"]
    one, two = (axis.collections[0].get_clim() for axis in figure.axes[:2])
    assert one == two == (-2, 2)
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("a", "b")


def test_classes_of_draws_and_their_average():
    shares = {"wide": [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], "narrow": np.full((3, 2), 0.5)}
    figure = plot_class_collapse(shares, shown=2)
    assert len(figure.axes) == 6
    titles = [axis.get_title() for axis in figure.axes[:3]]
    assert titles == ["draw 1", "draw 2", "average of 3"]
    heights = [[bar.get_height() for bar in axis.patches] for axis in figure.axes]
    assert heights[0] == [1, 0] and heights[1] == [0, 1]
    np.testing.assert_allclose(heights[2], [1 / 3, 2 / 3])
    assert figure.axes[3].get_ylabel() == "narrow\nshare of the inputs"


def test_layers():
    figure = plot_layers(["a", "b"], [1.0, 100.0], {"dead": [0.25, np.nan]})
    sizes, shares = figure.axes
    assert sizes.get_yscale() == "log"
    np.testing.assert_array_equal(sizes.lines[0].get_ydata(), [1, 100])
    assert shares.lines[0].get_ydata()[0] == 0.25
    assert [label.get_text() for label in shares.get_xticklabels()] == ["a", "b"]
    assert len(plot_layers(["a"], [1.0]).axes) == 1


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plot_function_draws(X, DRAWS[:, :2]), r"`functions` has shape \(5, 2\)"),
        (lambda: plot_function_draws(X, DRAWS * np.nan), "`functions` holds 15 NaN"),
        (lambda: plot_function_draws(X, DRAWS, level=90), "`level` is 90"),
        (lambda: plot_function_surfaces(X, DRAWS), r"`x` has shape \(3,\)"),
        (lambda: plot_function_surfaces(np.stack([X, X], 1), DRAWS), "lie on one line or coincide"),
        (lambda: plot_class_collapse({}), "`shares` is empty"),
        (lambda: plot_class_collapse({"a": [0.5, 0.5]}), r"must be \(draws, classes\)"),
        (lambda: plot_class_collapse({"a": [[3.0, -1.0]]}), "must hold shares"),
        (lambda: plot_layers(["a"], [1.0, 2.0]), "`sd` has 2 entries, but `names` has 1"),
        (lambda: plot_layers(["a"], [0.0]), "sizes must be positive"),
    ],
)
def test_refusals(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
