import numpy as np
import pytest

from bayesnn_ppl.plots.predictions.reliability import plot_reliability


def test_bins_gaps_shares_and_calibration_error():
    figure = plot_reliability([0.9, 0.3, np.nan], [0.7, 0.4, np.nan], [30, 10, 0])
    top, bottom = figure.axes
    diagonal, curve = top.lines
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
    np.testing.assert_array_equal(curve.get_xydata(), [[0.3, 0.4], [0.9, 0.7]])
    np.testing.assert_allclose(
        top.collections[0].get_segments(), [[[0.3, 0.3], [0.3, 0.4]], [[0.9, 0.9], [0.9, 0.7]]]
    )
    np.testing.assert_allclose(
        bottom.collections[0].get_segments(), [[[0.3, 0], [0.3, 0.25]], [[0.9, 0], [0.9, 0.75]]]
    )
    # 0.25 * 0.1 + 0.75 * 0.2
    assert top.get_title() == "Reliability: expected calibration error 0.175"
    assert top.get_ylabel() == "accuracy"
    assert bottom.get_xlabel() == "confidence"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5], [0.5, 0.6], [1]), "`accuracy` has 2 entries, but `weight` has 1"),
        (([0.5], [0.5], [0]), "at least one positive"),
        (([0.5, 0.6], [0.5, 0.6], [1, -1]), "no negative entry"),
        (([50.0], [0.5], [1]), "`confidence` reaches from 50 to 50"),
        (([0.5], [np.nan], [1]), "`accuracy` holds 1 NaN"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        plot_reliability(*arguments)
