"""The stages of a fit: stopped, killed and resumed, and ended by a callback."""

import csv
import shutil

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.inference.approximations import (
    MAP,
    SWAG,
    ConstantSGD,
    DuringTraining,
    EmpiricalBayes,
    Laplace,
    NaturalGradient,
    Repulsive,
    Variational,
)
from bayesnn_ppl.inference.training import checkpoints
from bayesnn_ppl.storage.files import write_json
from tests.marks import checked

linear = bnn.models.linear()
learned = bnn.models.linear(prior=bnn.priors.learned_normal())
MODE = MAP(epochs=30)
OPTIMISATION = {"steps": 200, "batch_size": 16, "draws": 3, "weigh": False}
TUNING = DuringTraining(rounds=5, epochs=2, steps=5, batch_size=20)
# Each with the stage in which it is ended.
FITS = {
    "variational, its mode": (Variational(linear, mode=MODE, **OPTIMISATION), "train"),
    "variational": (Variational(linear, mode=MODE, **OPTIMISATION), "climb"),
    "natural gradient": (NaturalGradient(linear, method="noisy_kfac", **OPTIMISATION), "climb"),
    "empirical Bayes": (EmpiricalBayes(learned, **OPTIMISATION), "climb"),
    "repulsive": (Repulsive(linear, members=4, epochs=30, batch_size=16), "train"),
    "SWAG": (SWAG(linear, mode=MODE, iterates=25, burn_in=2, draws=3, batch_size=16), "iterates"),
    "constant SGD": (ConstantSGD(linear, mode=MODE, draws=9, burn_in=1, batch_size=16), "draws"),
    "tuning": (
        Laplace(linear, mode=MODE, prior_precision="scalar", when=TUNING, draws=3),
        "tuning",
    ),
}


def fit(approximation, data, callback=None, **options):
    return bnn.fit(approximation, *data, seed=2, progress=False, callback=callback, **options)


@pytest.fixture
def many_blocks(monkeypatch):
    """Blocks as small as they can be, each of which is kept on disk."""
    monkeypatch.setattr("bayesnn_ppl.inference.runtime.block_loop.BLOCK_SECONDS", 1e-9)
    monkeypatch.setattr("bayesnn_ppl.inference.runtime.draw_writers._COMMIT_SECONDS", 0.0)


@pytest.fixture(scope="module")
def whole(regression):
    """What fits come to that are never ended, in blocks of their own size; made once each."""
    known = {}

    def made(approximation):
        if id(approximation) not in known:
            known[id(approximation)] = fit(approximation, regression)
        return known[id(approximation)]

    return made


def assert_identical(found, expected):
    assert not found.provenance["interrupted"] and not expected.provenance["interrupted"]
    for name, array in expected.draws.items():
        np.testing.assert_array_equal(found.draws[name], array)
    for entry, value in expected.provenance["approximation"].items():
        if entry in ("losses", "log_evidences", "learned", "elbo"):
            assert found.provenance["approximation"][entry] == value


@pytest.mark.parametrize("name", checked(FITS))
def test_every_stage_resumes_bit_for_bit(name, regression, whole, many_blocks, tmp_path):
    approximation, phase = FITS[name]
    calls, run, killed = [], tmp_path / "run", tmp_path / "killed"
    done = {}

    def end(progress):
        calls.append(progress.phase)
        if calls.count(phase) == 2:  # what a kill between two commits leaves
            shutil.copytree(run, killed)
            done[killed] = progress.done
        if progress.phase == phase:
            done[run] = progress.done
        return calls.count(phase) == 4

    stopped = fit(approximation, regression, end, out=run)
    assert stopped.provenance["interrupted"] and "interrupted" in stopped.diagnose().verdict
    site = next(iter(stopped.draws))
    expected = whole(approximation)
    assert not np.array_equal(stopped.draws[site], expected.draws[site])
    with (run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[-1]["phase"] == phase and all(np.isfinite(float(row["loss"])) for row in rows)
    for folder in (killed, run):
        seen = []
        record = storage.read_commit(folder)
        assert 0 < record["seconds"] < 1000
        write_json(folder / "commit.json", record | {"seconds": 1000})
        resumed = bnn.resume(
            folder, approximation, *regression, progress=False, callback=seen.append
        )
        assert_identical(resumed, expected)
        assert resumed.provenance["seconds"]["total"] > 1000
        # It did not restart, nor was a stage made again that was over.
        assert seen[0].phase == phase and seen[0].done > done[folder]


def test_ctrl_c_ends_an_optimisation_and_keeps_it(regression, whole, many_blocks, tmp_path):
    approximation, _ = FITS["variational"]
    calls = []

    def interrupt(progress):
        calls.append(progress.phase)
        if calls.count("climb") == 3:
            raise KeyboardInterrupt

    stopped = fit(approximation, regression, interrupt, out=tmp_path / "run")
    assert stopped.provenance["interrupted"]
    assert f"after {3 * 16} of 200 steps" in stopped.diagnose().verdict
    resumed = bnn.resume(tmp_path / "run", approximation, *regression, progress=False)
    assert_identical(resumed, whole(approximation))


def test_a_checkpoint_counts(regression, whole, many_blocks, tmp_path, monkeypatch):
    """The negative control: a fit that resumes from other numbers ends with others."""
    approximation, _ = FITS["variational"]
    calls = []

    def end(progress):
        calls.append(progress.phase)
        return calls.count("climb") == 2

    fit(approximation, regression, end, out=tmp_path / "run")
    original = checkpoints.TrainingRecord.restored

    def other(record):
        found = original(record)
        return {n: a + 0.5 if ".parameters" in n else a for n, a in found.items()}

    monkeypatch.setattr(checkpoints.TrainingRecord, "restored", other)
    resumed = bnn.resume(tmp_path / "run", approximation, *regression, progress=False)
    with pytest.raises(AssertionError):
        assert_identical(resumed, whole(approximation))


def test_a_callback_that_ends_the_training_of_a_mode_leaves_a_fit(regression, tmp_path):
    def end_the_mode(progress):
        return progress.phase == "train" and progress.done >= 5

    mode = MAP(epochs=300)
    for approximation in (
        Laplace(linear, mode=mode, draws=3),
        Variational(linear, mode=mode, **OPTIMISATION),
    ):
        found = fit(approximation, regression, end_the_mode)
        assert found.provenance["interrupted"]
        assert "Training was interrupted after" in found.diagnose().verdict
        assert np.isfinite(found.draws["noise_scale"]).all()


@pytest.mark.parametrize("name", ["SWAG", "constant SGD"])
def test_a_callback_that_ends_the_burn_in_is_answered_in_a_sentence(name, regression, many_blocks):
    approximation, phase = FITS[name]
    with pytest.raises(RuntimeError, match=r"in its burn-in.*`resume` continues"):
        fit(approximation, regression, lambda progress: progress.phase == phase)


@pytest.mark.check
def test_tuning_calls_back_and_can_be_ended(regression, many_blocks):
    approximation, _ = FITS["tuning"]
    seen = []

    def end(progress):
        if progress.phase == "tuning":
            seen.append(progress)
        return len(seen) == 2

    found = fit(approximation, regression, end)
    assert [progress.done for progress in seen] == [1, 2] and seen[0].total == 5
    evidences = found.provenance["approximation"]["log_evidences"]
    assert len(evidences) == 2
    np.testing.assert_allclose(-40 * seen[1].losses[0], evidences, atol=1e-4)
    assert "Tuning was interrupted after 2 of 5 rounds" in found.diagnose().verdict
