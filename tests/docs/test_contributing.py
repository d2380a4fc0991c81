"""The files that `CONTRIBUTING.md` shows are complete: each is written out, imported and used.

Each example meets the checks that a contributor's own file would meet, and a copy with one fault
does not.
"""

import importlib.util
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from numpyro.infer import MCMC, NUTS
from scipy import stats

import bayesnn_ppl as bnn
from bayesnn_ppl.data import catalogue
from tests.data.test_catalogue import check_dataset
from tests.docs.reading import ROOT, blocks
from tests.inference.approximations import linear_truth
from tests.inference.kernels import invariance
from tests.priors.prior_checks import (
    IMAGES,
    SMALLEST_P,
    Everything,
    ks_p_value,
    shapes_of,
    trace_of,
)

PLACE = re.compile(r"# (bayesnn_ppl/\S+\.py)\n")
# The place of a file, by the last part of its name, and its text.
FILES = {}
for _, block in blocks(ROOT / "CONTRIBUTING.md", "python"):
    place = ROOT / PLACE.match(block)[1]
    FILES[place.stem] = (place, block)


@pytest.fixture
def example(tmp_path, monkeypatch):
    """A function that writes out a file, one with a fault if one is given, and imports it."""

    def imported(name, *fault):
        text = FILES[name][1]
        if fault:
            assert text.count(fault[0]) == 1, "the fault is somewhere in the file, and there once"
            text = text.replace(*fault)
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(f"{'broken_' * bool(fault)}{name}", path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return imported


def test_there_is_one_example_of_each_kind():
    folders = {place.relative_to(ROOT / "bayesnn_ppl").parts[:2] for place, _ in FILES.values()}
    assert len(FILES) == 5
    assert folders == {
        ("inference", "kernels"),
        ("inference", "approximations"),
        ("priors", "elementwise"),
        ("likelihoods", "families"),
        ("data", "sources"),
    }


@pytest.mark.parametrize("name", FILES)
def test_an_example_is_a_new_file_that_passes_the_linter(name):
    place, text = FILES[name]
    assert place.parent.is_dir() and not place.exists()
    for command in (["check", "--quiet"], ["format", "--check", "--quiet"]):
        found = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(place), "-"],
            input=text,
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        assert found.returncode == 0, found.stdout + found.stderr


def leaves_the_posterior_unchanged(module):
    """The check that `tests/inference/kernels/test_invariance.py` makes of all exact kernels."""
    kernel = module.GeneralisedHMC(invariance.model, step_size=0.3, persistence=0.8)
    starts = invariance.posterior_draws(16_000)
    end, moved = invariance.transitions(kernel, starts, draws=30)
    scores = invariance.z_scores(starts, end)
    return moved > 0.5 and invariance.largest(scores) < invariance.LIMIT


def test_the_kernel_leaves_the_posterior_unchanged(example):
    assert leaves_the_posterior_unchanged(example("generalised_hmc"))
    # Without the reversal a rejection is not a reversible move.
    assert not leaves_the_posterior_unchanged(
        example("generalised_hmc", "(start, -momentum)", "(start, momentum)")
    )


def test_the_kernel_samples(example, regression, compilations):
    module = example("generalised_hmc")

    def run():
        kernel = module.GeneralisedHMC(bnn.models.linear(), step_size=0.02)
        return bnn.sample(kernel, *regression, warmup=50, draws=100, chains=2, progress=False)

    posterior = run()
    assert posterior.provenance["kernel"] == "GeneralisedHMC"
    assert posterior.predict(regression[0]).mean.shape == regression[1].shape
    assert {"acceptance_rate", "diverging"} <= set(posterior.tree["sample_stats"])
    assert (posterior.draws["noise_scale"][0] != posterior.draws["noise_scale"][1]).any()
    before = compilations()
    np.testing.assert_array_equal(run().draws["noise_scale"], posterior.draws["noise_scale"])
    assert compilations() == before, "an equal kernel compiles nothing"
    with pytest.raises(ValueError, match="`persistence` of GeneralisedHMC must be below 1"):
        module.GeneralisedHMC(bnn.models.linear(), persistence=1.0)


def test_the_kernel_runs_under_numpyro(example, regression):
    import jax

    kernel = example("generalised_hmc").GeneralisedHMC(bnn.models.linear(), step_size=0.02)
    mcmc = MCMC(kernel, num_warmup=5, num_samples=10, progress_bar=False)
    mcmc.run(jax.random.key(0), *regression)
    assert np.unique(mcmc.get_samples()["noise_scale"]).size > 1


def double_pareto_cdf(w, tail=3.0, scale=0.5):
    beyond = 0.5 * (1 + np.abs(w) / scale) ** -tail
    return np.where(w < 0, beyond, 1 - beyond)


def p_value(module):
    """That draws of 2 000 weights have the density that the docstring gives."""
    prior = module.generalised_double_pareto(3.0, 0.5)
    wide = bnn.nn.MLP((500,), outputs=1)
    weights = trace_of(prior, wide, np.zeros((1, 3), np.float32))["net/Dense_0.kernel"]["value"]
    return ks_p_value(weights, double_pareto_cdf)


def test_the_prior_has_its_density(example):
    assert p_value(example("double_pareto")) > 1e-3
    fault = ("dist.Laplace(0.0, 1 / numpyro", "dist.Laplace(0.0, numpyro")
    assert p_value(example("double_pareto", *fault)) < SMALLEST_P


def test_the_prior_fits_every_layer_and_samples(example, regression):
    module = example("double_pareto")
    found = shapes_of(module.generalised_double_pareto(), Everything(), IMAGES)
    kernels = {name for name in found if not name.endswith(".rate")}
    assert {f"{name}.rate" for name in kernels} == set(found) - kernels
    assert all(found[f"{name}.rate"] == found[name] for name in kernels)
    assert {len(found[name][1]) for name in kernels} >= {1, 2, 4}
    assert module.generalised_double_pareto() == module.generalised_double_pareto()
    model = bnn.models.linear(prior=module.generalised_double_pareto())
    posterior = bnn.sample(NUTS(model), *regression, warmup=100, draws=50, progress=False)
    assert (posterior.draws["net.Dense_0.kernel.rate"] > 0).all()
    error = posterior.predict(regression[0]).mean - regression[1]
    assert np.std(error) < 0.8 * np.std(regression[1])
    with pytest.raises(ValueError, match="tail must be positive"):
        module.generalised_double_pareto(0.0)


def log_density_error(module):
    """How far the density is from SciPy's, at outputs and targets of both sizes."""
    generator = np.random.default_rng(0)
    outputs, y = generator.normal(size=(50, 1)), generator.gamma(2.0, size=50)
    given = module.gamma_likelihood(3.0).distribution(outputs, concentration=3.0).log_prob(y)
    expected = stats.gamma(3.0, scale=np.exp(outputs[:, 0]) / 3.0).logpdf(y)
    return np.abs(np.asarray(given) - expected).max()


def test_the_likelihood_has_its_density(example):
    assert log_density_error(example("gamma")) < 1e-4
    fault = ("jnp.exp(-self.elements", "jnp.exp(self.elements")
    assert log_density_error(example("gamma", *fault)) > 0.1


def test_the_likelihood_samples_and_predicts(example):
    module = example("gamma")
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200, 1)).astype(np.float32)
    mean = np.exp(0.7 * x[:, 0] + 0.2)
    y = (mean * generator.gamma(4.0, size=200) / 4.0).astype(np.float32)
    model = bnn.models.linear(likelihood=module.gamma_likelihood())
    posterior = bnn.sample(NUTS(model), x, y, warmup=200, draws=200, chains=2, progress=False)
    prediction = posterior.predict(x)
    np.testing.assert_allclose(prediction.mean, mean, rtol=0.25)
    concentration = posterior.draws["noise_concentration"].mean()
    assert 2.5 < concentration < 6.0, "the targets have 4"
    inside = (y > prediction.quantile(0.05)) & (y < prediction.quantile(0.95))
    assert 0.84 < inside.mean() < 0.96
    with pytest.raises(ValueError, match="support"):
        bnn.sample(NUTS(model), x, y - 1, warmup=1, draws=1, chains=1, progress=False)


@pytest.fixture
def with_source(monkeypatch):
    """A function that puts a source in the catalogue, by the line that the page names."""

    def enter(source):
        line = (source.SETS, source.load_friedman)
        monkeypatch.setattr(catalogue, "SOURCES", [*catalogue.SOURCES, line])

    return enter


def noise_of(data):
    """The targets of a set in the data's units, without Friedman's function."""
    x, y = (np.concatenate(parts) for parts in zip(data.train, data.test, strict=True))
    mean = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    return y - mean - 10 * x[:, 3] - 5 * x[:, 4]


def test_the_data_source_loads(example, with_source):
    source = example("friedman")
    with_source(source)
    data = bnn.data.load("Friedman 1")
    check_dataset(data)
    assert (len(data.train), len(data.test)) == (200, 1000)
    assert data.loaded_by == {"name": "friedman1", "split": 0}
    raw = bnn.data.load("friedman1", standardise=False)
    assert raw.sha256 == data.sha256 != bnn.data.load("friedman1", split=1).sha256
    assert stats.kstest(noise_of(raw), "norm").pvalue > 1e-3
    with pytest.raises(ValueError, match="`target` cannot be chosen for the data set `friedman1`"):
        bnn.data.load("friedman1", target="y")
    approximation = bnn.approximations.MAP(bnn.models.linear(), learning_rate=0.05, epochs=200)
    mode = bnn.fit(approximation, *data.train, progress=False)
    assert bnn.metrics.evaluate(mode, *data.test)["rmse"] < 0.7 * float(np.std(raw.test.y))


@pytest.mark.parametrize(
    ("fault", "noticed"),
    [
        (("10 * x[:, 3]", "9 * x[:, 3]"), "the function"),
        (("rows[_TRAIN:]", "rows[_TRAIN - 1 :]"), "the split"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_data_source_is_noticed(example, with_source, fault, noticed):
    source = example("friedman", *fault)
    with_source(source)
    if noticed == "the split":
        with pytest.raises(ValueError, match="both the training and the test part"):
            bnn.data.load("friedman1")
    else:
        raw = bnn.data.load("friedman1", standardise=False)
        assert stats.kstest(noise_of(raw), "norm").pvalue < 1e-6


def bootstrap(module, **settings):
    """Of a linear model: the members (60, 3) in the order of the design's columns, and the fit."""
    x, y = linear_truth.data()
    model = linear_truth.linear(prior=bnn.priors.normal(30.0))
    approximation = module.Bootstrap(
        model, members=60, learning_rate=0.05, batch_size=None, epochs=400, **settings
    )
    fit = bnn.fit(approximation, x.astype(np.float32), y.astype(np.float32), progress=False)
    parts = [fit.draws[name][:, 0].reshape(60, -1) for name in linear_truth.NAMES]
    return np.concatenate(parts, axis=1), fit


def spread_ratios(members):
    """The members' standard deviations over those that the bootstrap has for least squares.

    With residuals r of the fit to all rows the covariance is A⁻¹ (Σ r_i² a_i a_iᵀ) A⁻¹, A = Σ a_i
    a_iᵀ, up to terms of the order 1/N.

    References:
        Freedman (1981), Bootstrapping regression models, Ann. Statist. 9(6), theorem 3.2.
    """
    x, y = linear_truth.data()
    design = linear_truth.design(x)
    inverse = np.linalg.inv(design.T @ design)
    residuals = y - design @ inverse @ design.T @ y
    covariance = inverse @ (design.T * residuals**2) @ design @ inverse
    return members.std(axis=0, ddof=1) / np.sqrt(np.diag(covariance))


def test_the_approximation_fits(example):
    members, fit = bootstrap(example("bootstrap"))
    # Of 60 members an error of a standard deviation is 9 %, and 40 rows are not many.
    assert (np.abs(np.log(spread_ratios(members))) < np.log(1.5)).all()
    x, y = linear_truth.data()
    design = linear_truth.design(x)
    least_squares = np.linalg.lstsq(design, y, rcond=None)[0]
    error = members.std(axis=0) / np.sqrt(60)
    assert (np.abs(members.mean(axis=0) - least_squares) < 5 * error).all()
    assert fit.provenance["kernel"] == "Bootstrap"
    assert fit.provenance["kernel_settings"]["members"] == 60
    assert fit.diagnose().status == "fitted", fit.diagnose()
    assert len(fit.provenance["approximation"]["best_losses"]) == 60
    assert fit.predict(x.astype(np.float32)).mean.shape == y.shape


def test_an_approximation_without_resampling_is_noticed(example):
    broken = example("bootstrap", "generator.integers(count, size=count)", "np.arange(count)")
    members, _ = bootstrap(broken)
    assert (spread_ratios(members) < 0.1).all()


def test_the_approximation_resumes(example, tmp_path, regression):
    """A fit that is ended among its members has, resumed, the draws of one that was not."""
    make = partial(example("bootstrap").Bootstrap, bnn.models.linear(), members=4, epochs=30)
    whole = bnn.fit(make(), *regression, progress=False)
    calls = []

    def end(progress):
        calls.append(progress.done)
        return len(calls) > 2

    ended = bnn.fit(make(), *regression, progress=False, callback=end, out=tmp_path / "run")
    assert ended.provenance["interrupted"] and ended.draws["noise_scale"].shape[0] < 4
    resumed = bnn.resume(tmp_path / "run", make(), *regression, progress=False)
    np.testing.assert_array_equal(resumed.draws["noise_scale"], whole.draws["noise_scale"])


def test_a_finding_names_its_member(example, regression):
    module = example("bootstrap")
    short = module.Bootstrap(bnn.models.linear(), members=3, epochs=8, learning_rate=0.05)
    fit = bnn.fit(short, *regression, progress=False)
    assert fit.diagnose().status == "doubtful"
    assert "of 3 members was still falling" in fit.diagnose().verdict
