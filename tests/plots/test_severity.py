import numpy as np
import pytest

from bayesnn_ppl.plots.severity import plot_severity


def points(figure):
    return {line.get_label(): line.get_xydata().tolist() for line in figure.axes[0].lines}


def test_a_line_for_each_kind_from_the_clean_set():
    figure = plot_severity(
        ["clean", "noise", "blur", "noise", "blur"],
        [0, 3, 1, 1, 3],
        [0.9, 0.5, 0.85, 0.8, 0.7],
        label="accuracy",
    )
    assert points(figure) == {
        "noise": [[0, 0.9], [1, 0.8], [3, 0.5]],
        "blur": [[0, 0.9], [1, 0.85], [3, 0.7]],
    }
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["noise", "blur"]
    assert axes.get_title() == "Accuracy under corruption"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("severity", "accuracy")


def test_without_a_clean_set_or_with_one_of_each_kind():
    assert points(plot_severity(["noise"] * 2, [1, 2], [0.8, 0.5])) == {
        "noise": [[1, 0.8], [2, 0.5]]
    }
    both = plot_severity(["a", "a", "b", "b"], [0, 1, 0, 1], [0.9, 0.8, 0.7, 0.6])
    assert points(both) == {"a": [[0, 0.9], [1, 0.8]], "b": [[0, 0.7], [1, 0.6]]}
    own = plot_severity(["a", "a", "b"], [0, 1, 1], [0.9, 0.8, 0.6])
    assert points(own) == {"a": [[0, 0.9], [1, 0.8]], "b": [[0, 0.9], [1, 0.6]]}
    assert points(plot_severity(["clean"], [0], [0.9])) == {"clean": [[0, 0.9]]}
    assert plot_severity(["noise"], [1], [2.0], label="NLL [nats]").axes[0].get_legend() is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["noise"], [1, 2], [0.5]), "`severity` has 2 entries, but `kind` has 1"),
        ((["noise"], [1], [0.5, 0.6]), "`score` has 2 entries, but `kind` has 1"),
        (([], [], []), "nothing to draw"),
        ((["noise"], [-1], [0.5]), "nothing is cleaner"),
        ((["noise"], [1], [np.inf]), "`score` holds 1 NaN or infinite"),
        ((["noise", "noise"], [1, 1], [0.5, 0.6]), "twice for the kind 'noise'"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        plot_severity(*arguments)
