"""Recipes: every file translates at every scale, and bad ones are refused in a sentence."""

import os

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.experiments import load_recipe, recipe_names
from bayesnn_ppl.settings.datasets import load_data
from bayesnn_ppl.settings.declaring import given
from bayesnn_ppl.settings.jobs import job_from
from bayesnn_ppl.settings.methods.approximations import chosen_approximation, make_approximation
from bayesnn_ppl.settings.methods.kernels import chosen_kernel, make_kernel
from bayesnn_ppl.settings.models import zoo

# What the data of the recipes are, so that models can be built without them.
CLASSES = {
    "cifar10": 10,
    "cifar100": 100,
    "imdb": 2,
    "mnist": 10,
    "fashion_mnist": 10,
    "digits": 10,
}
# The published figures, once more.
PUBLISHED = {
    "hmc-cifar10": (0.8964, 0.9401, 0.074),
    "sgld-cifar10": (0.8932, 0.9154, 0.110),
    "sghmc-cifar10": (0.8938, 0.9198, 0.109),
    "sghmc-clr-cifar10": (0.8963, 0.9267, 0.099),
    "sghmc-clr-prec-cifar10": (0.8746, 0.9096, 0.111),
    "mfvi-cifar10": (0.8645, 0.8875, 0.136),
    "mile-airfoil": (0.1215, -0.9126),
    "mile-bikesharing": (0.2261, -0.7315),
}


AT_SCALES = [(name, scale) for name in recipe_names() for scale in load_recipe(name).scales]


@pytest.mark.parametrize(("name", "scale"), AT_SCALES)
def test_every_recipe_becomes_a_model_and_a_method(name, scale):
    recipe = load_recipe(name)
    settings = recipe.at(scale)
    job = job_from(recipe.command, settings, name)
    data = job.data.data
    classes = CLASSES.get(data)
    task = "regression" if classes is None else "classification"
    model = zoo.build(job.model, given(job.zoo), task=task, classes=classes)
    if recipe.command == "sample":
        kernel = make_kernel(model, chosen_kernel(job.kernel, job.settings, warmup=job.run.warmup))
        assert kernel.model is model
    else:
        chosen = chosen_approximation(job.approximation, job.settings)
        assert make_approximation(model, chosen).model is model
    if scale == "tiny":
        assert data in ("digits", "diabetes"), "Tiny recipes need no data folder."
    if data in ("cifar10", "imdb") and scale == "full":
        assert job.score.reference == data
    assert recipe.scales[scale].note


@pytest.mark.skipif(not os.environ.get("BAYESNN_DATA"), reason="BAYESNN_DATA is not set")
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in recipe_names()
        # CIFAR-100's file is not among those that CI has.
        if load_recipe(name).at("cpu").get("subset") and "cifar100" not in name
    ],
)
def test_the_rows_of_a_part_have_every_label(name):
    recipe = load_recipe(name)
    job = job_from(recipe.command, recipe.at("cpu"), name)
    dataset, _ = load_data(job.data)
    assert len(np.unique(dataset.train.y)) == CLASSES[job.data.data]


def test_published_figures():
    for name in recipe_names():
        found = tuple(figure.value for figure in load_recipe(name).published)
        assert found == PUBLISHED.get(name, ()), name


def test_published_settings():
    def full(name):
        return load_recipe(name).at("full")

    for name, temperature, length in (
        ("hmc-imdb", 1.0, 0.24),
        ("hmc-imdb-t03", 0.3, 0.136),
        ("hmc-imdb-t01", 0.1, 0.078),
        ("hmc-imdb-t003", 0.03, 0.043),
    ):
        settings = full(name)
        assert settings["posterior_temperature"] == temperature
        assert settings["trajectory_length"] == length
        # Rounded in the README, by the rule (π/2)√(T · prior variance).
        rule = bnn.kernels.izmailov_trajectory(settings["prior_variance"], temperature)
        assert settings["trajectory_length"] == pytest.approx(rule, rel=0.04)
    hmc = full("hmc-cifar10")
    assert round(hmc["trajectory_length"] / hmc["step_size"]) == 70248
    epoch = 40960 // 80
    for name, epochs in (("sgld-cifar10", 10), ("sghmc-cifar10", 10), ("sghmc-clr-cifar10", 50)):
        settings = full(name)
        assert settings["steps_per_draw"] == epochs * epoch
        assert settings["warmup"] * epochs == 1000 and settings["draws"] * epochs == 9000
    assert full("sgd-cifar10")["learning_rate"] == pytest.approx(3e-7 * 40960)
    assert full("sgd-cifar100")["learning_rate"] == pytest.approx(1e-6 * 40960)
    assert full("sgd-imdb")["learning_rate"] == pytest.approx(3e-7 * 20000)
    assert "reference" not in full("sgd-cifar100")


GOOD = """
title = "T"
source = "S"
command = "sample"
[settings]
model = "linear"
[tiny]
note = "n"
[cpu]
note = "n"
[full]
note = "n"
"""


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("title =", "titel ="), r"`titel` in .*means nothing there. Did you mean `title`"),
        (('title = "T"', ""), "lacks `title`, a text in quotes"),
        (('title = "T"', "title = 3"), "`title` in .* must be a text in quotes, not 3"),
        (('"sample"', '"train"'), "`command` in .* must be sample or fit, not `train`"),
        (('"S"', "S"), "cannot be read as TOML"),
        (("[cpu]", "[cpus]"), "Did you mean `cpu`"),
        (('[cpu]\nnote = "n"\n', ""), "lacks `cpu`, a table"),
        (('[cpu]\nnote = "n"\n', "[cpu]\n"), r"\[cpu\] of .* lacks `note`"),
        (('"linear"', "{ a = 1 }"), "`model` in .settings. of .* must be a text, a number"),
        (('"sample"', '"sample"\nextends = "hmc"'), "no recipe `hmc`. Did you mean"),
        (('"sample"', '"sample"\npublished = [{ metric = "nll" }]'), "lacks `value`, a number"),
    ],
)
def test_bad_files_are_refused_in_a_sentence(change, sentence, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    assert load_recipe(str(path)).at("tiny") == {"model": "linear"}
    assert change[0] in GOOD
    path.write_text(GOOD.replace(*change))
    with pytest.raises(ValueError, match=sentence):
        load_recipe(str(path))


def test_a_circle_of_recipes_is_refused(tmp_path):
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    first.write_text(f'extends = "{second}"')
    second.write_text(f'extends = "{first}"')
    with pytest.raises(ValueError, match="extends it in turn"):
        load_recipe(str(first))


def test_names_that_are_none(tmp_path):
    with pytest.raises(ValueError, match="There is no recipe `hmc-imbd`. Did you mean `hmc-imdb`"):
        load_recipe("hmc-imbd")
    with pytest.raises(FileNotFoundError, match="Give the path of a .toml file"):
        load_recipe(str(tmp_path / "none.toml"))
    with pytest.raises(ValueError, match="there are tiny, cpu, overnight, full"):
        load_recipe("hmc-imdb").at("huge")


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("hmc-imdb", {"step_sise": 1.0}, "Here has no setting `step_sise`. Did you mean `step_s"),
        ("hmc-imdb", {"step_size": -1.0}, "Here: .*step.size.* of HMC must be positive"),
        ("hmc-imdb", {"float64": 1}, "true or false"),
        ("hmc-imdb", {"out": "x"}, "no setting `out`"),
        ("sgd-imdb", {"epoch": 3}, "Did you mean `epochs`"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(name, settings, sentence):
    recipe = load_recipe(name)
    with pytest.raises(ValueError, match=sentence):
        job_from(recipe.command, recipe.at("tiny", settings), "Here")
