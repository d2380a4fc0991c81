"""`bayesnn sample`: what is drawn, where it goes and what is said."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.cli import main
from bayesnn_ppl.core.identity import describe
from bayesnn_ppl.settings import sampling
from bayesnn_ppl.settings.declaring import given
from bayesnn_ppl.settings.models import zoo
from bayesnn_ppl.settings.saved.run_file import default_folder
from tests.cli.conftest import TINY, sample_job, table, write_csv


def test_a_run_without_weights_is_diagnosed_scored_and_resumed(tmp_path, capsys):
    run = tmp_path / "run"
    line = f"sample hmc linear --keep functions --probe-rows 12 --tensorboard --out {run} --quiet"
    assert main([*line.split(), *TINY]) == 0
    shown = capsys.readouterr().out
    assert "Diagnosis" in shown and "Regression, 12 rows" in shown
    posterior = bnn.load(run)
    assert not posterior.has_weights and len(posterior.probe[0]) == 12
    scores = json.loads((run / "metrics.json").read_text())
    assert scores == pytest.approx(bnn.metrics.evaluate(posterior).to_dict())
    events = next((run / "tensorboard").iterdir())
    before = events.stat().st_size
    assert main(["extend", str(run), "--draws", "5", "--quiet"]) == 0
    assert len(list((run / "tensorboard").iterdir())) >= 1 and before > 0
    assert bnn.load(run).provenance["draws"] == 25
    capsys.readouterr()
    assert main(["evaluate", str(run)]) == 0
    assert "12 test rows of diabetes that the run kept" in capsys.readouterr().out
    assert main(["predict", str(run)]) == 1
    refused = capsys.readouterr().err
    assert "kept no weights" in refused and "Computing" not in refused


def test_weights_of_few_draws_are_judged_by_the_functions_of_all(tmp_path, capsys):
    run = tmp_path / "run"
    line = f"sample hmc linear --keep-every 10 --probe-rows 12 --out {run} --quiet --json"
    assert main([*line.split(), *TINY]) == 0
    judged = json.loads(capsys.readouterr().out)["diagnosis"]
    assert judged == json.loads(bnn.load(run).diagnose().to_json())
    assert judged["sampler"]["draws"] == judged["sampler"]["recorded_draws"] == 20
    assert main(["diagnose", str(run), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == judged and "Computing" not in shown.err
    assert main(["evaluate", str(run)]) == main(["predict", str(run)]) == 0
    assert capsys.readouterr().err.count("Computing what 2 × 2 draws predict") == 2
    assert main(["diagnose", str(run), "--data", "diabetes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sampler"]["draws"] == 2


def test_few_kept_weights_without_an_accept_step_are_judged_with_temperatures(tmp_path, capsys):
    run = tmp_path / "run"
    line = f"sample sgld linear --batch-size 64 --keep-every 5 --probe-rows 12 --out {run} --quiet"
    how = "--step-size 1e-4 --warmup 20 --draws 20 --chains 2"
    assert main([*line.split(), *how.split()]) == 0
    assert "temperatures" in capsys.readouterr().out
    assert main(["diagnose", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sampler"]["draws"] == 20 and found["temperatures"] is not None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--draws 20 --keep-every 50", "makes 20, so none would be kept"),
        ("--keep functions --probe-rows 0", "--probe-rows 0"),
        ("--keep moments --keep-every 2", "keeps none"),
        ("--keep some", "--keep"),
        ("--keep moments --keep-groups log_prior", "--keep-groups are made from the weights"),
        ("--keep-groups log_priors", "Did you mean `log_prior`"),
    ],
)
def test_contradictions_about_what_is_kept(line, words, tmp_path, capsys):
    assert main(["sample", "linear", "--out", str(tmp_path / "run"), *line.split()]) in (1, 2)
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_targets_can_stay_as_they_are(tmp_path, capsys):
    """For models of positive numbers, in a shell as in Python, and the run remembers it."""
    (tmp_path / "times.py").write_text(
        "import numpyro, numpyro.distributions as dist\n"
        "def model(x, y=None, *, batch_size=None):\n"
        "    scale = numpyro.sample('scale', dist.LogNormal(5.0, 1.0))\n"
        "    with numpyro.plate('data', x.shape[0]):\n"
        "        numpyro.sample('y', dist.Exponential(1 / scale), obs=y)\n"
    )
    line = f"sample hmc {tmp_path / 'times.py'} --out {tmp_path / 'run'} --quiet"
    assert main([*line.split(), *TINY]) == 1
    assert "`--standardise inputs`" in capsys.readouterr().err
    assert main([*line.split(), "--standardise", "inputs", *TINY]) == 0
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["data"]["standardise"] == "inputs"
    assert bnn.load(tmp_path / "run").standardisation["y_scale"] == 1.0


def test_groups_for_arviz_are_kept(tmp_path, capsys):
    assert sampling.GROUPS == storage.GROUPS
    run = tmp_path / "run"
    line = f"sample hmc linear --keep-groups log_likelihood,observed_data --out {run} --quiet"
    assert main([*line.split(), *TINY]) == 0
    tree = bnn.load(run).tree
    assert {"log_likelihood", "observed_data"} < set(tree) and "log_prior" not in tree
    assert tree["log_likelihood"]["y"].shape == (2, 20, 398)


def test_a_run_holds_what_rebuilds_it(linear_run):
    assert {path.name for path in linear_run.iterdir()} == {
        "posterior.zarr",
        "journal",
        "checkpoint",
        "commit.json",
        "config.json",
        "diagnosis.json",
        "lock",
        "metrics.csv",
        "metrics.json",
        "probe.npz",
        "run.json",
        "starts.npz",
    }
    run = json.loads((linear_run / "run.json").read_text())
    assert run["model"] == {"zoo": "linear", "options": {}}
    assert run["data"] == {"name": "diabetes", "split": 0}
    assert run["data_sha256"] == bnn.data.load("diabetes").sha256
    assert bnn.load(linear_run).draws["noise_scale"].shape == (2, 20)


def test_names_the_folder_and_the_next_step(first_session):
    _, shown = first_session
    assert shown.startswith("Saved in runs/my-my_model\n")
    assert "Diagnosis" in shown and "rmse" in shown
    run = "runs/my-my_model --model my_model.py"
    assert f"bayesnn predict {run} --out predictions.csv" in shown
    assert max(map(len, shown.splitlines())) <= 88


def test_next_steps_work(own_run, first_session, here):
    steps = first_session[1].split("What to type next\n")[1].splitlines()
    assert [step.split()[1] for step in steps] == ["report", "predict", "evaluate", "diagnose"]
    for step in steps:
        assert main(step.split()[1:]) == 0
    assert (here / "predictions.csv").read_text().count("\n") == 1 + 4


def test_a_taken_folder_is_left_alone(own_run, here):
    assert str(default_folder("my", "my_model")) == "runs/my-my_model-2"
    (here / "runs" / "my-my_model-2").mkdir()
    assert str(default_folder("my", "my_model")) == "runs/my-my_model-2", "It is empty."
    (here / "runs" / "my-my_model-2").rmdir()
    (here / "runs" / "my-my_model-2").write_text("a file")
    assert str(default_folder("my", "my_model")) == "runs/my-my_model-3"


def test_json(here, capsys):
    argv = ["sample", "hmc", "linear", "--out", "r", "--json", "--no-diagnose", "--quiet", *TINY]
    assert main(argv) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["folder"] == "r" and result["draws"] == 20
    assert result["diagnosis"] is None
    assert result["scores"]["rows"] == 44 and result["scores"]["rmse"] > 0


def test_the_same_as_from_python(linear_run):
    kernel = bnn.kernels.HMC(bnn.models.linear(), num_leapfrogs=3, mass="diagonal")
    train = bnn.data.load("diabetes").train
    posterior = bnn.sample(kernel, *train, warmup=20, draws=20, chains=2, progress=False)
    stored = bnn.load(linear_run).draws
    for name, draws in posterior.draws.items():
        assert np.array_equal(stored[name], draws)


def test_a_failed_diagnosis_does_not_cost_the_draws(here, capsys, monkeypatch):
    def fail(*args, **options):
        raise ValueError("No diagnosis today.")

    monkeypatch.setattr(bnn.Posterior, "diagnose", fail)
    assert main(["sample", "hmc", "linear", "--out", "r", "--quiet", *TINY]) == 1
    assert "saved in r" in capsys.readouterr().err
    assert bnn.load(here / "r").draws and (here / "r" / "run.json").exists()


@pytest.fixture
def own_model_on_an_ensemble(here):
    line = (
        "sample hmc my_model.py --data my.csv --target price --init ensemble --out r --no-diagnose"
    )
    assert main([*line.split(), "--quiet", *TINY]) == 0
    return here / "r"


def test_model_options_reach_the_model():
    for name, line, expected in (
        ("mlp", "", bnn.models.mlp()),
        (
            "mlp",
            "--hidden 3,2 --activation relu --temperature 0.5 --noise-scale 0.2",
            bnn.models.mlp(
                hidden=(3, 2),
                activation="relu",
                temperature=0.5,
                likelihood=bnn.likelihoods.gaussian(0.2),
            ),
        ),
        (
            "mlp",
            "--likelihood heteroscedastic --prior-scale 0.3",
            bnn.models.mlp(
                likelihood=bnn.likelihoods.heteroscedastic(), prior=bnn.priors.normal(0.3)
            ),
        ),
        (
            "mlp_regression_small",
            "--prior-variance 0.25",
            bnn.models.mlp_regression_small(prior=bnn.priors.normal(0.5)),
        ),
    ):
        built = zoo.build(name, given(sample_job(line).zoo), task="regression", classes=None)
        assert describe(built) == describe(expected)


def test_an_ensemble_is_where_chains_start(own_model_on_an_ensemble, capsys):
    folder = own_model_on_an_ensemble
    start = json.loads((folder / "config.json").read_text())["start"]
    assert start["method"] == "Ensemble" and len(start["best_epochs"]) == 2
    assert json.loads((folder / "run.json").read_text())["kernel"]["kernel"] == "hmc"
    assert main(["extend", str(folder), "--draws", "5", "--quiet", "--model", "my_model.py"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "25 draws per chain" in shown
    assert "2 chains, starts not known" not in shown and "exploration" in shown


def test_the_initialisers_of_the_network_are_where_chains_start(here):
    line = "sample hmc linear --init network --out r --no-diagnose --quiet"
    assert main([*line.split(), *TINY]) == 0
    assert json.loads((here / "r" / "config.json").read_text())["start"] == "network"


def test_samplers_and_approximations_begin_at_a_run(here):
    line = "fit map mlp --hidden 3 --data my.csv --target price --epochs 3 --out trained --quiet"
    assert main(line.split()) == 0
    trained = bnn.load(here / "trained").draws
    line = "mlp --hidden 3 --data my.csv --target price --no-diagnose --quiet --out"
    assert (
        main(
            f"sample sgld {line} r --init trained --step-size 1e-12 --batch-size 9".split()
            + TINY[2:]
        )
        == 0
    )
    sampled = bnn.load(here / "r")
    assert sampled.provenance["start"]["given"] == "MAP"
    for name, draws in sampled.draws.items():
        np.testing.assert_allclose(draws[:, 0], trained[name][[0, 0], 0], atol=1e-3)
    assert main(f"fit laplace {line} l --mode trained --draws 3".split()) == 0
    found = json.loads((here / "l" / "config.json").read_text())["approximation"]
    assert found["mode"]["given"] == "MAP"


def test_the_data_choose_likelihood_and_classes():
    model = zoo.build("mlp", {}, task="classification", classes=3)
    assert model.likelihood == bnn.likelihoods.categorical(3)
    model = zoo.build("mlp", {"likelihood": "bernoulli"}, task="classification", classes=2)
    assert model.likelihood == bnn.likelihoods.bernoulli()
    assert zoo.build("logistic", {}, task="classification", classes=4).network.outputs == 4


@pytest.mark.parametrize(
    ("setup", "wanted", "expected"),
    [
        ("", None, 2),
        ("", 3, 3),
        ("jax.config.update('jax_num_cpu_devices', 5)", None, 5),
        ("jax.devices()", None, 1),
    ],
)
def test_cpu_devices(setup, wanted, expected):
    code = (
        "import os, jax\n"
        "os.process_cpu_count = lambda: 2\n"
        "from bayesnn_ppl.settings.devices import prepare_devices\n"
        f"{setup}\n"
        f"prepare_devices(4, {wanted})\n"
        "print(jax.device_count())\n"
    )
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.stdout == f"{expected}\n", done.stderr


def test_options_reach_the_sampler(wine_run):
    config = json.loads((wine_run / "config.json").read_text())
    assert config["posterior_temperature"] == 0.5
    assert config["devices"]["mesh"] == {"chain": 1, "data": 1}
    assert config["kernel"] == "HMC" and config["kernel_settings"]["num_leapfrogs"] == 3
    assert config["seed"] == 3 and config["chains"] == 2 and config["warmup"] == 20


def test_all_rows_of_a_table_may_train(here, capsys):
    """Then there is nothing to score it by, and the training rows are those that it is judged at.

    A score at training rows must not stand anywhere as one of held-out rows.
    """
    line = "sample hmc linear --data my.csv --target price --test-fraction 0 --out run"
    assert main([*line.split(), *TINY]) == 0
    shown = capsys.readouterr()
    assert "Diagnosis" in shown.out and "Held-out" not in shown.out
    assert not (here / "run" / "metrics.json").exists()
    assert main(["diagnose", "run"]) == 0
    assert main(["predict", "run"]) == 0
    assert len(capsys.readouterr().out.splitlines()[-40:]) == 40
    assert main(["evaluate", "run"]) == 1
    assert "none are left to score it. Give others with --data" in capsys.readouterr().err
    assert main(["evaluate", "run", "--data", "my.csv"]) == 0
    assert main(["report", "run"]) == 0
    page = next(here.glob("**/*.html")).read_text(encoding="utf-8")
    assert "RMSE" not in page and "rmse" not in page


@pytest.mark.parametrize(
    ("likelihood", "target", "observed"),
    [
        ("laplace", "price", "Laplace"),
        ("ordinal", "grade", "CategoricalLogits"),
        pytest.param("student_t", "price", "StudentT", marks=pytest.mark.check),
        pytest.param("log_normal", "cost", "LogNormal", marks=pytest.mark.check),
        pytest.param("mixture_density", "price", "MixtureSameFamily", marks=pytest.mark.check),
        pytest.param(
            "quantile",
            "price",
            "AsymmetricLaplacePseudoLikelihood of InterpolatedQuantiles",
            marks=pytest.mark.check,
        ),
        pytest.param("poisson", "visits", "Poisson", marks=pytest.mark.check),
        pytest.param(
            "negative_binomial", "visits", "NegativeBinomialLogits", marks=pytest.mark.check
        ),
    ],
)
def test_a_likelihood_is_a_word(here, likelihood, target, observed, capsys):
    columns = table()
    columns["visits"] = np.arange(40) % 7
    columns["cost"] = np.exp(columns["price"] / 10)
    columns["grade"] = [("low", "middle", "top")[k % 3] for k in range(40)]
    write_csv(here / "my.csv", {key: columns[key] for key in ("size", "age", target)})
    line = f"sample random-walk mlp --data my.csv --target {target} --likelihood {likelihood}"
    draw = "--hidden 2 --warmup 5 --draws 5 --chains 2 --out run"
    assert main([*line.split(), *draw.split()]) == 0, capsys.readouterr().err
    assert bnn.load(here / "run").provenance["observed"] == observed
    capsys.readouterr()
    assert main(["predict", "run", "--out", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 4
