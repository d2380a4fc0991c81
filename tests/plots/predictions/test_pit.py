import numpy as np
import pytest

from bayesnn_ppl.plots import plot_pit, plot_posterior_predictive


def test_uniform_values_stay_inside_and_narrow_predictions_leave_the_band():
    generator = np.random.default_rng(0)

    def outside(values):
        axis = plot_pit(values).axes[1]
        curve = axis.lines[1].get_ydata()
        band = axis.collections[0].get_paths()[0].vertices
        x = axis.lines[1].get_xdata()
        ends = [band[np.isclose(band[:, 0], v), 1] for v in x]
        return sum(
            not e.min() - 1e-9 <= y <= e.max() + 1e-9 for e, y in zip(ends, curve, strict=True)
        )

    assert outside(generator.uniform(size=300)) == 0
    assert outside(generator.beta(0.4, 0.4, size=300)) > 20


@pytest.mark.parametrize("values", [[0.5], [0.5, 1.2], [-0.1, 0.5]])
def test_what_is_no_probability_is_refused(values):
    with pytest.raises(ValueError, match="two or more probabilities between 0 and 1"):
        plot_pit(values)


def test_each_draw_is_a_curve_and_the_data_are_one():
    generator = np.random.default_rng(0)
    observed, sampled = generator.normal(size=50), generator.normal(size=(200, 50))
    axis = plot_posterior_predictive(observed, sampled, "mm").axes[0]
    assert len(axis.lines) == 41 and axis.get_xlabel() == "target [mm]"
    np.testing.assert_array_equal(axis.lines[-1].get_xdata(), np.sort(observed))
    np.testing.assert_array_equal(axis.lines[0].get_xdata(), np.sort(sampled[0]))
    assert [t.get_text() for t in axis.get_legend().get_texts()] == ["40 draws", "observed"]


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"`sampled` has shape \(4,\).*\(draws, 3\)"):
        plot_posterior_predictive([1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match="`sampled` holds 1 NaN"):
        plot_posterior_predictive([1.0, 2.0], [[np.nan, 1.0]])
