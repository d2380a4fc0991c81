"""What is drawn of the fitted functions, by the number of inputs and the task."""

import re

import flax.linen as nn
import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.report.parts import effects
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.sections.fitted_functions import fitted_functions_section
from tests.report.conftest import QUICK


class Flat(nn.Module):
    """A linear network of images."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(x.reshape(len(x), -1))


def subject_of(pair, *, train=True):
    data, run = pair
    rows = {"x": data.test.x, "y": data.test.y}
    return Subject("run", "run0", run, **rows, train=tuple(data.train) if train else None)


def drawings(html):
    return re.findall(r'<figure id="([^"]+)"', html)


def words_of(html):
    return re.sub(
        r"\s+", " ", re.sub("<[^>]*>", " ", re.sub("<svg.*?</svg>", "", html, flags=re.S))
    )


def test_one_input_is_a_curve_in_the_units_of_the_data(gap):
    html = fitted_functions_section(subject_of(gap))
    assert drawings(html) == ["run0-fitted", "run0-fitted-draws"]
    assert "training data" in html and "interval of the function" in html
    known, unknown = map(float, re.findall(r"x0 = (-?[\d.]+)", words_of(html)))
    x = gap[0].standardisation.undo_x(gap[0].train.x)
    margin = 0.11 * (x.max() - x.min())
    for place in (known, unknown):
        assert x.min() - margin < place < x.max() + margin


def test_two_inputs_are_maps_of_mean_and_spread(surface):
    html = fitted_functions_section(subject_of(surface))
    assert drawings(html) == ["run0-fitted-0", "run0-fitted-1"]
    assert "Mean of" in html and "Standard deviation among the draws" in html
    assert "known best at x0 = " in words_of(html)


def test_of_many_inputs_those_that_matter_are_drawn(wine):
    html = fitted_functions_section(subject_of(wine))
    assert len(drawings(html)) == 6
    assert "the 6 of 13 inputs whose mean curves vary most" in words_of(html)
    assert all(name in html for name in wine[0].class_names)


def test_partial_dependence_is_that_of_a_linear_function(data, posteriors):
    subject = subject_of((data, posteriors["NUTS"]))
    found = effects.influential_effects(subject, 10)
    scale = data.standardisation
    weights = posteriors["NUTS"].draws["net.Dense_0.kernel"][..., 0].mean(axis=(0, 1))
    slopes = dict(zip(data.feature_names, scale.y_scale * weights / scale.x_scale, strict=True))
    spans = []
    for effect in found:
        slope = np.ptp(effect.center) / np.ptp(effect.grid)
        assert slope == pytest.approx(abs(slopes[effect.name]), rel=0.15, abs=0.02)
        assert (effect.lower <= effect.center).all() and (effect.center <= effect.upper).all()
        spans.append(np.ptp(effect.center))
    assert found[0].name in ("bmi", "s1", "s5") and spans[0] > 3 * spans[-1]
    (sex,) = [effect for effect in found if effect.name == "sex"]
    assert sex.discrete and sex.grid == pytest.approx([1, 2], abs=1e-3)


def test_a_run_of_function_values_alone_draws_them_or_says_why_not(gap, data):
    dataset, run = gap
    tree = run.tree.copy()
    del tree["posterior"]
    bare = bnn.Posterior(tree)
    html = fitted_functions_section(Subject("run", "run0", bare))
    assert drawings(html) == ["run0-fitted", "run0-fitted-draws"]
    keep = bnn.Keep(weights="none", probe=data.test)
    kernel = bnn.kernels.HMC(bnn.models.linear(), num_leapfrogs=5)
    many = bnn.sample(kernel, *data.train, keep=keep, **QUICK)
    said = words_of(fitted_functions_section(Subject("many", "run1", many)))
    assert "the run kept no draws of its weights." in said


@pytest.mark.parametrize("inputs, classes", [(1, 2), (1, 3), (2, 3), (2, 2)])
def test_classes_of_one_or_two_inputs(inputs, classes):
    x = np.random.default_rng(0).normal(size=(60, inputs)).astype(np.float32)
    y = np.digitize(x[:, 0], np.linspace(-0.5, 0.5, classes - 1))
    names = [f"kind {k}" for k in "abc"[:classes]]
    data = bnn.data.from_arrays(x, np.array(names)[y], task="classification")
    laplace = bnn.approximations.Laplace(bnn.models.logistic(classes=classes))
    fit = bnn.fit(laplace, *data.train, progress=False)
    html = fitted_functions_section(subject_of((data, fit)))
    assert len(drawings(html)) == 2
    said = "Class probabilities" if inputs == 1 else "known best at x0"
    assert said in html and f"kind {'abc'[classes - 1]}" in html


def test_images_are_shown_by_their_certainty():
    generator = np.random.default_rng(0)
    y = np.arange(40) % 2
    x = generator.normal(size=(40, 6, 6, 1)) + 2 * y[:, None, None, None]
    data = bnn.data.from_arrays(x.astype(np.float32), y, task="classification", test_fraction=0.5)
    model = bnn.bayesian_network(
        Flat(), bnn.priors.normal(1.0), bnn.likelihoods.categorical(classes=2)
    )
    fit = bnn.fit(bnn.approximations.MAP(model, epochs=1), *data.train, progress=False)
    html = fitted_functions_section(subject_of((data, fit)))
    assert drawings(html) == ["run0-images-least", "run0-images-most"]
    assert html.count("data:image/png") == 12 and "The 6 held-out images" in html


def test_a_network_too_large_to_be_asked_is_not(wine, monkeypatch):
    monkeypatch.setattr(effects, "_MOST_PRODUCTS", 1e4)
    assert "would take too long" in words_of(fitted_functions_section(subject_of(wine)))
