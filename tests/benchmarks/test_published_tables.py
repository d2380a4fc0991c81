"""bde's protocol: its split, its scores, its peers, and what the table says of them."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.model_selection import train_test_split

import bayesnn_ppl as bnn
from benchmarks.harness.running import peer
from benchmarks.pages.published_table import published_table
from benchmarks.samplers import published_tables
from benchmarks.samplers.published_tables import (
    KEY,
    PUBLISHED,
    gaussian_scores,
    linear,
    mixture_scores,
    ours,
    split,
)


@pytest.fixture
def table():
    """200 rows; the first column is the number of the row."""
    generator = np.random.default_rng(0)
    x = np.column_stack([np.arange(200), generator.normal(size=(200, 2))])
    return x, 100 + 5 * x[:, 1] + generator.normal(size=200)


class NoCompilations:
    """A reading that needs no listener."""

    def read(self):
        return 0.0


def test_the_split_is_the_papers_and_is_standardised_by_its_training_rows(table):
    x, y = table
    rows = split(x, y)
    train, test = train_test_split(np.arange(200), test_size=0.2, random_state=0)
    for found, numbers in ((rows.x, train), (rows.test_x, test)):
        np.testing.assert_allclose(found[:, 0], (numbers - train.mean()) / train.std(), atol=1e-6)
    np.testing.assert_allclose(rows.test_y, (y[test] - y[train].mean()) / y[train].std(), rtol=1e-4)


def test_rows_for_choosing_settings_are_training_rows_alone(table):
    x, y = table
    rows, chosen = split(x, y), split(x, y, validation=True)
    train, _ = train_test_split(np.arange(200), test_size=0.2, random_state=0)
    inner, held_out = train_test_split(train, test_size=0.2, random_state=1)
    assert len(chosen.x) == len(inner) == 128 and len(chosen.test_x) == len(held_out) == 32
    again = chosen.test_x[:, 0] * inner.std() + inner.mean()
    np.testing.assert_allclose(again, held_out, atol=1e-3)
    assert len(rows.test_x) == 40 and set(held_out) <= set(train)


def test_scores_are_those_of_a_gaussian_and_of_the_mixture():
    y = np.array([0.0, 2.0])
    means, sds = np.array([[[0.0, 0.0]], [[2.0, 2.0]]]), np.full((2, 1, 2), 0.5)
    found = mixture_scores(y, means, sds)
    assert found["rmse"] == pytest.approx(1.0)
    assert found["nll"] == pytest.approx(-norm.logpdf(1, 0, np.sqrt(0.25 + 1)))
    mixture = 0.5 * (norm.pdf(0, 0, 0.5) + norm.pdf(0, 2, 0.5))
    assert found["nll_mixture"] == pytest.approx(-np.log(mixture))
    assert gaussian_scores(y, np.array([1.0, 1.0]), np.array([1.25**0.5] * 2)) == pytest.approx({
        "rmse": found["rmse"],
        "nll": found["nll"],
    })  # fmt: skip


def test_our_predictions_have_the_scores_of_their_draws(table):
    """In standardised units, by the function that scores bde's draws."""
    rows, fitted = split(*table), []

    def fit(net, x, y, **how):
        settings = {"ensemble": bnn.approximations.Ensemble(epochs=2), "warmup_steps": 20}
        fitted.append(bnn.mile(net, x, y, chains=2, draws=3, steps_per_draw=2, **settings, **how))
        return fitted[0]

    found = ours(rows, 0, NoCompilations(), fit)
    values = fitted[0].function_values(rows.test_x)
    scores = mixture_scores(rows.test_y, values["mean"], values["sd"])
    assert scores == pytest.approx({name: found[name] for name in scores}, rel=1e-3)
    assert found["seconds"] > 0
    # 5 to 1 by least squares, which has no randomness.
    assert linear(rows, 0)["rmse"] == pytest.approx(0.2, abs=0.1)


def test_a_peer_gets_rows_options_and_words(tmp_path, monkeypatch):
    script = tmp_path / "peers" / "echo.py"
    script.parent.mkdir()
    script.write_text(
        "import json, sys\n"
        "import numpy as np\n"
        "given, options = np.load(sys.argv[1]), json.loads(sys.argv[3])\n"
        "total = given['x'].sum() + given['y'].sum() + given['test'].sum()\n"
        "np.savez(sys.argv[2], total=total + options['a'] + int(sys.argv[4]))\n"
    )
    monkeypatch.setattr("benchmarks.harness.running._PACKAGE", tmp_path)
    ones = np.ones(3)
    given = {"x": ones, "y": ones, "test": ones}
    found = peer(sys.executable, "echo.py", given, {"a": 100}, 1000)
    assert found["total"] == 1109


def test_a_run_is_stored_and_not_made_again(table, tmp_path, monkeypatch, capsys):
    rows = split(*table)
    monkeypatch.setattr(published_tables, "load", lambda name, validation: rows)
    # The number of devices is fixed once any test has used one.
    no_devices = SimpleNamespace(config=SimpleNamespace(update=lambda *_: None))
    monkeypatch.setattr(published_tables, "jax", no_devices)
    published_tables.main(["airfoil"], seeds=(0, 1), only=("linear",), out=tmp_path)
    assert "linear" in capsys.readouterr().out
    stored = json.loads((tmp_path / "published-tables.json").read_text())
    assert [tuple(row[name] for name in KEY) for row in stored["rows"]] == [
        ("airfoil", "test", "linear", 0)  # without randomness there is one seed
    ]
    assert stored["published"] == PUBLISHED and stored["rows"][0]["cores"] == 2
    monkeypatch.setattr(published_tables, "load", None)
    published_tables.main(["airfoil"], seeds=(0, 1), only=("linear",), out=tmp_path)
    with pytest.raises(SystemExit, match="not among the contenders"):
        published_tables.main(["airfoil"], only=("smile",), out=tmp_path)


def test_the_experiment_runs_where_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(published_tables, "load", lambda name, validation: None)
    no_devices = SimpleNamespace(config=SimpleNamespace(update=lambda *_: None))
    monkeypatch.setattr(published_tables, "jax", no_devices)
    names = ("mile", "longer_mile")
    monkeypatch.setattr(
        published_tables, "contenders",
        lambda *_: {name: lambda rows, seed: {"rmse": 1.0, "nll": 0.0} for name in names},
    )  # fmt: skip

    def made(**options):
        published_tables.main(["airfoil"], seeds=(0,), out=tmp_path, **options)
        rows = json.loads((tmp_path / "published-tables.json").read_text())["rows"]
        return [row["contender"] for row in rows]

    assert made() == ["mile"]
    assert made(only=("longer_mile",)) == ["mile", "longer_mile"]


def test_the_table_says_what_was_run_and_what_was_not():
    def row(seed, nll, rows="test", contender="bde", **more):
        key = {"data": "airfoil", "rows": rows, "contender": contender, "seed": seed}
        return (
            key
            | {"rmse": 0.125, "nll": nll, "nll_mixture": -1.0, "seconds": 90.4, "cpu_seconds": 171}
            | more
        )

    made = [row(0, -0.8, compile=9.6), row(1, -1.0, compile=9.6), row(0, 7.0, rows="validation")]
    text = published_table({"published": PUBLISHED, "rows": [*made, row(0, -0.9, "test", "mile")]})
    lines = {line.split(" | ")[0]: line.split(" | ")[1:] for line in text.splitlines()}
    assert lines["| airfoil, bde"] == [
        "0, 1", "0.1250 ± 0.0000", "-0.9000 ± 0.1414", "-1.0000 ± 0.0000", "90 (9.6)", "171",
        "0.1216", "-0.9126", "240 |",
    ]  # fmt: skip
    assert lines["| airfoil, `mile`"][:3] == ["0", "0.1250", "-0.9000"]
    assert lines["| bikesharing, bde"][0] == "none" and "| bikesharing, `mile`" not in lines
