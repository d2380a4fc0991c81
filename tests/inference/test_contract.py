"""Bad models and bad data: each a sentence, and nothing is compiled."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from flax import linen
from numpyro.contrib.module import random_flax_module
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl.modeling.contract import inspect_model

X = np.random.default_rng(0).normal(size=(12, 3))
Y = X[:, 0]
LABELS = np.arange(12) % 3


def changed(array, index, value):
    array = np.array(array, dtype=object if isinstance(value, str) else float)
    array[index] = value
    return array


def model_of(mean=lambda w, x: w * x[:, 0], *, latent="w", plate="data", rows=None, site="y"):
    """A regression of a single weight that keeps the contract, but for what is said."""

    def model(x, y=None, *, batch_size=None):
        w = 1.0 if latent is None else numpyro.sample(latent, dist.Normal(0, 1))
        with numpyro.plate(plate, x.shape[0] if rows is None else rows):
            numpyro.sample(site, dist.Normal(mean(w, x), 1.0), obs=y if rows is None else y[:rows])

    return model


def no_plate(x, y=None, *, batch_size=None):
    w = numpyro.sample("w", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(w * x[:, 0], 1.0).to_event(1), obs=y)


def outside_the_plate(x, y=None, *, batch_size=None):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0]):
        pass
    numpyro.sample("y", dist.Normal(w * x[:, 0], 1.0).to_event(1), obs=y)


def misspelled_prior(x, y=None, *, batch_size=None):
    priors = {"Dense_0.kernal": dist.Normal(0, 1), "Dense_0.bias": dist.Normal(0, 1)}
    net = random_flax_module("net", bnn.nn.MLP(()), priors, x[:1])
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(net(x), 1.0), obs=y)


def times(x, y=None):
    scale = numpyro.sample("scale", dist.LogNormal())
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Weibull(scale, 1.0 + x[:, 0] ** 2), obs=y)


def some_rows(x, y=None, *, batch_size=None):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0], subsample_size=5):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(w * x[:, 0], 1.0), obs=y)


def two_plates(x, y=None, *, batch_size=None):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0], dim=-2), numpyro.plate("outputs", 2, dim=-1):
        numpyro.sample("y", dist.Normal(w, 1.0), obs=y)


def meeting_names(x, y=None, *, batch_size=None):
    w = numpyro.sample("a/b", dist.Normal(0, 1)) + numpyro.sample("a.b", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(w * x[:, 0], 1.0), obs=y)


def branching(x, y=None, *, batch_size=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([int(x.max()) + 1]))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(w[0] * x[:, 0], 1.0), obs=y)


def needs_targets(x, y=None, *, batch_size=None):
    w = numpyro.sample("w", dist.Normal(y.mean(), 1))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(w * x[:, 0], 1.0), obs=y)


def live_by_hand(x, y=None, *, batch_size=None):
    net = random_flax_module("net", Dropout(False), dist.Normal(0, 1), x[:1])
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(net(x)[:, 0], 1.0), obs=y)


class Dropout(linen.Module):
    off: bool | None = None

    @linen.compact
    def __call__(self, x):
        return linen.Dense(1)(linen.Dropout(0.5, deterministic=self.off)(x))


class BatchNorm(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(1)(linen.BatchNorm()(x))


class NeedsTrain(linen.Module):
    @linen.compact
    def __call__(self, x, train):
        return linen.Dense(1)(x)


class TwoOutputs(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(1)(x), linen.Dense(1)(x)


class OneRow(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(1)(x).sum(0, keepdims=True)


class Image(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(1)(linen.Conv(2, (2, 2))(x).reshape(len(x), -1))


def network(module):
    return bnn.bayesian_network(module, bnn.priors.normal(1.0), bnn.likelihoods.gaussian(1.0))


LINEAR = bnn.models.linear()
CASES = {
    "NaN in x": (LINEAR, changed(X, (4, 1), np.nan), Y, r"x\[4, 1\] = nan"),
    "infinite y": (LINEAR, X, changed(Y, 2, np.inf), r"y\[2\] = inf"),
    "text in x": (LINEAR, changed(X, (0, 0), "red"), Y, "`x` must hold numbers.*object"),
    "ragged x": (LINEAR, [[1.0], [1.0, 2.0]], Y[:2], "not a rectangular array"),
    "no rows": (LINEAR, X[:0], Y[:0], "at least one row"),
    "scalar x": (LINEAR, 3.0, Y, "at least one row"),
    "no targets": (LINEAR, X, None, "`y` is None"),
    "rows differ": (LINEAR, X, Y[:-1], "`x` has 12 rows and `y` has 11"),
    "column of targets": (LINEAR, X, Y[:, None], r"Flatten the targets: `y\[:, 0\]`"),
    "two targets": (LINEAR, X, X[:, :2], r"shape \(12,\), but the data `y` have shape \(12, 2\)"),
    "label too large": (bnn.models.logistic(classes=2), X, LABELS, r"y\[2\] = 2 cannot come .* 0"),
    "label gap": (bnn.models.logistic(classes=4), X, LABELS, r"but the labels \[3\] never occur"),
    "fractional label": (bnn.models.logistic(classes=3), X, LABELS + 0.5, r"y\[0\] = 0.5 cannot"),
    "bernoulli label": (
        bnn.models.mlp(hidden=(), likelihood=bnn.likelihoods.bernoulli()),
        X,
        LABELS,
        r"y\[2\] = 2 cannot come from the model's Bernoulli",
    ),
    "negative time": (times, X, Y, "likelihood: its support is .*`--standardise inputs`.*undo_y"),
    "too large for int32": (LINEAR, np.full((12, 3), 2**40), Y, "do not fit 32 bits"),
    "too large for float32": (LINEAR, X * 1e300, Y, "too large for single precision"),
    "extra axis of plates": (two_plates, X, X[:, :2], r"batch_shape \(12, 2\), but a row"),
    "a site named chain": (model_of(latent="chain"), X, Y, "`chain` has the name of a dimension"),
    "names that meet": (meeting_names, X, Y, "`a/b` and `a.b` would both be stored"),
    "branch on values": (branching, X, Y, "lets values of `x` or `y` decide a shape"),
    "no plate": (no_plate, X, Y, 'no plate "data"'),
    "another plate": (model_of(plate="rows"), X, Y, r"Its plates are \['rows'\]"),
    "short plate": (model_of(lambda w, x: w, rows=5), X, Y, 'plate "data" has size 5, but `x` has'),
    "no site y": (
        model_of(site="obs"),
        X,
        Y,
        r'no observed site "y".*observed sites are \[\'obs\'\]',
    ),
    "site outside": (outside_the_plate, X, Y, 'must be inside the plate "data"'),
    "nothing latent": (model_of(latent=None), X, Y, "nothing to sample"),
    "parameter without prior": (misspelled_prior, X, Y, "`Dense_0.kernel` of shape .* has no"),
    "prior by name": (
        bnn.models.linear(prior={"*.kernal": dist.Normal(), "*": dist.Normal()}),
        X,
        Y,
        r"`\*.kernal` matches no parameter",
    ),
    "array of rows outside": (
        model_of(lambda w, x: w * x[:, 0] * Y),
        X,
        Y,
        r"from `x.shape\[0\]`, and nothing else; .* columns of `x`.*\(24,\)",
    ),
    "a subsample of its own": (some_rows, X, Y, r"takes 5 of its 12 rows.*_size=batch_size`"),
    "needs its targets": (needs_targets, X, Y, "fails at `x` without `y`.*default None"),
    "live dropout": (network(Dropout(False)), X, Y, "Dropout fails.*deterministic=True"),
    "dropout that says nothing": (network(Dropout()), X, Y, "Dropout fails.*deterministic=True"),
    "live dropout by hand": (live_by_hand, X, Y, "A network .* fails.*deterministic=True"),
    "batch normalisation": (network(BatchNorm()), X, Y, "BatchNorm fails.*other normalisation"),
    "another argument": (network(NeedsTrain()), X, Y, r"called as `network\(x\)`.*defaults"),
    "two outputs": (network(TwoOutputs()), X, Y, "returns a tuple of 2.*jnp.concatenate"),
    "rows summed up": (network(OneRow()), X, Y, r"returns shape \(1, 1\) for 12 rows.*first axis"),
    "no image": (network(Image()), X, Y, r"Image fails at inputs of shape \(1, 3\).*one array"),
    "a dictionary": (LINEAR, {"a": X, "b": X}, Y, "`x` is a dict.*Join its parts"),
    "two inputs": (LINEAR, (X, X[:, :1]), Y, "not a rectangular array.*Join its parts"),
    "missing target": (LINEAR, X, changed(Y, 2, np.nan), r"y\[2\] = nan.*Drop.*mask them"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_models_and_data_are_refused_before_compilation(case, compilations):
    model, x, y, sentence = CASES[case]
    before = compilations()
    with pytest.raises((ValueError, TypeError), match=sentence):
        bnn.sample(NUTS(model), x, y, warmup=1, draws=1, progress=False)
    assert compilations() == before


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"chains": 0}, "`chains` must be at least 1, not 0"),
        ({"draws": 0}, "`draws` must be at least 1"),
        ({"warmup": -1}, "`warmup` must be at least 0"),
        ({"thinning": 0}, "`thinning` must be at least 1"),
        ({"seed": 1.5}, "`seed` must be an integer"),
        ({"chains": True}, "`chains` must be an integer"),
        ({"seed": 2**32}, "`seed` must be below 4294967296"),
        ({"chain_method": "parallell"}, "Did you mean `parallel`"),
    ],
)
def test_bad_settings_are_refused_before_compilation(settings, sentence, compilations):
    before = compilations()
    with pytest.raises((ValueError, TypeError), match=sentence):
        bnn.sample(NUTS(LINEAR), X, Y, **({"warmup": 1, "draws": 1, "progress": False} | settings))
    assert compilations() == before


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        (LINEAR, r"Build it from your model: `NUTS\(model\)`"),
        (NUTS(potential_fn=lambda z: z**2), "has no model"),
        ("nuts", "must be a numpyro.infer.mcmc.MCMCKernel"),
    ],
)
def test_what_is_no_kernel_of_a_model_is_refused(kernel, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        bnn.sample(kernel, X, Y, warmup=1, draws=1, progress=False)


def scaled(name, shape):
    return dist.Normal(0.0, numpyro.sample(f"{name}.scale", dist.HalfNormal(1.0)))


@bnn.priors.NetworkPrior
def one_scale(shapes, x):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    return {
        name: numpyro.sample(name, dist.Normal(0.0, scale).expand(shape).to_event())
        for name, shape in shapes.items()
    }


@pytest.mark.parametrize("prior", [scaled, one_scale])
def test_hyperparameters_are_no_network_parameters(prior):
    """They decide whether a cold posterior depends on how the model is parametrised."""
    likelihood = bnn.likelihoods.gaussian(1.0)
    summary = inspect_model(bnn.models.linear(prior=prior, likelihood=likelihood), X, Y)
    assert summary.parameters == {"net/Dense_0.kernel", "net/Dense_0.bias"}
    assert all(name.endswith("scale") for name in set(summary.latents) - summary.parameters)
    assert len(summary.latents) > 2


def grouped(x, y=None, *, batch_size=None):
    rates = numpyro.sample("rates", dist.Normal(0, 1).expand([4]).to_event(1))
    with numpyro.plate("data", x.shape[0]):
        mean = (rates[:, None] * x[:, 0].reshape(4, -1)).reshape(-1)
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def test_rows_in_groups_of_equal_size_are_no_fault():
    assert inspect_model(grouped, X, Y).local == ()


def function_of_rows(x, y=None, *, batch_size=None):
    f = numpyro.sample("f", dist.Normal(0, 1).expand([x.shape[0]]).to_event(1))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(f, 1.0), obs=y)


def test_a_latent_value_for_each_row_is_local_without_the_plate_too():
    """Such values are sampled and none of them is known at other rows."""
    assert inspect_model(function_of_rows, X, Y).local == ("f",)
    run = bnn.sample(
        bnn.kernels.HMC(function_of_rows, num_leapfrogs=2),
        X,
        Y,
        warmup=2,
        draws=2,
        chains=1,
        progress=False,
    )
    with pytest.raises(ValueError, match=r"\['f'\]: one value for each training row"):
        run.predict(X[:5])
