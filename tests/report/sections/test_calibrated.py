"""Conformal intervals and sets in the report: the numbers of `evaluate`, refused at once."""

import re

import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.sections.predictions import predictions_section


def test_sets_of_each_level(wine):
    data, run = wine
    x, y = data.train
    calibration = (x + 0.1, y)  # rows that trained nothing
    subject = Subject("a", "run0", run, x=data.test.x, y=data.test.y, calibration=calibration)
    found = bnn.metrics.evaluate(run, *data.test, calibration=calibration)
    html = predictions_section(subject)
    assert f"Calibrated on {len(y)} other rows" in html and "own coverage" not in html
    for level in (50, 90, 95):
        (row,) = re.findall(rf'<tr><th scope="row">{level} %</th>(.*?)</tr>', html)
        cells = [float(cell) for cell in re.findall(r">([\d.]+)</td>", row)]
        scores = [found[f"set_coverage_{level}"], found[f"set_size_{level}"]]
        assert cells == pytest.approx(scores, rel=1e-3)
    without = Subject("a", "run0", run, x=data.test.x, y=data.test.y)
    assert "Calibrated" not in predictions_section(without)


def test_rows_are_refused_before_the_page_is_computed(wine, monkeypatch):
    data, run = wine
    monkeypatch.setattr(bnn.Posterior, "diagnose", lambda *args, **settings: pytest.fail())
    with pytest.raises(ValueError, match=r"has 18 rows, but level 0\.95 needs 19"):
        bnn.report.page(run, *data.test, calibration=data.test)
    with pytest.raises(TypeError, match="str, but must be rows"):
        bnn.report.page(run, *data.test, calibration="later.csv")
    with pytest.raises(ValueError, match="`x` and `y` must be given"):
        bnn.report.page(run, calibration=data.test)
