"""Predictions against mixtures written out with NumPy and SciPy, for draws made by hand."""

import json

import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import optimize, special, stats

import bayesnn_ppl as bnn

RNG = np.random.default_rng(5)
CHAINS, DRAWS, ROWS = 2, 7, 11
X = RNG.normal(size=(ROWS, 3)).astype(np.float32)
Y = RNG.normal(size=ROWS).astype(np.float32)
UNITS = bnn.data.Standardisation(x_mean=np.zeros(3), x_scale=np.ones(3), y_mean=50.0, y_scale=4.0)
SMALL = 1  # bytes: forces blocks of a single row


def attributes(draws, **more):
    return {"latents": list(draws), "precision": "float32", "chains": CHAINS} | more


def random_draws(**shapes):
    return {
        name: RNG.normal(size=(CHAINS, DRAWS, *shape)).astype(np.float32)
        for name, shape in shapes.items()
    }


def linear(outputs, likelihood, units=None, **more):
    draws = random_draws(**{"net/Dense_0.kernel": (3, outputs), "net/Dense_0.bias": (outputs,)})
    draws |= {n: np.abs(v) + 0.2 for n, v in random_draws(**more).items()}
    model = bnn.bayesian_network(bnn.nn.MLP((), outputs=outputs), bnn.priors.normal(), likelihood)
    statistics = {"lp": np.zeros((CHAINS, DRAWS))}
    posterior = bnn.Posterior.from_arrays(
        draws, statistics, attributes(draws), model=model, standardisation=units
    )
    flat = {n: v.reshape(-1, *v.shape[2:]).astype(float) for n, v in draws.items()}
    outputs_of_draws = X @ flat["net/Dense_0.kernel"] + flat["net/Dense_0.bias"][:, None]
    return posterior, outputs_of_draws, flat


@pytest.fixture(scope="module")
def gaussian():
    posterior, outputs, flat = linear(1, bnn.likelihoods.gaussian(), UNITS, noise_scale=())
    return posterior, outputs[..., 0], flat["noise_scale"][:, None] * np.ones(ROWS)


@pytest.mark.parametrize("memory", [SMALL, 3_000, 2**29])
def test_regression_is_the_exact_mixture_in_the_datas_units(gaussian, memory):
    posterior, mean, sd = gaussian
    prediction = posterior.predict(X, memory=memory)
    mean, sd, y = 50 + 4 * mean, 4 * sd, 50 + 4 * Y.astype(float)
    assert prediction.task == "regression"
    np.testing.assert_allclose(prediction.mean, mean.mean(0), rtol=1e-5)
    np.testing.assert_allclose(prediction.aleatoric, (sd**2).mean(0), rtol=1e-4)
    np.testing.assert_allclose(prediction.epistemic, mean.var(0), rtol=1e-4)
    second = (mean**2 + sd**2).mean(0) - mean.mean(0) ** 2
    np.testing.assert_allclose(prediction.variance, second, rtol=1e-4)
    np.testing.assert_allclose(prediction.y(Y), y, rtol=1e-6)
    density = special.logsumexp(stats.norm(mean, sd).logpdf(y), axis=0) - np.log(CHAINS * DRAWS)
    np.testing.assert_allclose(prediction.log_prob(Y), density, rtol=1e-4)
    for q in (0.05, 0.5, 0.9):
        exact = [
            optimize.brentq(
                lambda v, i=i, q=q: stats.norm(mean[:, i], sd[:, i]).cdf(v).mean() - q, -1e3, 1e3
            )
            for i in range(ROWS)
        ]
        np.testing.assert_allclose(prediction.quantile(q), exact, rtol=1e-4)
    assert prediction.quantile([0.1, 0.9]).shape == (2, ROWS)


def test_log_likelihood_has_chains_and_draws_apart(gaussian):
    posterior, mean, sd = gaussian
    expected = stats.norm(mean, sd).logpdf(Y) - np.log(4.0)
    for memory in (SMALL, 2**29):
        result = posterior.log_likelihood(X, Y, memory=memory)
        assert result.shape == (CHAINS, DRAWS, ROWS)
        np.testing.assert_allclose(result.reshape(-1, ROWS), expected, rtol=1e-4)


def test_samples_have_the_moments_of_the_mixture(gaussian):
    posterior, _, _ = gaussian
    prediction = posterior.predict(X)
    samples = prediction.samples(20_000, seed=1)
    assert samples.shape == (20_000, ROWS)
    z = (samples.mean(0) - prediction.mean) / np.sqrt(prediction.variance / 20_000)
    assert np.abs(z).max() < 5
    np.testing.assert_allclose(samples.var(0), prediction.variance, rtol=0.1)
    np.testing.assert_array_equal(samples[:5], prediction.samples(20_000, seed=1)[:5])
    assert not np.array_equal(samples[:5], prediction.samples(20_000, seed=2)[:5])


def test_up_to_the_number_of_draws_no_draw_is_used_twice(gaussian):
    posterior, mean, _ = gaussian
    still = bnn.Posterior.from_arrays(
        {site: posterior.draws[name] for name, site in posterior.provenance["site_names"].items()}
        | {"noise_scale": np.full((CHAINS, DRAWS), 1e-9, np.float32)},
        {"lp": np.zeros((CHAINS, DRAWS))},
        posterior.provenance,
        model=posterior.model,
    )
    samples = still.predict(X).samples(CHAINS * DRAWS)
    np.testing.assert_allclose(np.sort(samples, axis=0), np.sort(mean, axis=0), atol=1e-5)


def test_function_values_leave_out_a_noise_that_does_not_depend_on_x(gaussian):
    posterior, mean, sd = gaussian
    values = posterior.function_values(X)
    np.testing.assert_allclose(values["mean"].reshape(-1, ROWS), mean, rtol=1e-4, atol=1e-6)
    assert values["sd"].shape == (CHAINS, DRAWS, 1)
    np.testing.assert_allclose(values["sd"].reshape(-1), sd[:, 0], rtol=1e-5)
    fixed, _, _ = linear(1, bnn.likelihoods.gaussian(0.3))
    assert set(fixed.function_values(X)) == {"mean"}


def test_heteroscedastic_noise_is_a_function_of_x():
    posterior, outputs, _ = linear(2, bnn.likelihoods.heteroscedastic(floor=0.01))
    sd = 0.01 + np.logaddexp(0, outputs[..., 1])
    prediction = posterior.predict(X)
    np.testing.assert_allclose(prediction.aleatoric, (sd**2).mean(0), rtol=1e-4)
    np.testing.assert_allclose(prediction.epistemic, outputs[..., 0].var(0), rtol=1e-4)
    np.testing.assert_allclose(posterior.function_values(X)["sd"].reshape(-1, ROWS), sd, rtol=1e-4)


def check_labels(posterior, p, labels):
    prediction = posterior.predict(X)
    assert prediction.task == "classification"
    mixture = p.mean(0)
    np.testing.assert_allclose(prediction.probabilities, mixture, rtol=1e-4)
    np.testing.assert_allclose(prediction.aleatoric, (p * (1 - p)).mean(0), rtol=1e-4)
    np.testing.assert_allclose(prediction.epistemic, p.var(0), rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(prediction.variance, mixture * (1 - mixture), rtol=1e-3)
    entropy = -(mixture * np.log(mixture)).sum(-1)
    np.testing.assert_allclose(prediction.entropy, entropy, rtol=1e-4)
    expected = entropy + (p * np.log(p)).sum(-1).mean(0)
    np.testing.assert_allclose(prediction.mutual_information, expected, rtol=1e-3, atol=1e-6)
    density = np.log(mixture[np.arange(ROWS), labels])
    np.testing.assert_allclose(prediction.log_prob(labels), density, rtol=1e-4)
    assert set(np.unique(prediction.samples(50))) <= set(range(p.shape[-1]))
    with pytest.raises(ValueError, match="no quantiles"):
        prediction.quantile(0.5)


def test_categorical_labels():
    posterior, outputs, _ = linear(4, bnn.likelihoods.categorical(4))
    check_labels(posterior, special.softmax(outputs, axis=-1), RNG.integers(0, 4, ROWS))


def test_bernoulli_labels():
    posterior, outputs, _ = linear(1, bnn.likelihoods.bernoulli())
    p = special.expit(outputs)
    check_labels(posterior, np.concatenate([1 - p, p], axis=-1), RNG.integers(0, 2, ROWS))


class ToImage(flax.linen.Module):
    """(N, 3) to an image of 2 × 2 pixels with a mean and a raw scale each."""

    @flax.linen.compact
    def __call__(self, x):
        return flax.linen.Dense(8)(x).reshape(-1, 2, 2, 2)


def test_images_have_an_uncertainty_in_every_pixel():
    draws = random_draws(**{"net/Dense_0.kernel": (3, 8), "net/Dense_0.bias": (8,)})
    model = bnn.bayesian_network(
        ToImage(), bnn.priors.normal(), bnn.likelihoods.heteroscedastic(outputs=None, floor=0.01)
    )
    posterior = bnn.Posterior.from_arrays(
        draws,
        {"lp": np.zeros((CHAINS, DRAWS))},
        attributes(draws),
        model=model,
        standardisation=UNITS,
    )
    flat = {n: v.reshape(-1, *v.shape[2:]).astype(float) for n, v in draws.items()}
    outputs = X @ flat["net/Dense_0.kernel"] + flat["net/Dense_0.bias"][:, None]
    outputs = outputs.reshape(-1, ROWS, 2, 2, 2)
    mean, sd = 50 + 4 * outputs[..., 0], 4 * (0.01 + np.logaddexp(0, outputs[..., 1]))
    image = RNG.normal(size=(ROWS, 2, 2)).astype(np.float32)
    prediction = posterior.predict(X)
    np.testing.assert_allclose(prediction.aleatoric, (sd**2).mean(0), rtol=1e-4)
    np.testing.assert_allclose(prediction.epistemic, mean.var(0), rtol=1e-3)
    per_draw = stats.norm(mean, sd).logpdf(50 + 4 * image.astype(float)).sum((-1, -2))
    density = special.logsumexp(per_draw, axis=0) - np.log(CHAINS * DRAWS)
    np.testing.assert_allclose(prediction.log_prob(image), density, rtol=1e-4)
    assert prediction.quantile(0.3).shape == (ROWS, 2, 2)
    assert prediction.samples(5).shape == (5, ROWS, 2, 2)


def counts(x, y=None, *, batch_size=None):
    rate = numpyro.sample("rate", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        mean = numpyro.deterministic("mean", rate * jnp.exp(x[:, 0]))
        numpyro.sample("y", dist.Poisson(mean), obs=y)


def test_deterministic_sites_are_recomputed_at_new_inputs():
    """NumPyro would substitute what they were at the training inputs."""
    rates = np.abs(RNG.normal(size=(CHAINS, DRAWS))).astype(np.float32) + 0.5
    draws = {"rate": rates, "mean": np.zeros((CHAINS, DRAWS, 40), np.float32)}
    posterior = bnn.Posterior.from_arrays(
        draws, {}, attributes(draws, latents=["rate"]), model=counts
    )
    prediction = posterior.predict(X)
    np.testing.assert_allclose(prediction.mean, rates.mean() * np.exp(X[:, 0]), rtol=1e-4)
    # Counts have no exact quantile here: it comes from samples.
    assert prediction.quantile(0.99).min() >= 0


def test_double_precision_predictions():
    draws = {n: v.astype(np.float64) for n, v in random_draws(slope=()).items()}

    def model(x, y=None, *, batch_size=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(slope * x[:, 0], 1.0), obs=y)

    posterior = bnn.Posterior.from_arrays(
        draws, {}, attributes(draws, precision="float64"), model=model
    )
    x = RNG.normal(size=(ROWS, 3))
    prediction = posterior.predict(x)
    assert prediction.mean.dtype == np.float64
    np.testing.assert_allclose(prediction.mean, draws["slope"].mean() * x[:, 0], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda p: p.predict(X[0, 0]), "at least one row"),
        (lambda p: p.predict(np.array([["a"]])), "must hold numbers"),
        (lambda p: p.predict(X * np.nan), "not finite"),
        (lambda p: p.predict(X).log_prob(Y[:, None]), r"\(11, 1\), .* predicts shape \(11,\)"),
        (lambda p: p.predict(X).quantile(1.0), "between 0 and 1"),
        (lambda p: p.predict(X).probabilities, "Only a model with labels"),
        (lambda p: p.predict(X).entropy, "Only a model with labels"),
        (lambda p: p.predict(X).samples(0), "at least 1"),
    ],
)
def test_bad_requests(gaussian, call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call(gaussian[0])


def test_a_posterior_survives_the_disk(gaussian, tmp_path):
    posterior, _, _ = gaussian
    folder = posterior.save(tmp_path / "run")
    assert json.loads((folder / "config.json").read_text())["chains"] == CHAINS
    bare = bnn.load(folder)
    for name, values in posterior.draws.items():
        np.testing.assert_array_equal(bare.draws[name], values)
    for entry, value in posterior.provenance.items():
        assert bare.provenance[entry] == value
    with pytest.raises(ValueError, match="loaded without its model"):
        bare.predict(X)
    again = bnn.load(folder, model=posterior.model)
    np.testing.assert_array_equal(again.predict(X).mean, posterior.predict(X).mean)
    with pytest.raises(FileExistsError, match="never written over"):
        posterior.save(folder)
    with pytest.raises(FileNotFoundError, match="no posterior at"):
        bnn.load(tmp_path / "nowhere")
    assert not [f for f in folder.rglob("*") if f.suffix in {".pkl", ".pickle", ".py"}]


def test_draws_in_double_precision_have_quantiles_without_a_warning(gaussian):
    posterior, _, _ = gaussian
    sites = posterior.provenance["site_names"]
    draws = {sites[name]: np.asarray(a, float) for name, a in posterior.draws.items()}
    double = bnn.Posterior.from_arrays(
        draws,
        {"lp": np.zeros((CHAINS, DRAWS))},
        attributes(draws, precision="float64"),
        model=posterior.model,
        standardisation=UNITS,
    )
    found = double.predict(X).quantile(0.3)
    np.testing.assert_allclose(found, posterior.predict(X).quantile(0.3), rtol=1e-5)


def test_an_equal_prediction_compiles_nothing(compilations):
    def predict(x, level):
        posterior, _, _ = linear(1, bnn.likelihoods.gaussian(0.3))
        prediction = posterior.predict(x)
        return prediction.mean, prediction.quantile(level)

    predict(X, 0.1)
    before = compilations()
    predict(X, 0.7)
    assert compilations() == before
    predict(X[:5], 0.7)
    assert compilations() > before


class Counted(flax.linen.Module):
    """A layer that says when it is run."""

    ran = []

    @flax.linen.compact
    def __call__(self, x):
        jax.debug.callback(lambda: self.ran.append(1))
        return flax.linen.Dense(1)(x)


@pytest.mark.parametrize("memory, once", [(2**29, True), (SMALL, False)])
def test_what_fits_in_memory_is_computed_once(memory, once):
    draws = random_draws(**{"net/Dense_0.kernel": (3, 1), "net/Dense_0.bias": (1,)})
    model = bnn.bayesian_network(Counted(), bnn.priors.normal(), bnn.likelihoods.gaussian(0.3))
    statistics = {"lp": np.zeros((CHAINS, DRAWS))}
    posterior = bnn.Posterior.from_arrays(draws, statistics, attributes(draws), model=model)
    prediction = posterior.predict(X, memory=memory)
    assert prediction.mean.shape == (ROWS,)
    jax.effects_barrier()
    assert len(Counted.ran) >= CHAINS * DRAWS
    Counted.ran.clear()
    assert prediction.log_prob(Y).shape == (ROWS,)
    assert prediction.quantile([0.1, 0.9]).shape == (2, ROWS)
    assert prediction.samples(5).shape == (5, ROWS)
    jax.effects_barrier()
    assert (Counted.ran == []) == once


def test_samples_do_not_depend_on_the_memory(gaussian):
    small, large = (gaussian[0].predict(X, memory=m).samples(30, seed=3) for m in (SMALL, 2**29))
    np.testing.assert_allclose(small, large, rtol=1e-5)


def local_noise(x, y=None, *, batch_size=None):
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        z = numpyro.sample("z", dist.Normal(x[:, 0], 0.3))
        numpyro.sample("y", dist.Normal(z, 0.5), obs=y)


def test_latents_of_single_rows_have_no_value_at_new_inputs():
    posterior = bnn.sample(
        numpyro.infer.NUTS(local_noise, max_tree_depth=3),
        X,
        Y,
        warmup=5,
        draws=5,
        chains=2,
        progress=False,
    )
    with pytest.raises(ValueError, match=r"latent sites of single rows, \['z'\]"):
        posterior.predict(X)


def pixels(x, y=None, *, batch_size=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(slope * (x[:, 0] - 128), 1.0), obs=y)


def test_bytes_are_predicted_as_they_are_trained_on():
    """uint8 arithmetic wraps: 0 - 128 would be 128."""
    draws = {"slope": np.full((CHAINS, DRAWS), 0.5, np.float32)}
    posterior = bnn.Posterior.from_arrays(draws, {}, attributes(draws), model=pixels)
    x = np.array([[0], [128], [255]], dtype=np.uint8)
    np.testing.assert_allclose(posterior.predict(x).mean, [-64.0, 0.0, 63.5])


def test_labels_that_cannot_be_are_refused():
    posterior, _, _ = linear(4, bnn.likelihoods.categorical(4))
    labels = RNG.integers(0, 4, ROWS)
    float_labels = posterior.predict(X).log_prob(labels.astype(float))
    np.testing.assert_allclose(float_labels, posterior.predict(X).log_prob(labels))
    for wrong in (labels - 5, labels + 4, labels + 0.5):
        with pytest.raises(ValueError, match="labels must be 0 … 3"):
            posterior.predict(X).log_prob(wrong)


def heavy_tailed(x, y=None, *, batch_size=None):
    loc = numpyro.sample("loc", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.StudentT(5.0, loc, jnp.ones(x.shape[0])), obs=y)


def test_quantiles_without_an_inverse_come_from_samples():
    """NumPyro's StudentT declares an inverse that needs a library which is not there."""
    draws = {"loc": np.zeros((CHAINS, DRAWS), np.float32)}
    posterior = bnn.Posterior.from_arrays(draws, {}, attributes(draws), model=heavy_tailed)
    found = posterior.predict(X).quantile([0.1, 0.5, 0.9])
    np.testing.assert_allclose(found.mean(1), stats.t(5).ppf([0.1, 0.5, 0.9]), atol=0.1)


def test_another_model_is_refused_at_loading(tmp_path):
    posterior = bnn.sample(
        numpyro.infer.NUTS(bnn.models.linear(), max_tree_depth=3),
        X,
        Y,
        warmup=5,
        draws=5,
        chains=2,
        progress=False,
    )
    folder = posterior.save(tmp_path / "run")
    bnn.load(folder, model=bnn.models.linear()).predict(X)
    with pytest.raises(ValueError, match="draws at .* are of another model"):
        bnn.load(folder, model=bnn.models.linear(temperature=0.5))
