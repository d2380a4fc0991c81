"""The table of a study, its means with errors, and its figures."""

import json

import numpy as np
import pandas as pd
import pytest

from bayesnn_ppl.experiments import load_study, read_results, run_study
from tests.experiments.cells import STUDY, figures_of


@pytest.fixture
def results(tmp_path):
    (tmp_path / "mine.toml").write_text(STUDY)
    study = load_study(str(tmp_path / "mine.toml"))
    run_study(study, "tiny", tmp_path / "out", figures_of)
    return read_results(study, "tiny", tmp_path / "out")


def test_means_and_standard_errors_over_seeds(results):
    points = {(p.arm, p.x): p for p in results.points("nll")}
    assert set(points) == {("cold", 5.0), ("cold", 10.0), ("cold", 20.0), ("plain", None)}
    # Seeds 0 and 1 give x/10 and 1 + x/10: sd 1/√2, over √2.
    for (_, x), point in points.items():
        assert point.mean == pytest.approx(0.5 + (x or 0) / 10)
        assert point.error == pytest.approx(0.5) and point.seeds == 2
    one = results.table[results.table["seed"] == 0]
    lonely = type(results)(results.study, "tiny", one, 4).points("nll")[0]
    assert np.isnan(lonely.error) and lonely.seeds == 1
    with pytest.raises(ValueError, match="No cell .* has `nil`. They have .*nll"):
        results.points("nil")


def test_one_parquet_table_and_figures(results, tmp_path):
    paths = results.write(tmp_path)
    assert [p.name for p in paths] == ["results.parquet", "nll.pdf", "nll.png"]
    table = pd.read_parquet(paths[0])
    assert len(table) == 8 and list(table.columns[:4]) == ["cell", "arm", "recipe", "scale"]
    assert json.loads(table["settings"][0])["draws"] == 5
    assert paths[1].read_bytes().startswith(b"%PDF") and paths[2].stat().st_size > 1000


def test_before_the_first_cell_there_is_an_empty_table(results, tmp_path):
    nothing = read_results(results.study, "tiny", tmp_path / "nowhere")
    assert nothing.missing == 8 and nothing.table.empty
    assert [p.name for p in nothing.write(tmp_path)] == ["results.parquet"]


def with_rows(cell, folder):
    """Two places; at the second, two rows, which are not repetitions of the training."""
    values = {0: 0.0, 1: 1.0 + cell.seed, 2: 3.0 + cell.seed}
    places = ((0, 0), (1, 1), (1, 2), (None, None))
    rows = [
        {"x": x, "nll": values[i]} if i is not None else {"x": x, "auroc": 0.7} for x, i in places
    ]
    return {"rows": 7, "verdict": "made up", "places": rows}


def test_a_cell_with_rows_counts_once_at_each_place(results, tmp_path):
    run_study(results.study, "tiny", tmp_path / "rows", with_rows)
    found = read_results(results.study, "tiny", tmp_path / "rows")
    assert found.missing == 0 and len(found.table) == 4 * 8
    plain = [p for p in found.points("nll") if p.arm == "plain"]
    # Rows 1 and 3 have mean 2, so seeds 0 and 1 give 2 and 3: not four values, but two.
    assert [(p.x, p.mean, p.seeds) for p in plain] == [(0.0, 0.0, 2), (1.0, 2.5, 2)]
    assert plain[1].error == pytest.approx(0.5)
    (level,) = [p for p in found.points("auroc") if p.arm == "plain"]
    assert level.x is None and level.mean == 0.7
    assert (found.table["verdict"] == "made up").all() and (found.table["rows"] == 7).all()


def test_infinite_means_are_left_out_of_a_figure_that_says_so(results, tmp_path):
    table = results.table.assign(nll=results.table["nll"].where(results.table["x"] != 20, np.inf))
    found = type(results)(results.study, "tiny", table, 0)
    (point,) = [p for p in found.points("nll") if p.x == 20]
    assert point.mean == np.inf and np.isnan(point.error)
    axes = found.figure("nll").axes[0]
    assert axes.get_title() == "A study (1 not finite, left out)"
    nothing = type(results)(results.study, "tiny", table.assign(nll=np.inf), 0)
    assert [p.name for p in nothing.write(tmp_path)] == ["results.parquet"]


def with_infinity(cell, folder):
    """As JSON has it, where `draws` is 10; the second row of a cell has no such metric at all."""
    nll = None if cell.x == 10 else 1.0
    return {"verdict": None, "places": [{"x": cell.x or 0, "nll": nll}, {"x": None, "auroc": 0.7}]}


def test_a_stored_infinity_is_one_and_a_metric_that_a_row_has_not_is_none(results, tmp_path):
    run_study(results.study, "tiny", tmp_path / "infinite", with_infinity)
    found = read_results(results.study, "tiny", tmp_path / "infinite")
    assert [p.x for p in found.points("nll") if p.mean == np.inf] == [10.0]
    # Not the rows without it, at which nothing was left out.
    title = found.figure("nll").axes[0].get_title()
    assert title == "A study (1 not finite, left out)"
