import numpy as np
import pytest
from scipy.stats import binom

from bayesnn_ppl.plots.predictions.coverage import plot_coverage


def test_the_curve_and_the_diagonal():
    figure = plot_coverage([0.9, 0.5], [0.8, 0.55], 40)
    axis = figure.axes[0]
    diagonal, curve = axis.lines
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
    np.testing.assert_array_equal(curve.get_xydata(), [[0.5, 0.55], [0.9, 0.8]])
    assert axis.get_title() == "Coverage of the predictive intervals, n = 40"
    assert axis.get_xlabel() == "probability of the predictive interval"
    assert axis.get_ylabel() == "share of observations inside"


@pytest.mark.parametrize("n", [20, 1000])
def test_the_band_holds_95_percent_of_the_binomial_and_no_more_than_it_must(n):
    vertices = plot_coverage([0.5], [0.5], n).axes[0].collections[0].get_paths()[0].vertices
    for p in (0.25, 0.5, 0.9):
        column = vertices[np.isclose(vertices[:, 0], p), 1]
        low, high = round(column.min() * n), round(column.max() * n)
        assert binom.cdf(high, n, p) - binom.cdf(low - 1, n, p) >= 0.95
        assert binom.cdf(high - 1, n, p) < 0.975
        assert binom.cdf(low - 1, n, p) < 0.025


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0.5, 0.9], [0.5], 10), ValueError, "`empirical` has 1 entries, but `nominal` has 2"),
        (([50.0], [0.5], 10), ValueError, "Divide percentages by 100"),
        (([0.5], [-0.1], 10), ValueError, "`empirical` reaches from -0.1"),
        (([0.5], [np.nan], 10), ValueError, "`empirical` holds 1 NaN"),
        (([0.5], [0.5], 0), ValueError, "the number of observations, must be at least 1"),
        (([0.5], [0.5], 2.5), TypeError, "must be an integer"),
    ],
)
def test_refusals(arguments, error, message):
    with pytest.raises(error, match=message):
        plot_coverage(*arguments)
