import numpy as np
import pytest

from bayesnn_ppl.metrics import risk_coverage
from bayesnn_ppl.plots import plot_risk_coverage

CURVE = risk_coverage([0.3, 0.1, 0.4, 0.2], [1.0, 0.0, 0.0, 2.0])


def test_the_curve_its_oracle_and_the_overall_risk():
    axes = plot_risk_coverage(CURVE, risk="squared error", unit="m²").axes[0]
    own, oracle, level = axes.lines
    np.testing.assert_array_equal(own.get_xydata(), np.c_[CURVE.coverage, [0, 1, 1, 0.75]])
    np.testing.assert_allclose(oracle.get_ydata(), [0, 0, 1 / 3, 0.75])
    assert set(level.get_ydata()) == {0.75} and axes.get_ylim()[0] == 0
    assert axes.get_ylabel() == "squared error [m²]"
    words = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert "ranked by uncertainty: AURC 0.6875" in words


def test_several_are_compared_and_a_log_score_may_be_negative():
    other = risk_coverage([0.1, 0.2], [-3.0, -1.0])
    axes = plot_risk_coverage({"a": CURVE, "b": other}).axes[0]
    assert len(axes.lines) == 2 and axes.get_ylim()[0] < -3
    words = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert words == ["a: AURC 0.6875", "b: AURC -2.5"]


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_risk_coverage({})
    with pytest.raises(ValueError, match="NaN or infinite"):
        plot_risk_coverage(risk_coverage([1.0, 2.0], [np.nan, 1.0]))
    with pytest.raises(TypeError, match=r"curves\['a'\].*risk_coverage"):
        plot_risk_coverage({"a": [1.0, 2.0]})
