import numpy as np
import pytest

from bayesnn_ppl.plots.comparison import plot_comparison

NAMES = ["hmc", "ensemble", "map"]


def spans(axes):
    """The ends of all horizontal lines, by colour."""
    found = {}
    for lines in axes.collections:
        for path in lines.get_paths():
            (left, y), (right, _) = path.vertices
            found.setdefault(tuple(lines.get_color()[0]), []).append((left, right, round(y, 2)))
    return list(found.values())


def test_intervals_are_95_percent_of_the_score_and_of_the_paired_difference():
    figure = plot_comparison(
        NAMES, [1.0, 1.1, 2.0], [0.1, 0.2, 0.3], difference_error=[0.0, 0.05, 0.1]
    )
    (axes,) = figure.axes
    own, paired = spans(axes)
    z = 1.96
    np.testing.assert_allclose(
        own, [(1 - z * 0.1, 1 + z * 0.1, -0.12), (1.1 - z * 0.2, 1.1 + z * 0.2, 0.88),
              (2 - z * 0.3, 2 + z * 0.3, 1.88)]
    )  # fmt: skip
    # None for the best itself.
    np.testing.assert_allclose(
        paired, [(1.1 - z * 0.05, 1.1 + z * 0.05, 1.18), (2 - z * 0.1, 2 + z * 0.1, 2.18)]
    )
    least, points, triangles = axes.lines
    assert list(least.get_xdata()) == [1.0, 1.0]
    assert list(points.get_xdata()) == [1.0, 1.1, 2.0]
    assert list(triangles.get_xdata()) == [1.1, 2.0]
    assert [text.get_text() for text in axes.get_yticklabels()] == NAMES
    low, high = axes.get_ylim()
    assert low > high, "the first run stands at the top"


def test_distances_stand_beside_and_the_reference_is_named():
    figure = plot_comparison(
        NAMES,
        [1.0, 1.1, np.inf],
        [0.1, np.nan, np.nan],
        distance=[0.0, 0.2, 0.3],
        distance_label="total variation to hmc",
        reference="hmc",
    )
    scores, distances = figure.axes
    assert distances.get_xlabel() == "total variation to hmc"
    assert distances.lines[0].get_xydata().tolist() == [[0.2, 1], [0.3, 2]]
    assert [text.get_text() for text in distances.texts] == ["reference"]
    assert [text.get_text() for text in scores.texts] == ["infinite →"]
    assert len(spans(scores)[0]) == 1, "only one error is known"
    assert distances.get_xlim()[0] == 0
    same = plot_comparison(NAMES[:1], [1.0], [0.1], distance=[0.0], reference="hmc")
    assert same.axes[1].get_xlim() == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a"], [1.0, 2.0], [0.1, 0.1], {}), "`nll` has 2 entries, but `names` has 1"),
        (([], [], [], {}), "`nll` is empty"),
        ((["a"], [np.inf], [0.1], {}), "finite for one run at least"),
        ((["a", "b"], [1.0, np.nan], [0.1, 0.1], {}), "NaN or -infinity for none"),
        ((["a"], [1.0], [-0.1], {}), "`error` reaches down to -0.1"),
        ((["a"], [1.0], [0.1], {"difference_error": [-1.0]}), "`difference_error` reaches down"),
        ((["a"], [1.0], [0.1], {"distance": [-1.0]}), "`distance` reaches down to -1"),
        ((["a"], [1.0], [0.1], {"distance": [np.nan]}), "`distance` holds 1 NaN"),
    ],
)
def test_refusals(arguments, message):
    *given, settings = arguments
    with pytest.raises(ValueError, match=message):
        plot_comparison(*given, **settings)
