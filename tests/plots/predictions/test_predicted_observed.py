import numpy as np
import pytest

from bayesnn_ppl.plots.predictions.predicted_observed import plot_predicted_observed

Y = np.array([1.0, 2.0, 3.0, 4.0])
MEAN = np.array([1.5, 2.0, 5.0, 4.0])


def test_points_and_intervals_are_split_by_whether_they_hold_the_observation():
    figure = plot_predicted_observed(Y, MEAN, MEAN - 1, MEAN + 1, unit="kWh")
    axis = figure.axes[0]
    assert axis.get_xlabel() == "observed [kWh]"
    assert axis.get_ylabel() == "predicted: mean and interval [kWh]"
    # The errors are 0.5, 0, 2 and 0.
    assert axis.get_title() == f"Predicted against observed: RMSE {np.sqrt(4.25 / 4):.3g} kWh"
    inside, outside, diagonal = axis.lines
    np.testing.assert_array_equal(inside.get_xydata(), [[1, 1.5], [2, 2], [4, 4]])
    np.testing.assert_array_equal(outside.get_xydata(), [[3, 5]])
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    np.testing.assert_array_equal(axis.collections[1].get_segments(), [[[3, 4], [3, 6]]])
    assert [text.get_text() for text in axis.get_legend().texts] == [
        "inside its interval: 75 %",
        "outside its interval: 25 %",
        "predicted = observed",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Y, MEAN[:3], MEAN, MEAN), "`mean` has 3 entries, but `y` has 4"),
        ((Y, MEAN, MEAN + 1, MEAN - 1), "`lower` lies above `upper` at 4 of 4 points"),
        ((Y, MEAN * np.nan, MEAN, MEAN), "`mean` holds 4 NaN"),
        ((Y[:, None], MEAN, MEAN, MEAN), r"`y` has shape \(4, 1\)"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        plot_predicted_observed(*arguments)
