"""`bayesnn compare` on saved runs."""

import json
import shutil

import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main


@pytest.fixture(scope="module")
def other_run(linear_run, tmp_path_factory):
    """Another run of the same model on the same data: every fourth draw of the first."""
    folder = tmp_path_factory.mktemp("runs") / "short"
    bnn.load(linear_run, thin=4).save(folder)
    shutil.copy(linear_run / "run.json", folder)
    return folder


def printed(capsys, *argv):
    assert main([str(word) for word in argv]) == 0
    return capsys.readouterr().out


def test_table_json_and_figure(linear_run, other_run, here, capsys):
    posteriors = {
        "linear": bnn.load(linear_run, bnn.models.linear()),
        "short": bnn.load(other_run, bnn.models.linear()),
    }
    test = bnn.data.load("diabetes").test
    expected = bnn.metrics.compare(posteriors, *test, reference="linear").to_dict()
    runs = [linear_run, other_run, "--reference", linear_run]
    shown = json.loads(printed(capsys, "compare", *runs, "--json"))
    assert shown["runs"].keys() == expected["runs"].keys() and shown["rows"] == 44
    for name, line in expected["runs"].items():
        assert shown["runs"][name] == pytest.approx(line)
    out = printed(capsys, "compare", *runs, "--out", "figure.png")
    assert out.startswith("44 test rows of diabetes, in the data's units\n")
    assert "linear" in out and "short" in out and "W1" in out and "above best" in out
    assert (here / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert main(["compare", *map(str, runs), "--out", "figure.png"]) == 1
    assert "`figure.png` exists" in capsys.readouterr().err


def test_a_reference_that_is_not_among_the_runs_joins_them(linear_run, other_run, capsys):
    line = ["compare", linear_run, "--reference", other_run, "--json"]
    shown = json.loads(printed(capsys, *line))
    assert shown["reference"] == "short" and shown["runs"].keys() == {"short", "linear"}
    assert shown["runs"]["short"]["wasserstein"] == 0 < shown["runs"]["linear"]["wasserstein"]


def test_a_reference_posterior_goes_by_its_name(linear_run, other_run, capsys):
    line = ["compare", linear_run, other_run, "--reference", "diabetes-ard"]
    shown = json.loads(printed(capsys, *line, "--json"))
    assert shown["reference"] == "diabetes-ard" and shown["runs"].keys() == {"short", "linear"}
    assert 0 < shown["runs"]["linear"]["wasserstein"] < 77, "in the data's units"
    assert "distances to diabetes-ard" in printed(capsys, *line)


def test_models_of_ones_own(own_run, here, capsys):
    shutil.copytree(own_run, here / "again")
    kept = json.loads(printed(capsys, "compare", own_run, "again", "--json"))
    assert kept["rows"] == 4 and kept["reference"] is None
    model = ["--model", "my_model.py"]
    full = json.loads(printed(capsys, "compare", own_run, "again", *model, "--json"))
    for name, line in full["runs"].items():
        assert line["nll"] == pytest.approx(kept["runs"][name]["nll"], rel=1e-4)
        assert line["nll_difference"] == 0
    assert "that the runs kept" in printed(capsys, "compare", own_run, "again")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["{linear}"], ["`{linear}` is only one run", "bayesnn evaluate"]),
        (["{linear}", "{linear}"], ["given twice"]),
        (["{linear}", "{wine}"], ["same data", "of diabetes", "of wine"]),
        (["{linear}", "missing"], ["There is no run at `missing`"]),
        (["{linear}", "{short}", "--model", "my_model.py"], ["--model does not apply"]),
        (["{linear}", "{short}", "--out", "figure.txt"], ["--out takes a figure", "figure.txt"]),
        (["{linear}", "{short}", "--out", "no/figure.png"], ["The folder `no` of --out"]),
        (["{linear}", "split"], ["split or prepare diabetes differently"]),
    ],
)
def test_refused(argv, words, linear_run, wine_run, other_run, here, capsys):
    if "split" in argv:
        shutil.copytree(other_run, here / "split")
        file = here / "split" / "run.json"
        values = json.loads(file.read_text())
        values["data"]["split"] = 1
        file.write_text(json.dumps(values))
    places = {"linear": linear_run, "wine": wine_run, "short": other_run}
    assert main(["compare", *(word.format(**places) for word in argv)]) == 1
    shown = capsys.readouterr()
    assert all(word.format(**places) in shown.err for word in words), shown.err
    assert shown.out == "" and "Traceback" not in shown.err


def test_no_run_is_wrong_usage(capsys):
    assert main(["compare"]) == 2
    assert "RUN" in capsys.readouterr().err


def test_fits_are_compared_in_a_shell(tmp_path, capsys):
    settings = {
        "map": ["--epochs", "5"],
        "laplace": ["--mode", "map", "--mode-epochs", "5"],
        "ensemble": ["--epochs", "5"],
    }
    folders = [str(tmp_path / name) for name in settings]
    for (name, given), folder in zip(settings.items(), folders, strict=True):
        line = ["fit", name, "linear", "--quiet", "--out", folder]
        assert main([*line, *given]) == 0
    capsys.readouterr()
    assert main(["compare", *folders, "--reference", folders[1], "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert set(shown["runs"]) == set(settings)
    methods = {name: line["method"] for name, line in shown["runs"].items()}
    assert methods == {"map": "MAP", "laplace": "Laplace", "ensemble": "Ensemble"}
    assert main(["compare", *folders]) == 0
    assert "above best" in capsys.readouterr().out
