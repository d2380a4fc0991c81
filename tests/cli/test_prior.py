"""`bayesnn prior`: the report, the figures, and what is refused."""

import json

import pytest

from bayesnn_ppl.cli import main
from tests.cli.conftest import write_csv

FEW = ["--draws", "8", "--rows", "12"]
OWN = ["prior", "my_model.py", "--data", "my.csv", "--target", "price"]


def test_report_and_figures_of_a_regression(tmp_path, capsys):
    folder = tmp_path / "prior"
    line = ["prior", "mlp", "--hidden", "5", "--prior-scale", "2", "--out", str(folder), *FEW]
    assert main(line) == 0
    shown = capsys.readouterr()
    first, _, title, *_ = shown.out.splitlines()
    assert first == "mlp at 12 training rows of diabetes; targets are standardised"
    assert title.startswith("Prior predictive: ")
    assert "8 draws at 12 inputs" in shown.out and "Dense_0" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 88
    assert "functions.png, layers.png" in shown.err
    told = json.loads((folder / "prior.json").read_text())
    assert told["draws"] == 8 and told["verdict"].split()[0] in shown.out
    for name in ("functions.png", "layers.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert main(line) == 1
    assert "is not empty" in capsys.readouterr().err


def test_labels_as_json_with_their_figure(tmp_path, capsys):
    folder = tmp_path / "prior"
    assert main(["prior", "logistic", "--data", "wine", "--json", "--out", str(folder), *FEW]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["classes"]["shares"]) == 8 and len(told["classes"]["shares"][0]) == 3
    assert told["status"] in ("collapsed", "leaning", "spread")
    assert (folder / "classes.png").exists()


@pytest.mark.parametrize("features", [1, 2])
def test_a_model_of_ones_own(features, here, capsys):
    columns = {"size": range(40), "age": [(7 * i) % 40 for i in range(40)]}
    chosen = dict(list(columns.items())[:features])
    write_csv(here / "my.csv", {**chosen, "price": [i**2 for i in range(40)]})
    assert main([*OWN, "--seed", "3", "--out", "figures", *FEW]) == 0
    assert "no Flax Linen network" in capsys.readouterr().out
    assert sorted(path.name for path in (here / "figures").iterdir()) == [
        "functions.png",
        "prior.json",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["prior", "mlp", "--temperature", "0.5"], "Leave --temperature out"),
        (["prior", "mlp", "--posterior-temperature", "0.5"], "Leave --posterior-temperature out"),
        (["prior", "mpl"], "There is no model `mpl` in the zoo"),
        (["prior", "lenet"], "`lenet` is for images, but the data are tables"),
        ([*OWN, "--hidden", "3"], "--hidden are for models of the zoo"),
        ([*OWN, "--traceback"], "fails at line"),
    ],
    ids=["T", "posterior T", "name", "kind", "own", "failure"],
)
def test_refusals(line, message, here, capsys):
    if "--traceback" in line:
        path = here / "my_model.py"
        path.write_text(path.read_text().replace("x @ slope", "x @ slope[:1]"))
    assert main(line) == 1
    assert message in capsys.readouterr().err
