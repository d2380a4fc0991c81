"""Sentences of the page: well-formed for every kind of run, whatever its name."""

import re

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.report.parts.baselines import Forecast, comparison
from bayesnn_ppl.report.parts.description import method_words, model_words, run_sentence

FAULTS = r"\bthe d\b|\bNone\b|\bnan\b|\(\)|,,| \.(?!\.)|\bthe the\b"


def paragraphs(html):
    """Each paragraph and caption without its marks."""
    html = re.sub(r"<svg.*?</svg>|<pre.*?</pre>|<script.*?</script>", "", html, flags=re.S)
    found = re.findall(r"<(p|figcaption)\b[^>]*>(.*?)</\1>", html, flags=re.S)
    # What begins with the name of an array keeps its small letter.
    found = [p for p in found if "badge" not in p[1] and not p[1].startswith("<code>")]
    plain = [re.sub("<[^>]*>", "", words).strip() for _, words in found]
    return [words for words in plain if words]


@pytest.fixture(scope="session", params=["gap", "surface", "wine", "NUTS", "SGHMC", "Laplace <b>"])
def page_of_one(request, data, posteriors):
    """The page of a run whose name is a letter, as that of a folder may be."""
    if request.param in posteriors:
        pair = data, posteriors[request.param]
    else:
        pair = request.getfixturevalue(request.param)
    dataset, run = pair
    page = bnn.report.page({"d": run}, *dataset.test, train=dataset.train, gradients=20)
    return request.param, page.html


def test_sentences_are_well_formed(page_of_one):
    said = paragraphs(page_of_one[1])
    assert len(said) > 8
    for words in said:
        assert not re.search(FAULTS, words), words
        assert words.endswith((".", ":")), words
        assert words[0].isupper() or not words[0].isalpha() or words.startswith("k"), words


def test_only_samplers_without_an_accept_step_have_temperatures(page_of_one):
    kind, html = page_of_one
    assert ('id="temperatures"' in html) == (kind == "SGHMC")


def test_every_page_has_what_one_looks_for_first(page_of_one):
    kind, html = page_of_one
    titles = re.findall(r'<h2 id="([-\w]+)-title"', html)
    assert titles[:3] == ["verdict", "fitted", "predictions"]
    assert {"scores", "baselines", "training-rows", "leave-one-out", "sensitivity"} <= set(titles)
    assert titles[-1] == "provenance"
    fitted = kind == "Laplace <b>"
    assert [name in titles for name in ("chains", "sampler", "fit")] == [
        not fitted,
        not fitted,
        fitted,
    ]


def test_the_provenance_is_a_table_in_words(page_of_one):
    kind, html = page_of_one
    table = re.search(r"How the run was made</caption>.*?</table>", html, flags=re.S)[0]
    cells = dict(re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', table))
    assert {"model", "data", "method", "seed", "device", "time", "kept", "versions"} <= cells.keys()
    assert "{" not in table and "None" not in table and "training rows" in cells["data"]
    assert "jax " in cells["versions"] and cells["kept"].startswith("the weights of all draws")
    folded = re.search(r"<summary>Everything that was recorded, as JSON</summary>", html)
    assert folded is not None


def test_a_run_in_a_sentence(data, posteriors, gap):
    assert run_sentence(gap[1].provenance, held_out=100) == (
        "A Bayesian MLP with one hidden layer of 16 tanh units, prior fan-in normal and likelihood "
        "gaussian, on gap: 100 training rows × 1 input, target y. HMC, 2 chains × 20 draws after "
        "20 of warm-up, judged at 100 held-out rows."
    )
    fit = run_sentence(posteriors["Laplace <b>"].provenance)
    assert fit.startswith("A Bayesian linear model for regression, prior normal")
    assert "398 training rows × 10 inputs, target disease progression. Fitted by Laplace" in fit


@pytest.mark.parametrize(
    "described, words",
    [
        (
            "BayesianNetwork(network=MLP(hidden=(8, 4), activation='relu'))",
            "layers of 8 and 4 relu",
        ),
        (
            "BayesianNetwork(network=MLP(hidden=(8, 8, 8), activation='relu'))",
            "three hidden layers",
        ),
        ("BayesianNetwork(network=ResNet(blocks=3))", "A Bayesian network `ResNet`"),
        ("my_model in file.py, sha256 12ab", "A NumPyro model"),
        ("f(", "A NumPyro model"),
    ],
)
def test_models_in_words(described, words):
    assert words in model_words(described)


def test_methods_in_words():
    run = {"kernel": "NUTS", "chains": 1, "draws": 10, "warmup": 0}
    assert method_words(run) == "NUTS, 1 chain × 10 draws"
    fit = run | {"kernel": "MAP", "approximation": {}, "chains": 2, "draws": 1}
    assert method_words(fit) == "Fitted by MAP, 2 fits × 1 draw"


def test_a_run_is_not_called_by_the_name_of_its_folder():
    y = np.arange(5.0)
    first, second = (
        Forecast(name, y + shift, y - 1, y + 1, np.full(5, shift))
        for name, shift in (("d", 0.5), ("linear regression", 0.2))
    )
    words = comparison(first, second, y, called="this run")
    assert "the squared error of this run lies" in words
    assert "that of the linear regression, and its NLL" in words


def test_several_runs_stay_side_by_side(page):
    html = page.html
    assert 'class="half"' not in html and html.count('<article aria-label="NUTS">') > 8
    assert all(words[0] != " " for words in paragraphs(html))
