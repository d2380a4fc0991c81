import numpy as np
import pytest

from bayesnn_ppl.plots.predictions.predictive_band import plot_band

X = np.array([2.0, 0.0, 1.0])
MEAN = np.array([20.0, 0.0, 10.0])


def ends(collection):
    """Lower and upper end of a filled band at its first vertex column, by x."""
    vertices = collection.get_paths()[0].vertices
    return {
        x: (vertices[vertices[:, 0] == x, 1].min(), vertices[vertices[:, 0] == x, 1].max())
        for x in (0.0, 1.0, 2.0)
    }


def test_artists_carry_the_data_in_the_order_of_x():
    figure = plot_band(
        X,
        MEAN,
        MEAN - 3,
        MEAN + 4,
        epistemic=(MEAN - 1, MEAN + 2),
        truth=MEAN + 0.5,
        x_train=[0.5, 1.5],
        y_train=[5.0, 15.0],
        level=0.9,
        x_label="time",
        y_label="power",
        x_unit="h",
        unit="MW",
    )
    axis = figure.axes[0]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("time [h]", "power [MW]")
    assert axis.get_title() == "Posterior predictive distribution of power"
    outer, inner = axis.collections
    assert ends(outer) == {0.0: (-3, 4), 1.0: (7, 14), 2.0: (17, 24)}
    assert ends(inner) == {0.0: (-1, 2), 1.0: (9, 12), 2.0: (19, 22)}
    mean, truth, train = axis.lines
    np.testing.assert_array_equal(mean.get_xydata(), [[0, 0], [1, 10], [2, 20]])
    np.testing.assert_array_equal(truth.get_xydata(), [[0, 0.5], [1, 10.5], [2, 20.5]])
    np.testing.assert_array_equal(train.get_xydata(), [[0.5, 5], [1.5, 15]])
    assert train.get_linestyle() == "None"
    labels = [text.get_text() for text in figure.legends[0].texts]
    assert labels[:2] == [
        "90 % interval of an observation",
        "90 % interval of the function (epistemic)",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": MEAN[:2]}, "`mean` has 2 entries, but `x` has 3"),
        ({"x": X[:, None]}, r"`x` has shape \(3, 1\)"),
        ({"lower": MEAN + 2}, "`lower` lies above `upper` at 3 of 3 points"),
        ({"epistemic": (MEAN + 1, MEAN)}, r"`epistemic\[0\]` lies above `epistemic\[1\]`"),
        ({"truth": [1.0]}, "`truth` has 1 entries"),
        ({"x_train": [1.0]}, "`x_train` was given without `y_train`"),
        ({"y_train": [1.0]}, "`y_train` was given without `x_train`"),
        ({"x_train": [1.0], "y_train": [1.0, 2.0]}, "`y_train` has 2 entries, but `x_train`"),
        ({"level": 90}, "`level` is 90"),
    ],
)
def test_refusals(change, message):
    given = {"x": X, "mean": MEAN, "lower": MEAN - 1, "upper": MEAN + 1} | change
    with pytest.raises(ValueError, match=message):
        plot_band(**given)
