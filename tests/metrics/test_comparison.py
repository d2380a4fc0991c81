"""`compare`: its numbers are those of `evaluate`, its errors are paired, and it refuses in time."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl import metrics
from bayesnn_ppl.metrics import compare, evaluate
from tests.metrics.linear_draws import NOISE, exact_posterior


@pytest.fixture(scope="module")
def numbers(regression):
    """Three posteriors of one model, trained on 20 rows, and the other 20 to score them."""
    x, y = regression
    train, test = (x[:20], y[:20]), (x[20:], y[20:])
    cases = {
        "bayes": exact_posterior(*train, shape=(4, 250)),
        "cold": exact_posterior(*train, whole=0.01, seed=1, shape=(4, 250)),
        "prior": exact_posterior(
            *train,
            likelihood=1e6,
            seed=2,
            shape=(4, 250),
            chains=4,
            draws=250,
            approximation={"log_evidence": -31.25, "findings": []},
        ),
    }
    return cases, *test


@pytest.fixture(scope="module")
def three(numbers):
    cases, x, y = numbers
    return compare(cases, x, y, reference="bayes")


def test_numbers_are_those_of_evaluate(numbers, three):
    cases, x, y = numbers
    assert three.task == "regression" and three.rows == 20 and three.reference == "bayes"
    for name, posterior in cases.items():
        scores = evaluate(posterior, x, y, reference=cases["bayes"])
        line = three.lines[name]
        assert line["nll"] == pytest.approx(scores["nll_mixture"])
        for column in ("rmse", "crps"):
            assert line[column] == pytest.approx(scores[column])
        assert line["wasserstein"] == pytest.approx(scores["reference_wasserstein"])
        assert line["status"] == posterior.diagnose(x).status
        assert (line["method"], line["seconds"]) == ("Exact", 1.5)
    assert three.lines["bayes"]["wasserstein"] == 0 < three.lines["cold"]["wasserstein"]
    assert three.lines["cold"]["wasserstein"] < three.lines["prior"]["wasserstein"]
    assert [line["log_evidence"] for line in three.lines.values()].count(None) == 2
    assert three.lines["prior"]["log_evidence"] == -31.25


def test_the_best_comes_first_and_differences_are_paired(numbers, three):
    cases, x, y = numbers
    nll = [line["nll"] for line in three.lines.values()]
    assert nll == sorted(nll) and list(three.lines)[-1] == "prior"
    best = next(iter(three.lines))
    scores = {name: cases[name].predict(x).log_prob(y).astype(float) for name in cases}
    for name, line in three.lines.items():
        each = scores[best] - scores[name]
        assert line["nll_difference"] == pytest.approx(each.mean(), abs=1e-9)
        assert line["nll_difference_se"] == pytest.approx(each.std(ddof=1) / np.sqrt(20))
        assert line["nll_se"] == pytest.approx(scores[name].std(ddof=1) / np.sqrt(20))
    close = three.lines["cold" if best == "bayes" else "bayes"]
    # Two nearly equal posteriors: unpaired, their errors add up to more than that of one.
    assert 0 < close["nll_difference_se"] < close["nll_se"] / 2
    assert three.lines[best]["nll_difference_se"] == 0


def test_table_frame_and_json(three):
    lines = str(three).splitlines()
    assert (
        lines[0].startswith("Regression, 20 rows; NLL in nats") and "distances to bayes" in lines[0]
    )
    assert lines[2].split()[:2] == ["NLL", "above"] and "log evidence" in lines[2]
    assert [line.split()[0] for line in lines[3:]] == list(three.lines)
    assert "-31.25" in lines[-1] and len(lines) == 6 and max(map(len, lines)) <= 110
    assert not any(line != line.rstrip() for line in lines)
    frame = three.to_dataframe()
    assert list(frame.index) == list(three.lines) and frame.index.name == "run"
    assert {"nll", "nll_se", "wasserstein", "status"} <= set(frame) and "accuracy" not in frame
    assert json.loads(three.to_json())["runs"]["cold"]["rmse"] == three.lines["cold"]["rmse"]
    page = three._repr_html_()
    assert page.count("<tr") == 4 and "bayes" in page
    short = metrics.Comparison("regression", 2, None, {"<b>": dict.fromkeys(("nll",), 1.0)}, {})
    assert "&lt;b&gt;" in short._repr_html_() and "distances" not in str(short)


def labels(probabilities, **attributes):
    prediction = SimpleNamespace(
        task="classification",
        probabilities=probabilities,
        entropy=np.zeros(len(probabilities)),
        mutual_information=np.zeros(len(probabilities)),
    )
    return SimpleNamespace(predict=lambda x: prediction, **attributes)


def test_labels():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(3), size=(2, 90))
    y = np.array([rng.choice(3, p=row) for row in p])
    found = compare({"q": labels(q), "p": labels(p)}, np.zeros((90, 1)), y, reference=p)
    assert list(found.lines) == ["p", "q"] and found.reference == "the reference"
    scores = evaluate(labels(q), np.zeros((90, 1)), y, reference=p)
    line = found.lines["q"]
    assert line["nll"] == pytest.approx(scores["nll"])
    assert line["accuracy"] == scores["accuracy"] and line["ece_bnn_hmc"] == scores["ece_bnn_hmc"]
    assert line["agreement"] == metrics.agreement(p, q) < 1 == found.lines["p"]["agreement"]
    assert line["total_variation"] == metrics.total_variation(p, q)
    assert "ECE bnn hmc" in str(found) and "seconds" not in str(found)
    tfp = compare({"q": labels(q), "p": labels(p)}, np.zeros((90, 1)), y, variant="tfp")
    assert tfp.lines["q"]["ece_tfp"] == scores["ece_tfp"] and "agreement" not in tfp.columns


def test_a_label_held_impossible_costs_everything_and_comes_last():
    y = np.array([0, 1, 1, 0])
    sure, even = np.eye(2)[[0, 1, 0, 0]], np.full((4, 2), 0.5)
    found = compare({"sure": labels(sure), "even": labels(even)}, np.zeros((4, 1)), y)
    assert list(found.lines) == ["even", "sure"]
    line = found.lines["sure"]
    assert line["nll"] == line["nll_difference"] == np.inf and np.isnan(line["nll_se"])
    assert "inf ± nan" in str(found)
    assert json.loads(found.to_json())["runs"]["sure"]["nll"] is None
    both = compare({"a": labels(sure), "b": labels(sure)}, np.zeros((4, 1)), y)
    assert both.lines["b"]["nll_difference"] == 0


def recorded(posterior, x, y, **groups):
    """What a run keeps at its probe, and neither model nor weights."""
    rng = np.random.default_rng(0)
    mean = posterior.function_values(x)["mean"]
    kept = {
        "mean": mean,
        "sd": np.full_like(mean, NOISE),
        "y": (mean + NOISE * rng.normal(size=mean.shape)).astype(np.float32),
        "log_likelihood": posterior.log_likelihood(x, y),
    }
    return bnn.Posterior.from_groups(
        {"sample_stats": {"lp": np.zeros(mean.shape[:2])}, "predictions": kept},
        posterior.provenance,
        probe={"x": x, "y": y},
    )


def test_runs_without_a_model_are_scored_at_their_probe(numbers, three):
    cases, x, y = numbers
    kept = {name: recorded(p, x, y) for name, p in cases.items()}
    found = compare(kept, reference="bayes")
    for name, line in found.lines.items():
        assert line["nll"] == pytest.approx(three.lines[name]["nll"], rel=1e-4)
        assert line["wasserstein"] == pytest.approx(three.lines[name]["wasserstein"], abs=0.1)
        assert line["status"] == kept[name].diagnose().status
    # One that has its model is predicted at the probe of one that has not.
    part = recorded(cases["cold"], x[:9], y[:9])
    mixed = compare({"bayes": cases["bayes"], "cold": part})
    assert mixed.rows == 9
    assert mixed.lines["bayes"]["nll"] == pytest.approx(
        evaluate(cases["bayes"], x[:9], y[:9])["nll_mixture"]
    )
    with pytest.raises(ValueError, match=r"`cold` has no weights .*20 rows.*at other rows"):
        compare({"bayes": cases["bayes"], "cold": part}, x, y)
    with pytest.raises(ValueError, match="at other rows"):
        compare({"bayes": kept["bayes"], "cold": part})


def test_refusals(numbers):
    cases, x, y = numbers
    pair = {"bayes": cases["bayes"], "cold": cases["cold"]}
    p = labels(np.full((20, 2), 0.5))
    bare = bnn.Posterior(cases["cold"].tree)
    for message, posteriors, arguments in (
        ("two posteriors at least", {"bayes": cases["bayes"]}, {}),
        (r"not one of the posteriors. Did you mean `cold`", pair, {"reference": "colt"}),
        ("`variant` is 'mine'", pair, {"variant": "mine"}),
        ("`samples` must be at least 2", pair, {"samples": 1}),
        ("`x` has 20 rows and `y` has 19", pair, {"y": y[:-1]}),
        ("both, or neither", pair, {"y": None}),
        ("No run kept function values", pair, {"x": None, "y": None}),
        ("`bayes` is of regression and `p` of classification", {**pair, "p": p}, {}),
        ("`cold` has no model .* kept no function values", {**pair, "cold": bare}, {}),
    ):
        with pytest.raises(ValueError, match=message):
            compare(posteriors, **{"x": x, "y": y, **arguments})
    three = labels(np.full((20, 3), 1 / 3))
    with pytest.raises(ValueError, match=r"shape \(20, 2\) at these rows and `b` \(20, 3\)"):
        compare({"a": p, "b": three}, x, np.zeros(20, int))


def test_other_units_are_refused(numbers):
    cases, x, y = numbers
    units = bnn.data.Standardisation.fit(x, 3 + 2 * y, "regression")
    draws = {
        site: cases["cold"].draws[name]
        for name, site in cases["cold"].provenance["site_names"].items()
    }
    scaled = bnn.Posterior.from_arrays(
        draws,
        {"lp": np.zeros((4, 250))},
        cases["cold"].provenance,
        model=cases["cold"].model,
        standardisation=units,
    )
    with pytest.raises(ValueError, match="`bayes` and `scaled` were trained on targets in diff"):
        compare({"bayes": cases["bayes"], "scaled": scaled}, x, y)
