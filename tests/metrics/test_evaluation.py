"""`evaluate` on predictions whose scores are known, and its table."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayesnn_ppl as bnn
from bayesnn_ppl.metrics import evaluate, mutual_information, predictive_entropy

SCALE, OFFSET = 3.0, 10.0


class Gaussians:
    """Draws of N(mean_s, 1) in training units, shown in data units as a Prediction shows them."""

    task = "regression"

    def __init__(self, means):
        self.components = OFFSET + SCALE * means
        self.mean = self.components.mean(axis=0)
        self.variance = SCALE**2 + self.components.var(axis=0)

    def y(self, y):
        return OFFSET + SCALE * np.asarray(y)

    def samples(self, n, seed=0):
        rng = np.random.default_rng(seed)
        chosen = self.components[rng.integers(0, len(self.components), size=n)]
        return chosen + SCALE * rng.normal(size=chosen.shape)

    def quantile(self, q):
        return np.quantile(self.samples(20_000, seed=1), q, axis=0)

    def log_prob(self, y):
        each = stats.norm.logpdf(self.y(y), self.components, SCALE)
        joint = each.reshape(*each.shape[:2], -1).sum(axis=-1)
        return logsumexp(joint, axis=0) - np.log(len(joint))


def posterior(prediction):
    return SimpleNamespace(predict=lambda x: prediction)


@pytest.fixture
def regression():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=300)
    prediction = Gaussians(truth + 0.1 * rng.normal(size=(8, 300)))
    return posterior(prediction), rng.normal(size=(300, 2)), truth + rng.normal(size=300)


def test_regression_in_data_units(regression):
    found = evaluate(*regression)
    assert list(found) == [
        "rmse",
        "nll_mixture",
        "nll_moment_matched",
        "crps",
        "aurc",
        "excess_aurc",
        "coverage_50",
        "width_50",
        "coverage_90",
        "width_90",
        "coverage_95",
        "width_95",
    ]
    assert found["rmse"] == pytest.approx(SCALE, rel=0.1)
    entropy = np.log(SCALE) + 0.5 * np.log(2 * np.pi * np.e)
    assert found["nll_mixture"] == pytest.approx(entropy, abs=0.12)
    assert found["nll_moment_matched"] == pytest.approx(found["nll_mixture"], abs=0.01)
    assert found["crps"] == pytest.approx(SCALE / np.sqrt(np.pi), rel=0.1)
    for level in (0.5, 0.9, 0.95):
        spread = np.sqrt(level * (1 - level) / 300)
        assert abs(found[f"coverage_{100 * level:g}"] - level) < 4 * spread
        width = 2 * SCALE * stats.norm.ppf((1 + level) / 2)
        assert found[f"width_{100 * level:g}"] == pytest.approx(width, rel=0.05)


def test_wrong_predictions_score_worse(regression):
    """Negative control: predictions that do not follow y are seen by every score."""
    _, x, y = regression
    good, bad = evaluate(*regression), evaluate(posterior(Gaussians(np.zeros((8, 300)) + 2)), x, y)
    for score in ("rmse", "nll_mixture", "nll_moment_matched", "crps"):
        assert bad[score] > good[score] + 0.3
    assert bad["coverage_90"] < good["coverage_90"] - 0.1


def test_images_average_over_pixels_but_mixture_is_joint():
    rng = np.random.default_rng(1)
    y = rng.normal(size=(20, 3, 2))
    prediction = Gaussians(np.zeros((4, 20, 3, 2)))
    found = evaluate(posterior(prediction), np.zeros((20, 1)), y, intervals=[0.9])
    single = -stats.norm.logpdf(SCALE * y, 0, SCALE).mean()
    assert found["nll_moment_matched"] == pytest.approx(single)
    assert found["nll_mixture"] == pytest.approx(6 * single)
    assert found["coverage_90"] == pytest.approx(0.9, abs=0.11)


@pytest.fixture
def classification():
    rng = np.random.default_rng(2)
    draws = rng.dirichlet(np.ones(3), size=(5, 200))
    p = draws.mean(axis=0)
    y = np.array([rng.choice(3, p=row) for row in p])
    prediction = SimpleNamespace(
        task="classification",
        probabilities=p,
        entropy=predictive_entropy(draws),
        mutual_information=mutual_information(draws),
    )
    return posterior(prediction), np.zeros((200, 2)), y


def test_classification(classification):
    found = evaluate(*classification)
    p, y = classification[0].predict(None).probabilities, classification[2]
    assert list(found) == [
        "accuracy",
        "base_rate",
        "balanced_accuracy",
        "nll",
        "brier",
        "ece_bnn_hmc",
        "ece_tfp",
        "ece_bnn_priors",
        "aurc",
        "excess_aurc",
        "entropy",
        "mutual_information",
    ]
    assert found["accuracy"] == np.mean(p.argmax(-1) == y)
    assert found["nll"] == pytest.approx(-np.mean(np.log(p[np.arange(200), y])))
    assert 0 < found["mutual_information"] < found["entropy"] < np.log(3)


def test_reads_well_and_travels(regression, classification):
    for case in (regression, classification):
        found = evaluate(*case)
        lines = str(found).splitlines()
        of_classes = 1 + len(found.by_class) if found.by_class else 0
        assert len(lines) == 1 + len(found) + of_classes and max(map(len, lines)) <= 88
        ends = {
            line.index(f"{value:.4f}") + len(f"{value:.4f}")
            for line, value in zip(lines[1 : 1 + len(found)], found.values(), strict=True)
        }
        assert len(ends) == 1
        assert json.loads(found.to_json()) == found.to_dict()
    with pytest.raises(TypeError):
        found["accuracy"] = 1.0
    with pytest.raises(AttributeError):
        found.rows = 3


def test_refusals(regression):
    case, x, y = regression
    with pytest.raises(ValueError, match=r"write 0\.95"):
        evaluate(case, x, y, intervals=[95])
    with pytest.raises(ValueError, match="every input needs one target"):
        evaluate(case, x, y[:-1])
    with pytest.raises(ValueError, match="shape it had in training"):
        evaluate(case, x, y[:, None])
    with pytest.raises(ValueError, match="two or more"):
        evaluate(case, x, y, samples=1)
    with pytest.raises(ValueError, match="'survival'"):
        evaluate(posterior(SimpleNamespace(task="survival")), x, y)


def test_metrics_do_not_import_jax():
    code = (
        "import sys, bayesnn_ppl.metrics; print([m for m in ('jax', 'pandas', 'arviz') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_label_below_the_smallest_float_has_a_finite_score():
    """Softmax of logits 200 apart is 0 in single precision, and its log is not."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 2)).astype(np.float32), np.arange(30, dtype=np.int32) % 3
    kernel = (300 * rng.normal(size=(1, 4, 2, 3))).astype(np.float32)
    draws = {"net/Dense_0.kernel": kernel, "net/Dense_0.bias": np.zeros((1, 4, 3), np.float32)}
    run = {"latents": list(draws), "precision": "float32", "local": [], "input_shape": [2]}
    made = bnn.Posterior.from_arrays(
        draws,
        {"lp": np.zeros((1, 4))},
        run,
        model=bnn.models.linear(likelihood=bnn.likelihoods.categorical(3)),
    )
    logits = np.einsum("ni,sik->snk", x.astype(float), kernel[0].astype(float))
    log_p = (logits - logsumexp(logits, axis=-1, keepdims=True))[:, np.arange(30), y]
    expected = -(logsumexp(log_p, axis=0) - np.log(4)).mean()
    assert (made.predict(x).probabilities[np.arange(30), y] == 0).any()
    assert evaluate(made, x, y)["nll"] == pytest.approx(expected, rel=1e-5)
    lines = bnn.metrics.compare({"a": made, "b": made}, x, y, diagnose=False).lines
    assert lines["a"]["nll"] == pytest.approx(expected, rel=1e-5)
