"""The four judgements, on draws whose truth is known: what was not examined is never converged."""

import numpy as np
import pytest
from scipy.signal import lfilter

from bayesnn_ppl.diagnostics import diagnose, judge_temperatures, precision_summary
from bayesnn_ppl.diagnostics.convergence.tails import tail_shape
from bayesnn_ppl.diagnostics.diagnosis.judgements import judge_exactness

CHAINS, DRAWS = 4, 1000


def normals(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def judged(values, *, scale=3.0, **settings):
    """The diagnosis of one output, (chain, draw), of an exact sampler with spread starts."""
    starts = scale * normals(99, len(values), *values.shape[2:])
    known = {"accept_step": True, "starts": {"mean": starts}}
    return diagnose({"mean": values}, {}, {}, **(known | settings))


def status_of(found, name):
    return {judgement.name: judgement.status for judgement in found.judgements}[name]


def test_all_four_pass_and_say_what_they_rest_on():
    found = judged(normals(0, CHAINS, DRAWS, 5))
    assert found.converged
    assert [j.name for j in found.judgements] == [
        "mixing",
        "exploration",
        "exactness",
        "precision",
    ]
    assert {j.status for j in found.judgements} == {"passed"} and all(
        j.figure for j in found.judgements
    )
    lines = str(found).splitlines()
    assert lines[2].startswith("  mixing       passed  largest R-hat 1.00")
    assert "missed by all 4 in 66 % of runs" in " ".join(str(found).split())


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"accept_step": None}, "exactness"),
        ({"accept_step": False}, "exactness"),
        ({"starts": None}, "exploration"),
        ({"scale": 0.01}, "exploration"),
    ],
)
def test_what_was_not_examined_is_not_converged(settings, name):
    found = judged(normals(0, CHAINS, DRAWS, 5), **settings)
    assert found.status == "not judged" and status_of(found, name) == "not judged"
    others = {j.status for j in found.judgements if j.name != name}
    assert others == {"passed"}


def test_the_sentence_names_the_call_that_would_judge():
    found = judged(normals(0, CHAINS, DRAWS), accept_step=False, kernel="SGLD")
    assert "SGLD has no accept step" in found.verdict
    assert "posterior.diagnose(x, data=(x_train, y_train))" in found.verdict


@pytest.mark.parametrize(("chains", "missed"), [(1, "only one chain"), (2, "81 %"), (3, "73 %")])
def test_few_chains_are_not_converged(chains, missed):
    found = judged(normals(0, chains, 4 * DRAWS))
    assert status_of(found, "mixing") == "passed" and "R-hat nan" not in str(found)
    assert found.status == "not judged" and missed in found.verdict


def test_starts_in_one_of_two_modes():
    """V3: four chains together in one of two equal modes; nothing else can show it."""
    values = 1.0 + 0.1 * normals(0, CHAINS, DRAWS)
    found = diagnose({"mean": values}, {}, {}, accept_step=True, starts={"mean": np.ones(CHAINS)})
    assert not found.converged and "closer together than draws" in found.verdict


def heavy(seed, freedom, outputs=8):
    return np.random.default_rng(seed).standard_t(freedom, size=(CHAINS, DRAWS, outputs))


@pytest.mark.parametrize("freedom", [2.5, 3.0])
def test_heavy_tails_are_rarely_called_converged(freedom):
    """V7: of t(3) and t(2.5) outputs the spread is off by more than 20 % in many runs."""
    spread = np.sqrt(freedom / (freedom - 2))
    false = 0
    for seed in range(100):
        values = heavy(seed, freedom)
        wrong = np.any(np.abs(values.std(axis=(0, 1)) / spread - 1) > 0.2)
        false += bool(wrong and judged(values).converged)
    assert false <= 2


@pytest.mark.parametrize("outputs", [1, 300])
@pytest.mark.parametrize(
    "of",
    [
        lambda r, size: r.normal(size=size),
        lambda r, size: r.standard_t(8, size=size),
        lambda r, size: r.exponential(size=size),
        lambda r, size: np.exp(0.5 * r.normal(size=size)),
        lambda r, size: r.uniform(size=size),
    ],
    ids=["normal", "t8", "exponential", "lognormal", "uniform"],
)
def test_lighter_tails_are_not_withheld(of, outputs):
    runs = 20 if outputs == 1 else 4
    found = [
        judged(of(np.random.default_rng(seed), (CHAINS, DRAWS, outputs))) for seed in range(runs)
    ]
    assert sum(not one.converged for one in found) <= max(1, runs // 10)


def test_short_runs_state_errors_that_hold():
    """V8: AR(0.9) at 1000 draws is right in nearly all runs, and says how good it is."""
    inside = total = 0
    for seed in range(40):
        values = lfilter([1.0], [1.0, -0.9], normals(seed, CHAINS, DRAWS + 100), axis=1)[:, 100:]
        found = judged(values * np.sqrt(1 - 0.9**2))
        assert not found.converged
        if found.status == "approximate":
            summary = found.functions["mean"]
            error = abs(values.mean() * np.sqrt(1 - 0.9**2))
            inside += error < 2 * summary["mean_error"]
            total += 1
            assert error < 0.3
            assert "means good to" in found.verdict and "run longer" in found.verdict
    # 95 % of the intervals hold, within three binomial errors.
    assert total >= 30 and inside / total > 0.95 - 3 * np.sqrt(0.05 * 0.95 / total)


def test_a_linear_model_is_not_told_of_hidden_units():
    """V5: a single matrix has no symmetries."""
    functions = {"mean": normals(0, CHAINS, DRAWS, 3)}
    apart = normals(1, CHAINS, DRAWS, 3, 1) + np.arange(4.0)[:, None, None, None]
    settings = {"accept_step": True, "starts": {"mean": 3 * normals(2, CHAINS, 3)}}
    linear = diagnose(functions, {"net.Dense_0.kernel": apart}, {}, **settings)
    assert linear.converged and "while weights reach" in linear.verdict
    assert "symmetr" not in linear.verdict and "hidden" not in linear.verdict
    network = {"net.Dense_0.kernel": apart, "net.Dense_1.kernel": normals(3, CHAINS, DRAWS, 1, 3)}
    assert "hidden-unit permutation" in diagnose(functions, network, {}, **settings).verdict


def test_errors_are_those_of_arviz():
    from arviz_stats.base import array_stats

    values = lfilter([1.0], [1.0, -0.7], normals(0, CHAINS, DRAWS, 2), axis=1)
    values[..., 1] = np.exp(values[..., 1] / 2)
    found = precision_summary(values)
    axes = {"chain_axis": 0, "draw_axis": 1}
    for i in range(2):
        one, sd = values[..., i], values[..., i].std()
        mean, spread = (array_stats.mcse(one, method=m, **axes) / sd for m in ("mean", "sd"))
        quantile = max(
            array_stats.mcse(one, method="quantile", prob=q, **axes) / sd for q in (0.05, 0.95)
        )
        assert found.mean_error[i] == pytest.approx(mean, rel=1e-3)
        assert found.spread_error[i] == pytest.approx(spread, rel=1e-6)
        assert found.quantile_error[i] == pytest.approx(quantile, rel=1e-6)


def test_tail_shapes():
    generator = np.random.default_rng(0)
    values = np.stack(
        [
            generator.standard_t(3, 20_000),
            generator.exponential(size=20_000),
            generator.uniform(size=20_000),
            generator.integers(2, size=20_000),
        ]
    )
    shape = tail_shape(values, 500)
    assert shape[0] == pytest.approx(1 / 3, abs=0.1)
    assert shape[1] == pytest.approx(0.0, abs=0.1)
    assert shape[2] == pytest.approx(-1.0, abs=0.15)
    assert shape[3] == -np.inf
    # Negative control: the lighter tail does not decide.
    assert tail_shape(-values[1:2], 500)[0] == pytest.approx(shape[1])


def test_a_tail_that_is_mostly_its_bound_has_a_shape():
    # Of 100 excesses 80 are equal, so one rate of the grid is exactly 0; the neighbours bracket it.
    bulk, rising = np.linspace(-1, 0, 800), np.linspace(0.1, 0.9, 20)
    values = np.concatenate([bulk, rising, np.ones(80)])[None]
    shape, other = tail_shape(values, 100)[0], tail_shape(values, 101)[0]
    assert shape == pytest.approx(other, abs=0.05) and shape < 0


def test_the_spread_of_a_probability_near_zero_is_not_needed():
    """Its logit is normal, and its sd of 0.01 is decided by a few draws."""
    logits = -6 + 1.5 * normals(0, CHAINS, DRAWS, 20)
    values = 1 / (1 + np.exp(-logits))
    starts = {"probability": np.abs(normals(1, CHAINS, 20))}
    settings = {"accept_step": True, "starts": starts}
    found = diagnose({"probability": values}, {}, {}, **settings)
    assert found.converged, found.verdict
    # Negative control: numbers of other kinds with such tails are not known well enough.
    named = diagnose(
        {"mean": values}, {}, {}, **settings | {"starts": {"mean": starts["probability"]}}
    )
    assert status_of(named, "precision") != "passed"


def test_means_that_are_off_are_not_called_wrong_temperatures():
    """Spreads right in all directions, and the mean off in one of three."""
    generator = np.random.default_rng(0)
    outputs = generator.normal(1.0, 0.3, size=(4, 500, 3))
    moved = generator.normal(size=(4, 500, 3)) + np.array([0.0, 0.0, 0.6])
    momenta = generator.chisquare(1, size=(4, 500, 1))
    found = judge_temperatures(
        ["w"], [1], kinetic=momenta, kinetic_distribution="OBABO", functions=outputs, shifts=moved
    )
    assert found.status == "wrong" and found.moved == 1
    assert found.brief().startswith("right, means off in 1 of 3 directions; T = 1, ")
    judged = judge_exactness(False, found, kernel="SGHMC")
    assert judged.status == "doubtful" and "temperatures wrong" not in judged.figure
