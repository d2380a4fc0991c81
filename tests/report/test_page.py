"""The report of a run as a file: what it holds, what it may not hold, and how large it is."""

import html.parser
import re

import numpy as np
import pytest

import bayesnn_ppl as bnn


class Outline(html.parser.HTMLParser):
    """Identifiers, links, images and words of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.labels, self.open = [], [], [], []
        self.words, self.ignored = [], 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if "id" in found:
            self.ids.append(found["id"])
        for name in ("href", "src"):
            if found.get(name):
                self.links.append(found[name])
        if tag == "svg":
            self.labels.append(found.get("aria-label"))
        self.ignored += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.ignored -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.ignored:
            self.words.append(data)


def test_the_page_stands_alone_and_holds_together(page):
    outline = Outline(page.html)
    assert len(outline.ids) == len(set(outline.ids)), "every identifier is unique"
    local = [link for link in outline.links if link.startswith("#")]
    assert {link[1:] for link in local} <= set(outline.ids)
    assert [link for link in outline.links if not link.startswith(("#", "data:"))] == []
    assert not re.search(r"url\((?!#)|@import|https?://(?!www\.w3\.org)", page.html)
    assert outline.labels and all(outline.labels), "every drawing says what it shows"
    for reference in re.findall(r"url\(#([^)]+)\)", page.html):
        assert reference in outline.ids


def test_the_verdict_comes_first_and_every_part_is_there(page, posteriors, data):
    titles = re.findall(r'<h2 id="(\w+)-title"', page.html)
    assert titles[:3] == ["overview", "verdict", "comparison"]
    assert set(titles) >= {"fitted", "predictions", "scores", "baselines", "chains", "sampler"}
    assert set(titles) >= {"functions", "temperatures", "weights", "provenance"}
    assert page.statuses.keys() == posteriors.keys()
    expected = posteriors["NUTS"].diagnose(data.test.x).status
    assert page.statuses["NUTS"] == expected and page.statuses["Laplace <b>"] == "fitted"
    words = " ".join(Outline(page.html).words)
    assert "bayesnn sample linear --data diabetes" in words
    assert "a & b" in words and "Laplace <b>" in words and "Laplace <b>" not in page.html
    assert "linear regression" in words and "kinetic" in words
    assert "bnn.approximations.Laplace(model" in words


def test_its_numbers_are_those_of_the_library(page, posteriors, data):
    scores = bnn.metrics.evaluate(posteriors["NUTS"], *data.test)
    diagnosis = posteriors["NUTS"].diagnose(data.test.x)
    words = " ".join(Outline(page.html).words)
    assert f"{scores['rmse']:.2f}" in words
    curve = bnn.metrics.evaluate_referral(posteriors["NUTS"], *data.test)
    rule = curve.refer(0.2)
    area = f"area under the curve is {curve.aurc:.0f}, which is {curve.excess_aurc:.0f} above"
    assert area in page.html
    assert re.search(rf"18\.1\s%\s+{rule.threshold:.0f}\s+{rule.risk:.0f}\b", words), "8 of 44 rows"
    assert f"{diagnosis.functions['mean']['rhat_max']:.3f}" in words
    y = posteriors["NUTS"].predict(data.test.x).y(data.test.y)
    titles = re.findall(r"row (\d+): observed ([\d.e+]+),", page.html)
    assert len(titles) == 3 * len(y)
    assert all(float(value) == pytest.approx(y[int(row)], rel=1e-3) for row, value in titles)


def test_colours_follow_the_theme(page):
    drawings = re.findall(r"<svg.*?</svg>", page.html, flags=re.DOTALL)
    assert drawings
    for drawing in drawings:
        assert "#0072b2" not in drawing and "stroke: #000000" not in drawing
    assert "var(--c0)" in page.html and 'class="chain-1"' in page.html


def test_of_a_probe_without_model_or_weights(data):
    model = bnn.models.linear()
    kernel = bnn.kernels.HMC(model, num_leapfrogs=5)
    keep = bnn.Keep(weights="none", probe=data.test)
    run = bnn.sample(
        kernel, *data.train, warmup=30, draws=30, chains=2, keep=keep, seed=0, progress=False
    )
    run.model = None
    words = " ".join(Outline(bnn.report.page(run).html).words)
    assert "Scores on 44 held-out rows" in words and "Convergence of the weights" not in words


def test_labels(data):
    wine = bnn.data.load("wine")
    fit = bnn.fit(
        bnn.approximations.MAP(bnn.models.logistic(classes=3), epochs=20),
        *wine.train,
        progress=False,
    )
    names = {"run": {"classes": ["barolo", "grignolino", "barbera"]}}
    page = bnn.report.page(fit, *wine.test, train=wine.train, words=names)
    words = " ".join(Outline(page.html).words)
    assert "share of the most frequent label" in words and "balanced_accuracy" in words
    assert re.search(
        r"Class by class\s+class recall precision rows\s+barolo \S+\s% \S+\s% \d+", words
    )
    assert "logistic regression" in words and "shares of the classes" in words
    assert "How often each class" in words and "Reliability" in words
    assert "Share of wrong labels of the most certain rows" in page.html


@pytest.mark.check
def test_ten_thousand_weights_are_below_eight_megabytes(large):
    posterior, x, y = large
    weights = sum(np.prod(a.shape[2:], dtype=int) for a in posterior.draws.values())
    assert weights >= 10_000 and posterior.draws["noise_scale"].shape == (4, 1000)
    made = bnn.report.page(posterior, x[:20], y[:20], train=(x, y), gradients=0)
    assert len(made.html.encode()) < 8e6


def test_what_is_refused(posteriors, data, tmp_path):
    with pytest.raises(ValueError, match="There is no posterior"):
        bnn.report.page({})
    with pytest.raises(TypeError, match="is about what `sample`, `fit` or `load` returned"):
        bnn.report.page({"a": 3})
    with pytest.raises(ValueError, match="both, or neither"):
        bnn.report.page(posteriors["NUTS"], data.test.x)
    with pytest.raises(ValueError, match="which is not one of NUTS"):
        bnn.report.page(posteriors, reference="HMC")
    with pytest.raises(FileNotFoundError, match="Make it first"):
        bnn.report.Page("", {}).save(tmp_path / "nowhere" / "page.html")
