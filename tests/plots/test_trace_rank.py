import numpy as np
import pytest

from bayesnn_ppl.plots.trace_rank import plot_trace_rank, rank_counts


def chains(shape=(4, 200, 2), seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_ranks_of_a_known_array():
    counts, edges = rank_counts(np.array([[0.1, 0.2, 0.9, 0.8], [0.3, 0.4, 0.5, 0.6]]), 2)
    np.testing.assert_array_equal(counts, [[2, 2], [2, 2]])
    np.testing.assert_array_equal(edges, [0.5, 4.5, 8.5])
    apart, _ = rank_counts(np.array([[0.0, 1.0], [2.0, 3.0]]), 2)
    np.testing.assert_array_equal(apart, [[2, 0], [0, 2]])


def test_equal_draws_share_their_rank():
    # A rejected proposal repeats the state: ranks 1, 2, 3 become 2, 2, 2.
    counts, _ = rank_counts(np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]), 6)
    np.testing.assert_array_equal(counts, [[0, 3, 0, 0, 0, 0], [0, 0, 0, 0, 3, 0]])


def test_lines_carry_the_draws_and_the_rank_counts():
    values = chains()
    figure = plot_trace_rank(values, labels=["f(0)", "f(1)"], unit="MW")
    trace, rank = figure.axes[2], figure.axes[3]
    assert trace.get_ylabel() == "f(1) [MW]"
    assert trace.get_xlabel() == "draw"
    assert len(trace.lines) == 4
    for chain, line in enumerate(trace.lines):
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 201))
        np.testing.assert_array_equal(line.get_ydata(), values[chain, :, 1])
    counts, edges = rank_counts(values[:, :, 1], 20)
    for chain, patch in enumerate(rank.patches):
        found = patch.get_data()
        np.testing.assert_allclose(found.values - found.baseline, counts[chain])
        np.testing.assert_allclose(found.baseline, chain * 1.1 * counts.max())
        np.testing.assert_array_equal(found.edges, edges)
    equal = [segment[0, 1] for segment in rank.collections[1].get_segments()]
    np.testing.assert_allclose(equal, 10 + np.arange(4) * 1.1 * counts.max())
    assert [text.get_text() for text in figure.legends[0].texts] == [
        "chain 0",
        "chain 1",
        "chain 2",
        "chain 3",
        "equal shares",
    ]


@pytest.mark.parametrize(
    ("values", "labels", "message"),
    [
        (np.zeros((4, 20)), None, r"but it must be \(chain, draw, k\)"),
        (np.zeros((4, 1, 2)), None, "holds 1 draws in each chain"),
        (np.zeros((4, 20, 2)), ["one"], "`labels` names 1 quantities"),
        (np.full((4, 20, 1), np.nan), None, "80 NaN or infinite entries of 80"),
        ({}, None, "nothing to draw"),
        ({"f": np.zeros((4, 20))}, ["f"], "leave out `labels`"),
        ({"f": np.zeros((4, 20)), "g": np.zeros((4, 21))}, None, r"`values\['g'\]` has shape"),
        ({"f": np.zeros((4, 20, 2))}, None, "one and the same shape"),
    ],
)
def test_refusals(values, labels, message):
    with pytest.raises(ValueError, match=message):
        plot_trace_rank(values, labels=labels)
