"""Sections on the training rows: what they say, and when they are left out."""

import re

import numpy as np
import pytest
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl.report.parts import subject as subject_module
from bayesnn_ppl.report.parts.markup import number
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.sections.training_rows import (
    _pit_sentence,
    leave_one_out_section,
    predictive_check_section,
    prior_sensitivity_section,
)
from tests.metrics.linear_draws import exact_posterior

SECTIONS = (predictive_check_section, leave_one_out_section, prior_sensitivity_section)


def plain(html):
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", html))


@pytest.fixture(scope="module")
def subject(posteriors, data):
    return Subject("run", "run0", posteriors["NUTS"], train=tuple(data.train))


def test_leave_one_out_says_what_the_library_says(subject, posteriors):
    html = leave_one_out_section(subject)
    words = plain(html)
    found = bnn.metrics.loo(posteriors["NUTS"])
    assert f"elpd {number(found.elpd)}" in words and f"p_loo {number(found.p_loo)}" in words
    assert f"between 0.5 and {found.threshold:.2f}" in words and "LOO-PIT" in html


def test_the_predictive_check_is_of_the_data_in_their_units(subject, data):
    words = plain(predictive_check_section(subject))
    y = data.standardisation.undo_y(np.asarray(data.train.y))
    assert f"mean {y.mean():.1f}" in words and f"largest {y.max():.1f}" in words
    low, high = (float(v) for v in re.search(r"mean [\d.]+ ([\d.]+) ([\d.]+)", words).groups())
    assert low < y.mean() < high


def test_a_prior_that_the_data_contradict_is_seen(subject):
    calm = plain(prior_sensitivity_section(subject))
    assert "noise_scale" in calm and "mean at row 0" in calm
    generator = np.random.default_rng(0)
    x = generator.normal(size=(30, 1)).astype(np.float32)
    y = (20 * x[:, 0] + 20 + generator.normal(size=30)).astype(np.float32)
    with pytest.warns(UserWarning, match="hardly reaches the targets"):
        run = bnn.sample(
            NUTS(bnn.models.linear(likelihood=bnn.likelihoods.gaussian(1.0))),
            *(x, y),
            warmup=200,
            draws=200,
            chains=2,
            progress=False,
        )
    torn = plain(prior_sensitivity_section(Subject("torn", "torn", run, train=(x, y))))
    counts = [int(re.search(r"(\d+) of \d+ quantities move", t)[1]) for t in (calm, torn)]
    assert counts[0] < 4 < 8 < counts[1] and "by prior and data" in torn


@pytest.mark.check
def test_labels_have_counts_and_no_transforms():
    wine = bnn.data.load("wine")
    run = bnn.sample(
        NUTS(bnn.models.logistic(classes=3)),
        *wine.train,
        warmup=50,
        draws=50,
        chains=2,
        seed=0,
        progress=False,
    )
    subject = Subject("wine", "wine", run, train=tuple(wine.train))
    words = plain(predictive_check_section(subject))
    assert f"class observed 5 % 95 % interval {wine.class_names[0]} 56" in words
    found = leave_one_out_section(subject)
    assert "elpd" in found and "no LOO-PIT, for classes have no order" in found
    assert "probability at row 0, class 2" in plain(prior_sensitivity_section(subject))


@pytest.mark.check
def test_tempered_draws_raise_no_warning_and_are_weighted_rightly(data):
    cold = bnn.sample(
        NUTS(bnn.models.linear(temperature=0.25)),
        *data.train,
        warmup=50,
        draws=50,
        chains=2,
        seed=0,
        progress=False,
    )
    subject = Subject("cold", "cold", cold, train=tuple(data.train))
    assert "which the weights take back" in leave_one_out_section(subject)
    assert prior_sensitivity_section(subject)
    group = subject.training.tree["log_likelihood"]
    assert group.attrs["tempered"] == 0 and group.attrs["temperature"] == 0.25


def test_chains_that_do_not_move_break_no_page(regression):
    stuck = exact_posterior(*regression, shape=(2, 40))
    for array in stuck.tree["posterior"].data_vars.values():
        array.values[:] = array.values[:1, :1]
    subject = Subject("stuck", "stuck", stuck, train=regression)
    assert "elpd" in leave_one_out_section(subject) and predictive_check_section(subject)
    words = plain(prior_sensitivity_section(subject))
    assert "could not be computed" in words or "not finite" in words


def test_a_sentence_says_why_there_is_nothing(posteriors, data, monkeypatch):
    train = tuple(data.train)
    bare = bnn.Posterior(posteriors["NUTS"].tree)
    for left_out, reason in (
        (Subject("no rows", "a", posteriors["NUTS"]), "the training rows are not at hand"),
        (Subject("no model", "b", bare, train=train), "the model is not at hand"),
        (
            Subject("other", "e", posteriors["NUTS"], train=(train[0][:9], train[1][:9])),
            "not the data of the run",
        ),
    ):
        assert all(reason in plain(made(left_out)) for made in SECTIONS)
        assert not left_out.remarks
    monkeypatch.setattr(subject_module, "_MOST_VALUES", 1000)
    large = Subject("large", "d", posteriors["NUTS"], train=train)
    assert all("would take too long" in plain(made(large)) for made in SECTIONS)


def test_of_a_fit_only_the_predictive_check_is_shown(posteriors, data):
    fit = Subject("fit", "c", posteriors["Laplace <b>"], train=tuple(data.train))
    check, left, sensitivity = (plain(made(fit)) for made in SECTIONS)
    assert "standard deviation" in check and "of the observed targets" in check
    assert "could not be computed" in left and "approximation" in left
    assert "the draws are of an approximation" in sensitivity


def test_a_point_makes_no_intervals(data):
    point = bnn.fit(bnn.approximations.MAP(bnn.models.linear(), epochs=1), *data.train)
    said = plain(predictive_check_section(Subject("MAP", "g", point, train=tuple(data.train))))
    assert "intervals need 20 draws or more, and there is 1." in said


def test_many_draws_are_thinned(posteriors, data, monkeypatch):
    rows = len(data.train.x)
    monkeypatch.setattr(subject_module, "_MOST_VALUES", 150 * rows)
    subject = Subject("many", "f", posteriors["NUTS"], train=tuple(data.train))
    assert posteriors["NUTS"].draws["noise_scale"].size == 400
    assert f"importance sampling, 132 draws, {rows} rows" in plain(leave_one_out_section(subject))


@pytest.mark.parametrize(
    "power, words",
    [
        (1.0, "stays inside its 95 % band"),
        (2.0, "too many rows lie in one tail, so the predictions are too high"),
        (0.5, "too many rows lie in one tail, so the predictions are too low"),
    ],
)
def test_what_a_pit_says(power, words):
    assert words in _pit_sentence((np.arange(300) + 0.5) ** power / 300**power)


def test_what_a_pit_says_of_spread():
    even = (np.arange(300) + 0.5) / 300
    narrow, wide = 0.5 - 0.5 * np.cos(np.pi * even), np.arccos(1 - 2 * even) / np.pi
    assert "so the predictions are too narrow" in _pit_sentence(narrow)
    assert "so the predictions are too wide" in _pit_sentence(wide)
