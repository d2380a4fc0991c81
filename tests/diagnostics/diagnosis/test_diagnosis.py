"""The verdict on synthetic runs whose fault is known, and on one without a fault."""

import json

import numpy as np
import pytest
from scipy.signal import lfilter

from bayesnn_ppl.diagnostics import chains_apart, diagnose, moved_share

CHAINS, DRAWS = 4, 500


def noise(seed, *shape, chains=CHAINS, draws=DRAWS, correlation=0.0):
    values = np.random.default_rng(seed).normal(size=(chains, draws, *shape))
    return lfilter([1.0], [1.0, -correlation], values, axis=1)


def healthy(**options):
    """Independent draws of functions, weights and statistics."""
    chains, draws = options.get("chains", CHAINS), options.get("draws", DRAWS)
    functions = {"mean": noise(0, 30, **options), "sd": np.exp(0.1 * noise(1, 30, **options))}
    weights = {
        "net.Dense_0.kernel": noise(2, 3, 8, **options),
        "net.Dense_0.bias": noise(3, 8, **options),
        "noise.scale": np.exp(noise(4, **options)),
        "tau": np.exp(noise(5, **options)),
    }
    stats = {
        "diverging": np.zeros((chains, draws), dtype=bool),
        "energy": noise(6, chains=chains, draws=draws),
        "acceptance_rate": np.full((chains, draws), 0.85),
        "tree_depth": np.full((chains, draws), 5),
        "n_steps": np.full((chains, draws), 31),
        "step_size": np.full((chains, draws), 0.02),
        "lp": noise(7, chains=chains, draws=draws),
    }
    return functions, weights, stats


def starts_of(functions):
    """Starts three times as far apart as the draws are."""
    return {
        name: 3 * np.random.default_rng(20).normal(size=(len(a), *a.shape[2:]))
        for name, a in functions.items()
    }


def diagnosed(functions, weights, stats, **settings):
    """The diagnosis of a run with an accept step and overdispersed starts."""
    known = {"accept_step": True, "starts": starts_of(functions)}
    return diagnose(functions, weights, stats, **(known | settings))


def test_converged():
    found = diagnosed(*healthy(), max_tree_depth=10, target_acceptance=0.8)
    assert found.status == "converged" and found.converged
    assert "All 60 function outputs" in found.verdict
    assert found.functions["mean"]["rhat_max"] < 1.01
    assert found.functions["mean"]["ess_bulk_min"] > 400
    assert found.functions["mean"]["mcse_over_sd_max"] == pytest.approx(2000**-0.5, rel=0.2)
    assert set(found.weights) == {"net.Dense_0", "noise", "tau"}
    assert found.weights["net.Dense_0"]["elements"] == 32
    sampler = found.sampler
    assert sampler["divergences"] == 0 and sampler["saturated_share"] == 0.0
    assert sampler["stuck_chains"] == [] and sampler["apart_chains"] == []
    assert sampler["steps_per_draw"] == [31.0] * 4
    assert sampler["step_size"] == pytest.approx([0.02] * 4)


def shifted(functions, weights, stats):
    functions["mean"][2, :, 4:9] += 2.0


def spread(functions, weights, stats):
    functions["mean"][1] *= 5.0


def stuck(functions, weights, stats):
    for array in (*functions.values(), *weights.values()):
        array[3] = array[3, :1]


def stuck_in_the_middle(functions, weights, stats):
    """R-hat of a chain frozen at the mean is unsuspicious for a few outputs; the chain is not."""
    for array in (*functions.values(), *weights.values()):
        array[0] = array.mean(axis=(0, 1))


def rejecting(functions, weights, stats):
    stats["acceptance_rate"][1] = 1e-4


def repeating(functions, weights, stats):
    """Half of the proposals rejected: every second draw repeats the one before."""
    for array in (*functions.values(), *weights.values()):
        array[:, 1::2] = array[:, ::2]


def saturated(functions, weights, stats):
    stats["tree_depth"][:] = 10


def saturated_by_steps(functions, weights, stats):
    del stats["tree_depth"]
    stats["n_steps"][:] = 1023
    stats["n_steps"][0, :200] = 511


def constant(functions, weights, stats):
    functions["sd"] = np.full((CHAINS, DRAWS, 1), 0.1)


def frozen_apart(functions, weights, stats):
    functions.clear()
    functions["mean"] = np.zeros((CHAINS, DRAWS, 3)) + np.arange(4.0)[:, None, None]


def divergent(functions, weights, stats):
    stats["diverging"][1, :20] = True


def one_divergence(functions, weights, stats):
    stats["diverging"][1, 0] = True


def slow_energy(functions, weights, stats):
    stats["energy"][2] = np.cumsum(stats["energy"][2])
    stats["acceptance_rate"][0] = 0.4


def untouched(functions, weights, stats):
    pass


SLOW, SLOWER = {"correlation": 0.8}, {"correlation": 0.995}
DEPTH, TARGET = {"max_tree_depth": 10}, {"target_acceptance": 0.8}
BAD, GOOD, UNKNOWN = "not converged", "converged", "not judged"
# What was done to a run, how its draws are made, what is known of it; status, words, figures.
FAULTS = [
    (shifted, {}, {}, BAD, ["Chain 2 differs from the others"], {"apart_chains": [2]}),
    (spread, {}, {}, BAD, [], {"apart_chains": [1]}),
    (stuck, {}, {}, BAD, ["Chain 3 is stuck (0 % of its draws differ"], {"stuck_chains": [3]}),
    (stuck, {}, {}, BAD, [], {"moved_share": [1.0, 1.0, 1.0, 0.0]}),
    (stuck_in_the_middle, {}, {}, BAD, [], {}),
    (rejecting, {}, {}, BAD, [], {"stuck_chains": [1]}),
    (repeating, {"draws": 2000}, {}, GOOD, [], {"stuck_chains": []}),
    (saturated, {"correlation": 0.9}, DEPTH, None, ["Every tree is saturated at depth 10"], {}),
    (
        saturated,
        {"correlation": 0.9},
        DEPTH,
        None,
        ["ChEES; or raise NUTS's `max_tree_depth` (in a shell, `--max-tree-depth`)"],
        {},
    ),
    (
        saturated_by_steps,
        {"correlation": 0.9},
        {"max_tree_depth": (5, 10)},
        None,
        ["90 % of the trees"],
        {},
    ),
    (constant, {}, {}, GOOD, ["All 30 function outputs"], {}),
    (frozen_apart, {}, {}, BAD, [], {}),
    (untouched, {"chains": 1}, {}, UNKNOWN, ["only one chain"], {}),
    (untouched, SLOWER, {}, BAD, ["do not give the same predictions"], {}),
    (untouched, SLOW, {}, "approximate", [], {}),
    (untouched, {"draws": 3}, {}, UNKNOWN, ["too few for any measure"], {}),
    (divergent, {}, TARGET, "doubtful", ["20 transitions diverged (1 %)", "(now 0.8)"], {}),
    (divergent, {}, {}, "doubtful", [], {"divergences_per_chain": [0, 20, 0, 0]}),
    (one_divergence, {}, {}, GOOD, ["1 transition diverged (0.05 %)"], {"divergences": 1}),
    (slow_energy, {}, TARGET, "doubtful", ["E-BFMI", "in chain 2", "is 0.40 in chain 0"], {}),
]


@pytest.mark.parametrize(("fault", "made", "known", "status", "words", "figures"), FAULTS)
def test_a_fault_is_named(fault, made, known, status, words, figures):
    arrays = healthy(**made)
    fault(*arrays)
    found = diagnosed(*arrays, **known)
    assert found.status == status or (status is None and not found.converged)
    assert all(word in found.verdict for word in words), found.verdict
    assert {name: found.sampler[name] for name in figures} == figures


def test_the_figures_of_a_chain_that_stands_apart():
    arrays = healthy()
    shifted(*arrays)
    found = diagnosed(*arrays)
    assert found.sampler["rhat_without_apart"] < 1.02
    assert found.functions["mean"]["rhat_below_limit"] == pytest.approx(25 / 30)
    worst = {w["name"] for w in found.functions["mean"]["worst"]}
    assert worst <= {f"mean[{i}]" for i in range(4, 9)}


def test_without_functions_that_vary_a_run_is_not_judged_but_a_stuck_chain_is():
    functions, weights, stats = healthy()
    found = diagnosed({}, weights, stats)
    assert found.status == "not judged" and "probe inputs" in found.verdict
    assert found.functions == {} and found.weights["tau"]["rhat_max"] < 1.01
    constant(functions, weights, stats)
    assert diagnosed({"sd": functions["sd"]}, weights, stats).status == "not judged"
    stuck_in_the_middle({}, weights, stats)
    assert diagnosed({}, weights, stats).status == "not converged"


def test_two_of_five_chains_are_named_and_two_of_four_are_not():
    """A majority can be named; with equal halves nobody knows which is right."""
    values = noise(0, 20, chains=5)
    values[[0, 3]] += 3.0
    assert chains_apart({"mean": values})[0] == [0, 3]
    assert chains_apart({"mean": values[:4]})[0] == []
    assert chains_apart({"mean": values[:2]})[0] == []


def test_no_chain_is_blamed_for_bad_mixing():
    """Chains that all wander differ from one another, the oddest one no more than it must."""
    blamed = [
        bool(chains_apart({"mean": noise(seed, 20, draws=300, correlation=0.999)})[0])
        for seed in range(20)
    ]
    assert sum(blamed) <= 2
    assert chains_apart({"mean": noise(0, 20)})[0] == []


def test_symmetric_weights():
    """Hidden units exchanged between chains: weights disagree, their sum does not."""
    functions, weights, stats = healthy()
    pair = noise(10, 2) + np.array([-3.0, 3.0])
    pair[::2] = pair[::2, :, ::-1]
    weights["net.Dense_0.kernel"] = pair[:, :, None]
    weights["net.Dense_1.kernel"] = noise(12, 2, 1)
    functions["mean"] = pair.sum(axis=-1, keepdims=True) + noise(11, 5)
    found = diagnosed(functions, weights, stats)
    assert found.weights["net.Dense_0"]["rhat_max"] > 1.5
    assert found.status == "converged"
    assert "weight symmetries" in found.verdict and "can be trusted" in found.verdict
    assert found.weights["net.Dense_0"]["worst"][0]["name"].startswith("net.Dense_0.kernel[")
    # Negative control: without the disagreement nothing is said of symmetries.
    assert "symmetries" not in diagnosed(*healthy()).verdict


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["functions", "weights"])
def test_non_finite_draws(bad, where):
    functions, weights, stats = healthy()
    target = functions["mean"] if where == "functions" else weights["net.Dense_0.bias"]
    target[1, 17, 3] = bad
    found = diagnosed(functions, weights, stats)
    assert found.status == "not converged"
    assert "NaN or infinite in chain 1" in found.verdict
    group = found.functions["mean"] if where == "functions" else found.weights["net.Dense_0"]
    assert group["non_finite"] == 1 and group["judged"] == group["elements"] - 1


def test_too_few_draws():
    found = diagnosed(*healthy(draws=60))
    assert found.status in ("approximate", "not converged")
    assert "draws per chain are needed (now 60)" in found.verdict
    fewest = min(
        summary[key]
        for summary in found.functions.values()
        for key in ("ess_bulk_min", "ess_tail_min")
    )
    needed = int(found.verdict.split("about ")[1].split(" draws")[0])
    assert 60 * 400 / fewest <= needed <= 1.1 * 60 * 400 / fewest


def test_thresholds_are_used():
    arrays = healthy()
    for setting, value in {
        "rhat_threshold": 1.0,
        "ess_threshold": 1e6,
        "stuck_share": 0.9,
        "ebfmi_threshold": 3.0,
    }.items():
        assert not diagnosed(*arrays, **{setting: value}).converged, setting
        assert diagnosed(*arrays, **{setting: value}).thresholds[setting] == value
    arrays[2]["diverging"][:, :3] = True
    assert diagnosed(*arrays, divergence_share=0.01).converged
    assert not diagnosed(*arrays, divergence_share=0.005).converged
    arrays[2]["tree_depth"][:, :100] = 10
    assert "saturated" in diagnosed(*arrays, max_tree_depth=10).verdict
    assert "saturated" not in diagnosed(*arrays, max_tree_depth=10, saturation_share=0.5).verdict
    arrays[0]["mean"][0, :, 0] += 3.0
    assert diagnosed(*arrays).status == "not converged"
    slow = healthy(correlation=0.8)
    assert diagnosed(*slow, rhat_limit=1.2).status == "approximate"
    assert diagnosed(*slow, rhat_limit=1.01).status == "not converged"
    assert diagnosed(*slow, ess_limit=400).status == "not converged"


def test_groups_and_thinned_functions():
    functions, weights, stats = healthy(draws=1000)
    functions = {name: array[:, ::2] for name, array in functions.items()}
    found = diagnosed(functions, weights, stats, groups={"tau": "net.Dense_0"})
    assert found.converged and set(found.weights) == {"net.Dense_0", "noise"}
    assert found.weights["net.Dense_0"]["elements"] == 33
    assert (found.sampler["draws"], found.sampler["recorded_draws"]) == (500, 1000)


def test_functions_of_all_draws_and_weights_of_a_few():
    functions, weights, stats = healthy(draws=1000)
    weights = {name: array[:, 99::100] for name, array in weights.items()}
    found = diagnosed(functions, weights, stats)
    assert (
        found.converged and (found.sampler["draws"], found.sampler["recorded_draws"]) == (1000,) * 2
    )
    few = diagnosed(functions, weights, stats, ess_threshold=1e5)
    assert "(now 1000)" in few.verdict


def test_without_statistics():
    functions, weights, _ = healthy()
    found = diagnosed(functions, weights, {})
    assert found.converged and found.sampler["divergences"] is None
    assert "E-BFMI" not in str(found)


def test_moved_share_counts_any_change():
    still = np.zeros((2, 10, 3))
    moving = still.copy()
    moving[1] = np.arange(10)[:, None]
    assert moved_share({"a": still, "b": moving}).tolist() == [0.0, 1.0]
    assert np.isnan(moved_share({"a": still[:, :1]})).all()


def faulty():
    functions, weights, stats = healthy()
    functions["mean"][2] += 2.0
    functions["sd"] = np.full((CHAINS, DRAWS, 1), 0.1)
    weights["net.Dense_0.kernel"][0, 0, 0, 0] = np.nan
    weights["a_very_long_outer_name.block_11.convolution_3.frn.kernel_of_that_layer"] = noise(8, 2)
    return diagnosed(functions, weights, stats, max_tree_depth=5, target_acceptance=0.8)


@pytest.mark.parametrize("make", [faulty, lambda: diagnosed(*healthy(chains=1))])
def test_table_is_narrow_and_aligned(make):
    found = make()
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 88
    start = lines.index("Weights by layer (smallest effective sample sizes)")
    note = lines[start + 1].startswith("  (+n)")
    header, *rows = lines[start + 1 + note : start + 2 + note + len(found.weights)]
    for column in ("count", "R<1.01", "R<1.1", "max R", "bulk", "tail"):
        end = header.index(column) + len(column)
        assert {(row + " " * 90)[end] for row in rows} == {" "}
        assert all(row[end - 1] != " " for row in rows)
    assert found.status in lines[0]


def test_table_of_a_fault_says_it():
    text = str(faulty())
    for words in (
        "not converged",
        "chains apart     2",
        "31 (+1)",
        "0 (+1)",
        "saturated trees",
        "100% at depth 5",
    ):
        assert words in text


def test_json_frame_and_html():
    found = faulty()
    data = json.loads(found.to_json())
    assert data["status"] == found.status and data["converged"] is False
    assert data["functions"]["sd"]["rhat_max"] is None
    assert data["functions"]["mean"]["rhat_max"] == found.functions["mean"]["rhat_max"]
    frame = found.to_dataframe()
    assert len(frame) == len(found.functions) + len(found.weights)
    assert (
        frame.loc[frame["name"] == "mean", "rhat_max"].item()
        == data["functions"]["mean"]["rhat_max"]
    )
    page = found._repr_html_()
    assert page.count("<table>") == page.count("</table>") == 4
    assert "R&lt;1.01" in page and "not converged" in page


def test_refusals():
    functions, weights, stats = healthy()
    with pytest.raises(ValueError, match="nothing to diagnose"):
        diagnosed({}, {}, {})
    with pytest.raises(ValueError, match=r"numbers of chains, \[3, 4\]"):
        diagnosed(functions, {name: a[:3] for name, a in weights.items()}, stats)
    with pytest.raises(ValueError, match="numbers of draws"):
        diagnosed({**functions, "sd": functions["sd"][:, :9]}, weights, stats)
    with pytest.raises(ValueError, match=r"stats\['lp'\]"):
        diagnosed(functions, weights, {"lp": np.zeros((4, 500, 2))})
    with pytest.raises(ValueError, match=r"draws\['tau'\]"):
        diagnosed(functions, {"tau": np.zeros(4)}, stats)
    with pytest.raises(ValueError, match="keyword argument"):
        diagnosed(functions, weights, {**stats, "max_tree_depth": 10})
    with pytest.raises(TypeError, match="complex"):
        diagnosed(functions, {"tau": np.zeros((4, 500), complex)}, stats)
    with pytest.raises(ValueError, match="what is useful"):
        diagnosed(functions, weights, stats, rhat_limit=1.0)
