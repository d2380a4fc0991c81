"""What the tests of the command line share: a scratch folder, tables, and one sampled run."""

import contextlib
import io
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.app import app_for
from bayesnn_ppl.settings.jobs import GROUPS, Sample

# Of `sample hmc`, which compiles in half the time of NUTS, which the demo's test runs.
TINY = "--num-leapfrogs 3 --warmup 20 --draws 20 --chains 2".split()
MODEL = '''
import bayesnn_ppl as bnn
import numpyro
import numpyro.distributions as dist


def model(x, y=None, *, batch_size=None):
    """A plane with unit noise."""
    slope = numpyro.sample("slope", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(x @ slope, 1.0), obs=y)
'''


def parsed(line):
    """What `bayesnn` makes of a line: the arguments and groups of its command, by name."""
    app, words, _ = app_for(line.split())
    _, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    bound.apply_defaults()
    return words, bound.arguments


def sample_job(line):
    """The job of `bayesnn sample` and the words of a line."""
    words, found = parsed(f"sample {line}")
    groups = {name: found[name] for name in GROUPS[Sample]}
    return Sample(words[1], found["settings"], found["model"], **groups)


def table(rows=40):
    """Columns of a regression problem whose target depends on both features."""
    generator = np.random.default_rng(0)
    size, age = generator.normal(size=(2, rows))
    return {"size": size, "age": age, "price": 100 + 10 * size - 5 * age}


def write_csv(path, columns):
    lines = [",".join(columns)]
    lines += [",".join(str(cell) for cell in row) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A scratch folder to work in, with a table and a model."""
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "my.csv", table())
    (tmp_path / "my_model.py").write_text(MODEL)
    return tmp_path


@pytest.fixture(scope="session")
def linear_run(tmp_path_factory):
    """A run of linear regression on diabetes; tests only read it."""
    folder = tmp_path_factory.mktemp("runs") / "linear"
    assert main(["sample", "hmc", "linear", "--out", str(folder), "--quiet", *TINY]) == 0
    return folder


@pytest.fixture(scope="session")
def wine_run(tmp_path_factory):
    """A cold run of logistic regression on wine, on one device; tests only read it."""
    folder = tmp_path_factory.mktemp("runs") / "wine"
    line = (
        "sample hmc logistic --data wine --posterior-temperature 0.5 --devices 1 --seed 3 --quiet"
    )
    assert main([*line.split(), "--out", str(folder), *TINY]) == 0
    return folder


@pytest.fixture(scope="session")
def first_session(tmp_path_factory):
    """A folder where a model of one's own was sampled on a table, and what was printed."""
    folder, before = tmp_path_factory.mktemp("session"), os.getcwd()
    write_csv(folder / "my.csv", table())
    (folder / "my_model.py").write_text(MODEL)
    shown = io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(shown):
            line = "sample hmc my_model.py --data my.csv --target price"
            assert main([*line.split(), *TINY]) == 0
    finally:
        os.chdir(before)
    return folder, shown.getvalue()


@pytest.fixture
def own_run(here, first_session):
    """The run of one's own model, to change at will, in the folder it is found in."""
    folder, _ = first_session
    shutil.copytree(folder / "runs", here / "runs")
    run = here / "runs" / "my-my_model" / "run.json"
    run.write_text(run.read_text().replace(str(folder.resolve()), str(here.resolve())))
    return "runs/my-my_model"


@pytest.fixture(scope="session", autouse=True)
def on_path():
    """The program is on PATH, as in an activated environment: its name is what to type."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        yield
