import numpy as np
import pytest

from bayesnn_ppl.plots import plot_segment, plot_surface

FIRST, SECOND = np.linspace(-0.25, 1.25, 4), np.linspace(-0.5, 1.5, 5)
TABLE = -((FIRST[None] - 0.5) ** 2 + (SECOND[:, None] - 0.5) ** 2)
DRAWS = [(0.0, 0.0), (1.0, 0.0), (0.3, 1.0)]


def test_the_draws_stand_where_they_are_and_distances_are_true():
    figure = plot_surface(
        FIRST, SECOND, {"posterior": TABLE, "prior": TABLE / 2}, DRAWS, lengths=(2.0, 3.0)
    )
    axes = [a for a in figure.axes if a.get_title()]
    assert [a.get_title() for a in axes] == ["posterior", "prior"]
    for one in axes:
        np.testing.assert_allclose(one.lines[0].get_xydata(), np.array(DRAWS) * (2.0, 3.0))
        assert one.get_aspect() == 1.0
        assert [text.get_text() for text in one.texts] == ["1", "2", "3"]
        np.testing.assert_allclose(one.dataLim.intervalx, FIRST[[0, -1]] * 2.0)
        np.testing.assert_allclose(one.dataLim.intervaly, SECOND[[0, -1]] * 3.0)


def test_a_depth_and_places_without_density():
    table = TABLE.copy()
    table[0, 0] = -np.inf
    figure = plot_surface(FIRST, SECOND, {"posterior": table}, DRAWS, depth=0.5)
    levels = figure.axes[0].collections[0].levels
    assert levels[0] == pytest.approx(TABLE.max() - 0.5) and levels[-1] == TABLE.max()
    flat = plot_surface(FIRST, SECOND, {"flat": np.zeros((5, 4))}, DRAWS)
    flat.canvas.draw()


def test_a_shared_scale_and_rows_of_two():
    densities = {"posterior": TABLE, "likelihood": TABLE + 7, "prior": TABLE / 2}
    figure = plot_surface(FIRST, SECOND, densities, DRAWS, depth=1.0, shared=True)
    figure.canvas.draw()
    panels = [a for a in figure.axes if a.get_title()]
    assert [a.get_title() for a in panels] == list(densities) and figure.get_figwidth() < 7
    for axes in panels:
        np.testing.assert_allclose(axes.collections[0].levels[[0, -1]], (-1.0, 0.0))
    (bar,) = figure.axes[3].child_axes  # in the cell that is left
    assert bar.get_xlabel() == "log density minus the highest of each [nats]"
    pair = plot_surface(FIRST, SECOND, {"a": TABLE, "b": TABLE / 2}, DRAWS, shared=True)
    assert sum("nats" in a.get_ylabel() for a in pair.axes) == 1


def test_the_line_through_two_draws():
    axes = plot_segment(FIRST, {"posterior": TABLE[0], "prior": TABLE[1]}).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), TABLE[0] - TABLE[0].max())
    assert [line.get_xdata()[0] for line in axes.lines[2:]] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("densities", "draws", "sentence"),
    [
        ({}, DRAWS, "nothing to draw"),
        ({"a": TABLE.T}, DRAWS, "the grid has"),
        ({"a": np.full((5, 4), np.nan)}, DRAWS, "NaN"),
        ({"a": np.full((5, 4), -np.inf)}, DRAWS, "no finite value"),
        ({"a": TABLE}, [(0, 1, 2)], "coordinates"),
        ({"a": TABLE}, [(0, np.nan)], "NaN"),
    ],
)
def test_what_cannot_be_drawn_is_refused(densities, draws, sentence):
    with pytest.raises(ValueError, match=sentence):
        plot_surface(FIRST, SECOND, densities, draws)


def test_a_line_that_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_segment(FIRST, {})
    with pytest.raises(ValueError, match="has 5 entries"):
        plot_segment(FIRST, {"a": SECOND})
