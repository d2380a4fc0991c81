"""The engine of studies: no cell twice, none lost, whatever ends it, on any engine."""

import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from bayesnn_ppl.experiments import load_study, read_results, run_study
from bayesnn_ppl.experiments.running import result_file
from tests.experiments.cells import STUDY, figures_of, logged


@pytest.fixture
def study(tmp_path):
    (tmp_path / "mine.toml").write_text(STUDY)
    return load_study(str(tmp_path / "mine.toml"))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "out"


def table_of(study, folder):
    return read_results(study, "tiny", folder).table.drop(columns="seconds")


@pytest.fixture
def expected(study, tmp_path):
    """The table of a study that ran in one piece."""
    run_study(study, "tiny", tmp_path / "whole", figures_of)
    return table_of(study, tmp_path / "whole")


def test_every_cell_is_run_once(study, folder):
    cells = study.cells("tiny")
    told = []
    outcomes = run_study(study, "tiny", folder, figures_of, report=lambda *now: told.append(now))
    assert [o.cell for o in outcomes] == cells and len(cells) == 8
    assert sorted(logged(folder)) == sorted(cell.key for cell in cells)
    assert [(done, total) for _, done, total in told] == [(i, 8) for i in range(1, 9)]
    again = run_study(study, "tiny", folder, figures_of)
    assert not any(outcome.ran for outcome in again) and len(logged(folder)) == 8


def test_an_interrupted_study_resumes(study, folder, expected):
    def interrupted(outcome, done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(study, "tiny", folder, figures_of, report=interrupted)
    assert len(logged(folder)) == 3 and read_results(study, "tiny", folder).missing == 5
    outcomes = run_study(study, "tiny", folder, figures_of)
    assert sum(outcome.ran for outcome in outcomes) == 5
    assert len(logged(folder)) == len(set(logged(folder))) == 8
    pd.testing.assert_frame_equal(table_of(study, folder), expected)


def test_a_study_that_is_killed_loses_no_cell(study, folder, expected, tmp_path):
    line = (
        "from pathlib import Path; from bayesnn_ppl.experiments import load_study, run_study; "
        "from tests.experiments.cells import figures_of; "
        f"run_study(load_study({str(tmp_path / 'mine.toml')!r}), 'tiny', Path({str(folder)!r}), "
        "figures_of)"
    )
    environment = {**os.environ, "BAYESNN_TEST_SLEEP": "0.2", "PYTHONPATH": os.getcwd()}
    process = subprocess.Popen([sys.executable, "-c", line], env=environment)
    cells = study.cells("tiny")
    try:
        for _ in range(600):
            done = [c for c in cells if result_file(folder, c).exists()]
            if len(done) >= 2:
                break
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = {c.key for c in cells if result_file(folder, c).exists()}
    assert 2 <= len(done) < 8
    run_study(study, "tiny", folder, figures_of)
    begun = logged(folder)
    assert all(begun.count(key) == 1 for key in done), "A cell that had a result was run again."
    assert len(begun) <= 9  # the one that was under way
    pd.testing.assert_frame_equal(table_of(study, folder), expected)


def test_a_cell_that_fails_stops_no_other_and_is_tried_again(study, folder, expected):
    bad = study.cells("tiny")[2]
    folder.mkdir()
    (folder / "study.json").write_text(json.dumps({"study": study.name, "scale": "tiny"}))
    (folder / "fails").write_text(json.dumps([bad.key]))
    outcomes = run_study(study, "tiny", folder, figures_of)
    assert [o.cell.key for o in outcomes if o.error] == [bad.key]
    assert outcomes[2].error == "It was to fail."
    assert read_results(study, "tiny", folder).missing == 1
    (folder / "fails").unlink()
    assert [o.cell.key for o in run_study(study, "tiny", folder, figures_of) if o.ran] == [bad.key]
    pd.testing.assert_frame_equal(table_of(study, folder), expected)


def test_two_processes_give_the_same_table(study, folder, expected):
    outcomes = run_study(study, "tiny", folder, figures_of, jobs=2)
    assert [o.cell for o in outcomes] == study.cells("tiny") and all(o.ran for o in outcomes)
    assert len(logged(folder)) == len(set(logged(folder))) == 8
    pd.testing.assert_frame_equal(table_of(study, folder), expected)


def test_a_dask_cluster_of_two_workers_gives_the_same_table(study, folder, expected):
    def interrupted(outcome, done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(study, "tiny", folder, figures_of, cluster="local:2", report=interrupted)
    had = {c.key for c in study.cells("tiny") if result_file(folder, c).exists()}
    assert len(had) >= 3
    outcomes = run_study(study, "tiny", folder, figures_of, cluster="local:2")
    assert {o.cell.key for o in outcomes if not o.ran} == had
    assert all(logged(folder).count(key) == 1 for key in had)
    pd.testing.assert_frame_equal(table_of(study, folder), expected)


def test_a_folder_is_that_of_one_study(study, folder):
    run_study(study, "tiny", folder, figures_of)
    with pytest.raises(ValueError, match="at the scale `tiny`, and this is .* at `cpu`"):
        run_study(study, "cpu", folder, figures_of)
    other = folder.with_name("other")
    other.mkdir()
    (other / "letter").write_text("Dear reader")
    with pytest.raises(ValueError, match="not a study"):
        run_study(study, "tiny", other, figures_of)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"jobs": 0}, "at least 1"),
        ({"jobs": 2, "cluster": "local"}, "`cluster` has its own workers"),
    ],
)
def test_bad_arguments_are_refused(study, folder, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        run_study(study, "tiny", folder, figures_of, **arguments)
    assert not folder.exists()
