"""Bad inputs get one sentence and a status, no traceback, and nothing is compiled for them."""

import jax
import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from tests.cli.conftest import MODEL, table, write_csv

COMPILATION = "/jax/core/compile/backend_compile_duration"
compilations = []


def count_compilations(event, duration, **_):
    if event == COMPILATION:
        compilations.append(duration)


@pytest.fixture(scope="module", autouse=True)
def listener():
    # Making a key is a compilation of its own, once in every process; Flax changes a setting of
    # JAX when it is imported, which comes first.
    assert bnn.nn.MLP and jax.random.key(0).shape == ()
    jax.monitoring.register_event_duration_secs_listener(count_compilations)
    yield
    jax.monitoring.unregister_event_duration_listener(count_compilations)


def changed(**columns):
    """The table with some columns replaced; None removes one."""
    merged = {**table(), **columns}
    return {name: values for name, values in merged.items() if values is not None}


def with_one(values, position, value):
    values = list(values)
    values[position] = value
    return values


LABELS = ["cheap", "dear"] * 20
SAMPLE = ["sample", "linear", "--data", "bad.csv", "--target", "price"]
OWN = ["sample", "my_model.py", "--data", "my.csv", "--target", "price"]

TABLES = {
    "infinite feature": (
        changed(age=with_one(table()["age"], 5, "inf")),
        SAMPLE,
        ["`age`", "row 6"],
    ),
    "constant column": (changed(age=[1.0] * 40), SAMPLE, ["`age`", "constant"]),
    "a word among numbers": (
        changed(age=with_one(table()["age"], 3, "young")),
        SAMPLE,
        ["`age`", "'young'", "row 4", "text"],
    ),
    "names": (
        changed(age=[f"Mr {k}" for k in range(40)]),
        SAMPLE,
        ["`age`", "36 different ones", "--drop age"],
    ),
    "too few rows": (table(rows=5), SAMPLE, ["5 rows", "at least 10"]),
    "missing target value": (
        changed(price=with_one(table()["price"], 7, "")),
        SAMPLE,
        ["`price`", "row 8"],
    ),
    "constant target": (changed(price=[3.0] * 40), SAMPLE, ["`price`", "constant"]),
    "no feature": ({"price": table()["price"]}, SAMPLE, ["single column", "`price`"]),
    "rare class": (
        changed(price=["a", *LABELS[1:]]),
        ["sample", "logistic", *SAMPLE[2:]],
        ["`a`", "fewer than two rows"],
    ),
    "one class": (changed(price=["a"] * 40), ["sample", "logistic", *SAMPLE[2:]], ["single class"]),
    "labels for a regression model": (
        changed(price=LABELS),
        ["sample", "mlp_regression", *SAMPLE[2:]],
        ["`mlp_regression`", "`mlp`"],
    ),
    "text target as a quantity": (
        changed(price=LABELS),
        [*SAMPLE, "--task", "regression"],
        ["`price`", "'cheap'"],
    ),
    "three classes for bernoulli": (
        changed(price=["a", "b", "c", "a"] * 10),
        ["sample", "mlp", *SAMPLE[2:], "--likelihood", "bernoulli"],
        ["two classes", "3"],
    ),
}

# What the body of the user's model is, and words of the sentence it gets.
MODELS = {
    "no plate": (
        MODEL.replace('numpyro.plate("data"', 'numpyro.plate("rows"'),
        ['plate "data"', "['rows']"],
    ),
    "no observed site": (
        MODEL.replace('sample("y"', 'sample("z"'),
        ['observed site "y"', "['z']"],
    ),
    "wrong shape of y": (
        MODEL.replace("x @ slope, 1.0)", "(x @ slope)[:, None], 1.0)"),
        ["shape"],
    ),
    "wrong shapes inside": (
        MODEL.replace("x @ slope", "x @ slope[:1]"),
        ["my_model.py", "line 12", "shape"],
    ),
    "targets outside the support": (
        MODEL.replace("dist.Normal(x @ slope, 1.0)", "dist.Poisson((x @ slope) ** 2)"),
        ["Poisson", "counts must be 0, 1, 2"],
    ),
    "quantities for labels": (
        MODEL.replace("Normal(x @ slope, 1.0)", "Categorical(logits=x[:, :1] * slope)"),
        ["Categorical", "labels must be 0"],
    ),
    "a name that is not defined": (
        MODEL.replace("x @ slope", "x @ slop"),
        ["my_model.py", "line 12", "slop"],
    ),
    "syntax error": ("def model(x:\n", ["my_model.py", "line 1", "Python"]),
    "fails when loaded": ("1 / 0\n", ["my_model.py", "line 1", "ZeroDivisionError"]),
    "no model": ("def modle(x, y=None, *, batch_size=None): ...\n", ["`model`", "`modle`"]),
    "no batch_size": ("def model(x, y=None): ...\n", ["`model`", "batch_size"]),
    "not a function": ("model = 3\n", ["`model`", "int"]),
}

# Command lines that are wrong by themselves: the status, and words of the sentence.
COMMANDS = {
    "zero chains": ("sample --chains 0", 2, "--chains | at least 1"),
    "zero draws": ("sample --draws 0", 2, "--draws | at least 1"),
    "fractional draws": ("sample --draws 1.5", 2, "--draws | integer"),
    "negative noise": ("sample --noise-scale -1", 2, "--noise-scale | above 0"),
    "temperature zero": ("sample --temperature 0", 2, "--temperature | above 0"),
    "test fraction of one": ("sample --test-fraction 1", 2, "--test-fraction | between 0 and 1"),
    "hidden by name": ("sample --hidden big", 2, "--hidden | 50,50"),
    "unknown kernel": ("sample nust", 1, "`nust` | `nuts`"),
    "the kernel as an option": ("sample --kernel hmc", 2, "`bayesnn sample hmc mlp`"),
    "unknown option": ("sample --chians 3", 2, "`--chians` | `--chains`"),
    "abbreviated option": ("sample --chain 3", 2, "`--chain` | `--chains`"),
    "unknown command": ("smaple", 2, "`smaple` | `sample`"),
    "option before the command": ("--json sample", 2, "`--json` | COMMAND"),
    "an argument too many": ("diagnose a b", 2, "`b` | too many"),
    "a table too many": ("predict runs/h new.csv", 2, "too many. Did you mean `--data new.csv`?"),
    "a model too many": ("diagnose a my.py", 2, "Did you mean `--model my.py`?"),
    "no run given": ("diagnose", 2, "RUN"),
    "quantile outside": ("predict run --quantiles 0.5,1.5", 2, "--quantiles | 1.5"),
    "unknown model": ("sample mpl", 1, "`mpl` | `mlp`"),
    "a table for a model": (
        "sample my.csv --target price",
        1,
        "`my.csv` is a table, not a model | `bayesnn sample mlp --data my.csv --target price`",
    ),
    "a table to fit": ("fit my.csv", 1, "not a model | `bayesnn fit mlp --data my.csv"),
    "a table for a prior": ("prior my.csv", 1, "`bayesnn prior mlp --data my.csv"),
    "a table to calibrate": ("calibrate my.csv", 1, "`bayesnn calibrate mlp --data my.csv"),
    "a data set for a model": (
        "sample wine",
        1,
        "`wine` is a data set, not a model | `bayesnn sample mlp --data wine`",
    ),
    "no batch size": ("sample sghmc --step-size 1e-4", 1, "such as `--batch-size 64`"),
    "likelihoods in a list": (
        "sample mlp --data my.csv --target price --likelihood bernoulli",
        1,
        "are `gaussian`, `",
    ),
    "unknown data": ("sample --data diabets", 1, "`diabets` | `diabetes`"),
    "no such split": ("sample --split 20", 1, "`split` | 0 to 19"),
    "no such file": ("sample --data our.csv --target price", 1, "`our.csv` | exist"),
    "no such model": ("sample our.py", 1, "`our.py`"),
    "no target": ("sample --data my.csv", 1, "`--target` | `price`"),
    "wrong target": ("sample --data my.csv --target prise", 1, "`prise` | `price`"),
    "target of a named set": ("sample --target bmi", 1, "`diabetes` | `target`"),
    "classifier on quantities": (
        "sample logistic --data my.csv --target price",
        1,
        "`logistic` | `linear`",
    ),
    "categorical for quantities": (
        "sample mlp --data my.csv --target price --likelihood categorical",
        1,
        "`categorical` | `gaussian`",
    ),
    "hidden layers of a line": ("sample linear --hidden 3", 1, "`linear` | --hidden"),
    "noise of a noise network": (
        "sample --likelihood heteroscedastic --noise-scale 1",
        1,
        "--noise-scale",
    ),
    "two priors": (
        "sample --prior-scale 1 --prior-variance 1",
        1,
        "--prior-scale | --prior-variance",
    ),
    "two temperatures": (
        "sample --temperature 0.5 --posterior-temperature 0.5",
        1,
        "temper | once",
    ),
    "tree of hmc": (
        "sample hmc --max-tree-depth 3",
        2,
        "hmc | --max-tree-depth; nuts has",
    ),
    "steps of nuts": (
        "sample --num-leapfrogs 3",
        2,
        "nuts | --num-leapfrogs; hmc and parallel-tempering have | --max-tree-depth",
    ),
    "mass of mclmc": ("sample mclmc --mass identity", 2, "--mass | --preconditioning"),
    "full jitter of hmc": ("sample hmc --jitter 1", 1, "jitter of HMC"),
    "negative jitter": ("sample hmc --jitter -1", 1, "jitter of HMC"),
    "a ladder from above": (
        "sample parallel-tempering --temperatures 4,2,1",
        1,
        "begin with 1",
    ),
    "a ladder of words": (
        "sample parallel-tempering --temperatures hot,cold",
        2,
        "--temperatures | hot",
    ),
    "one chain of chees": ("sample chees --chains 1", 1, "chees | --chains 4"),
    "chees without a warm-up": (
        "sample chees --warmup 0",
        1,
        "--trajectory-length | --warmup",
    ),
    "unknown start": ("sample --init ensembel", 2, "--init | ensemble | folder of a run"),
    "start at no run": ("sample hmc mlp --init .", 1, "There is no posterior at `.`"),
    "R-hat below one": ("sample --until-rhat 0.9", 2, "--until-rhat | above 1"),
    "no time": ("sample --max-time soon", 2, "--max-time | `soon` | `10m`"),
    "time zero": ("resume run --max-time 0s", 2, "--max-time | `0s`"),
    "nothing to watch": (
        "sample linear --until-ess 9 --probe-rows 0",
        1,
        "--until-ess | --probe-rows 0",
    ),
    "a table for an image model": ("sample lenet --data wine", 1, "`lenet` | images | `mlp`"),
    "texts of a table": ("sample --num-words 10", 1, "`num_words` | `diabetes`"),
    "three tokens": ("sample --num-words 3", 2, "--num-words | at least 4"),
    "two lengths": (
        "sample hmc --num-leapfrogs 3 --trajectory-length 1",
        1,
        "--num-leapfrogs | --trajectory-length",
    ),
    "uneven devices": ("sample --devices 3", 1, "4 chains | 3 devices"),
    "devices of one device": (
        "sample --devices 2 --chain-method vectorized",
        1,
        "--devices | vectorized",
    ),
    "zoo options of a model": (
        "sample my_model.py --data my.csv --target price --hidden 3",
        1,
        "--hidden | my_model.py",
    ),
    "no such name in a model": (
        "sample my_model.py:modle --data my.csv --target price",
        1,
        "`modle` | `model`",
    ),
    "folder in use": ("sample linear --out .", 1, "not empty | --out"),
    "no such run": ("evaluate runs/none", 1, "`runs/none` | bayesnn sample"),
    "no run in the folder": ("predict .", 1, "run.json"),
    "file in use": ("predict run --out my.csv", 1, "`my.csv` | exists"),
    "demo over other things": ("demo --out .", 1, "no demo made it | --out"),
    "classes without inputs": ("models --classes 3", 1, "--classes | --inputs"),
    "target without data": ("data --target price", 1, "--target | data set"),
}


def refused(argv, status, words, capsys):
    before = len(compilations)
    assert main(argv) == status
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    assert shown.out == "", "An error leaves standard output to the results."
    last = shown.err.strip().splitlines()[-1]
    assert last.startswith("bayesnn") and ": error: " in last
    assert last.rstrip().endswith((".", "?")), last
    assert all(word in last for word in words), last
    assert len(compilations) == before, "Something was compiled before the input was refused."


@pytest.mark.parametrize("case", TABLES)
def test_table(case, here, capsys):
    columns, argv, words = TABLES[case]
    write_csv(here / "bad.csv", columns)
    refused(argv, 1, words, capsys)
    assert not list((here / "runs").glob("*")), "A refused run leaves no folder."


@pytest.mark.parametrize("case", MODELS)
def test_wrong_model(case, here, capsys):
    source, words = MODELS[case]
    (here / "my_model.py").write_text(source)
    refused(OWN, 1, words, capsys)
    assert not list((here / "runs").glob("*"))


@pytest.mark.parametrize("column", ["price", "size"])
def test_decimal_commas_are_named(column, here, capsys):
    """As a spreadsheet of much of Europe writes a table."""
    columns = table()
    cells = {**columns, column: [f"{value:.1f}".replace(".", ",") for value in columns[column]]}
    lines = [";".join(cells)]
    lines += [";".join(map(str, row)) for row in zip(*cells.values(), strict=True)]
    (here / "bad.csv").write_text("\n".join(lines))
    words = [f"column `{column}`", "decimal comma, such as '", "Write decimals with a point"]
    refused(SAMPLE, 1, words, capsys)


def test_label_gap(here, capsys):
    own = MODEL.replace("x @ slope, 1.0", "logits=x[:, :5] * slope[:5]")
    (here / "my_model.py").write_text(own.replace("Normal(logits", "Categorical(logits"))
    refused(["sample", "my_model.py", "--data", "wine"], 1, ["5 classes", "[3, 4]"], capsys)


@pytest.mark.parametrize("case", COMMANDS)
def test_command(case, here, capsys):
    line, status, words = COMMANDS[case]
    refused(line.split(), status, words.split(" | "), capsys)


def test_a_compilation_would_be_noticed():
    before = len(compilations)
    jax.jit(lambda x: x * 1.2345)(np.ones(3))
    assert len(compilations) == before + 1


def test_traceback_on_demand(here, capsys, monkeypatch):
    assert main(["sample", "mpl", "--traceback"]) == 1
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("BAYESNN_TRACEBACK", "1")
    assert main(["sample", "mpl"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_bug_says_that_it_is_one(here, capsys, monkeypatch):
    def fail(*args, **options):
        raise KeyError("surprise")

    monkeypatch.setattr("bayesnn_ppl.data.load", fail)
    assert main(["data", "diabetes"]) == 1
    shown = capsys.readouterr().err
    assert "surprise" in shown and "bug" in shown and "--traceback" in shown
    assert "Traceback" not in shown


def test_ctrl_c_of_a_resumed_run_says_what_to_type(linear_run, capsys, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt("Interrupted. 3 of 9 draws are kept, and `resume` continues.")

    monkeypatch.setattr("bayesnn_ppl.resume", interrupt)
    assert main(["resume", str(linear_run)]) == 1
    assert f"bayesnn resume {linear_run}` continues." in capsys.readouterr().err


def test_ctrl_c_before_the_first_draw(here, capsys, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt("Interrupted, and `resume` continues from there.")

    monkeypatch.setattr("bayesnn_ppl.sample", interrupt)
    assert main(["sample", "linear"]) == 1
    assert "resume runs/diabetes-linear` continues from there." in capsys.readouterr().err
    assert not (here / "runs" / "diabetes-linear").exists()
