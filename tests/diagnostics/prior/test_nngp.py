"""Wide networks compared with their Gaussian processes, and what heavy tails leave of the limit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erf
from scipy.stats import norm, t

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import nngp_kernel, nngp_predict

# As good as none, for priors whose scales must be positive.
NO_BIAS = 1e-12
X = np.array([[1.0, 0.0], [0.6, -0.8], [-1.5, 2.0]], np.float32)


def function_draws(network, prior, x, draws, *, parts=1, seed=0):
    """Outputs (draws, N) of networks drawn from a prior (name, shape) -> Distribution."""
    shapes = jax.eval_shape(lambda: network.init(jax.random.key(0), x))["params"]
    flat = {f"{layer}.{name}": a.shape for layer, ps in shapes.items() for name, a in ps.items()}

    @jax.jit
    def part(key):
        params = {layer: {} for layer in shapes}
        for each, (name, shape) in zip(jax.random.split(key, len(flat)), flat.items(), strict=True):
            layer, own = name.split(".")
            found = prior(name, shape)
            count = draws // parts
            missing = shape[: len(shape) - len(found.shape())]
            params[layer][own] = found.sample(each, (count, *missing))
        return jax.vmap(lambda p: network.apply({"params": p}, x))(params)

    return np.concatenate([part(key) for key in jax.random.split(jax.random.key(seed), parts)])


def relu_moment(variance1, variance2, covariance):
    """E[relu(u) relu(u')], the inner expectation in closed form and the outer by quadrature."""
    slope, rest = covariance / variance1, variance2 - covariance**2 / variance1
    sd = np.sqrt(max(rest, 1e-12))

    def integrand(u):
        mean = slope * u
        inner = mean * norm.cdf(mean / sd) + sd * norm.pdf(mean / sd)
        return u * inner * norm.pdf(u, scale=np.sqrt(variance1))

    return quad(integrand, 0, 12 * np.sqrt(variance1), epsabs=1e-10)[0]


def erf_moment(variance1, variance2, covariance):
    """E[erf(u) erf(u')] by Gauss and Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    root = np.linalg.cholesky([[variance1, covariance], [covariance, variance2 + 1e-13]])
    u, v = root[0, 0] * nodes, root[1, 0] * nodes[:, None] + root[1, 1] * nodes
    return weights @ (erf(v) @ weights * erf(u))


@pytest.mark.parametrize(("activation", "moment"), [("relu", relu_moment), ("erf", erf_moment)])
def test_kernels_are_the_recursion_by_quadrature(activation, moment):
    kernel = 0.3**2 + 1.2**2 * X.astype(float) @ X.T / 2
    for depth in range(3):
        found = nngp_kernel(X, activation=activation, depth=depth, weight_scale=1.2, bias_scale=0.3)
        np.testing.assert_allclose(found, kernel, rtol=2e-5, atol=2e-6)
        kernel = np.array(
            [
                [
                    0.3**2 + 1.2**2 * moment(a, b, c)
                    for b, c in zip(np.diag(kernel), row, strict=True)
                ]
                for a, row in zip(np.diag(kernel), kernel, strict=True)
            ]
        )


@pytest.mark.parametrize("activation", ["relu", "erf"])
def test_gradients_are_finite_also_where_inputs_meet(activation):
    @jax.jit
    def total(x, weight_scale):
        kernel = nngp_kernel(
            x, activation=activation, depth=2, weight_scale=weight_scale, bias_scale=0.0
        )
        return kernel.sum()

    x = jnp.concatenate([X, X[:1], jnp.zeros((1, 2))])
    gradient, slope = jax.grad(total, (0, 1))(x, 1.3)
    assert np.isfinite(gradient).all()
    numeric = (total(x, 1.31) - total(x, 1.29)) / 0.02
    assert slope == pytest.approx(float(numeric), rel=1e-2)


def farthest(draws, kernel):
    """The largest distance of a covariance of draws from the kernel, in standard errors."""
    products = draws[:, :, None] * draws[:, None]
    errors = products.std(axis=0) / np.sqrt(len(draws))
    return np.abs((products.mean(axis=0) - kernel) / errors).max()


@pytest.mark.check
@pytest.mark.parametrize(("hidden", "draws"), [((10,), 8000), ((1000,), 4000), ((80, 80), 4000)])
def test_the_covariance_of_networks_is_the_kernel(hidden, draws):
    """With one layer at any width, else as width grows: 24 covariances, 5.3 standard errors."""
    network = bnn.nn.MLP(hidden, activation="relu")
    prior = bnn.priors.fan_in_normal(1.3, bias_scale=0.5)
    found = function_draws(network, prior, X, draws, parts=4)
    settings = {"activation": "relu", "depth": len(hidden), "bias_scale": 0.5}
    assert farthest(found, nngp_kernel(X, weight_scale=1.3, **settings)) < 5.3
    # The negative control: a scale that is wrong by a tenth.
    assert farthest(found, nngp_kernel(X, weight_scale=1.43, **settings)) > 5.3


def excess_kurtosis(values):
    """The estimate and its standard error, by the influence of each draw."""
    square = values**2
    second, fourth = square.mean(), (square**2).mean()
    influence = square**2 / second**2 - 2 * fourth / second**3 * square
    return fourth / second**2 - 3, influence.std() / np.sqrt(len(values))


NOISE = 0.3


def normal_plus_noise(z):
    """Log density of v + noise, v ~ N(0, 1)."""
    return norm.logpdf(z, scale=np.hypot(1.0, NOISE))


def student_plus_noise(z):
    """Log density of v + noise, v Student-t with 3 degrees of freedom, by Gauss and Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    return np.log(t(3).pdf(z[:, None] - NOISE * nodes) @ weights / weights.sum())


def mean_at_zero(prior, plus_noise, outlier):
    """E[f(0)] under f(x) = v₁ relu(x + 1) + v₂ relu(x - 1) and independent weights of one prior.

    Three targets of 0.5 at x = 0 say what f(0) = v₁ is; at x = 2, where f = 3 v₁ + v₂, a target is
    `outlier`. Given v₁ it has the density of v₂ + noise, and v₁ is left to quadrature.
    """
    v = np.linspace(-3.0, 8.0, 4001)
    log = 3 * norm.logpdf(0.5, v, NOISE) + prior.logpdf(v) + plus_noise(outlier - 3 * v)
    mass = np.exp(log - log.max())
    return float(mass @ v / mass.sum())


def test_an_outlier_has_bounded_influence_under_student_t_weights():
    """A weight that one target alone needs may be as large as it takes, at a bounded price.

    The distribution of v₂ + noise is then heavy-tailed, and the target tells the other weight less
    and less the farther it is out. Under normal weights its pull grows in proportion, as with all
    linear Gaussian models. The hidden layer is held fixed: its posterior would have many modes, and
    the output weights are where the outlier is taken up.
    """
    outliers = np.array([1.5, 10.0, 20.0, 40.0, 80.0])
    light = [mean_at_zero(norm(), normal_plus_noise, y) for y in outliers]
    heavy = [mean_at_zero(t(3), student_plus_noise, y) for y in outliers]
    slope = np.diff(light) / np.diff(outliers)
    # The conjugate answer: rows (1, 0) three times and (3, 1).
    precision = np.array([[12.0, 3.0], [3.0, 1.0]]) / NOISE**2 + np.eye(2)
    exact = np.linalg.solve(precision, [3.0, 1.0])[0] / NOISE**2
    np.testing.assert_allclose(slope, exact, rtol=1e-6)
    without = mean_at_zero(t(3), np.zeros_like, 0.0)
    pull = np.abs(np.array(heavy) - without)
    assert pull.max() < 0.2 and np.all(np.diff(pull[1:]) < 0)
    # (ν + 1) · 3 · Var(v₁) / outlier, far out.
    assert pull[-1] < 1.2 * 12 * 0.03 / 80


def test_regression_with_a_linear_network_is_the_conjugate_one():
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(30, 2)), generator.normal(size=(30, 2))
    design = np.column_stack([x * (1.5 / np.sqrt(2)), np.full(30, 0.7)])
    precision = design.T @ design / 0.4**2 + np.eye(3)
    test = np.column_stack([X * (1.5 / np.sqrt(2)), np.full(3, 0.7)])
    settings = {"depth": 0, "activation": "relu", "weight_scale": 1.5, "bias_scale": 0.7}
    found = nngp_predict(x, y, X, noise_scale=0.4, **settings)
    np.testing.assert_allclose(
        found.mean, test @ np.linalg.solve(precision, design.T @ y) / 0.4**2, rtol=1e-6
    )
    np.testing.assert_allclose(
        found.variance, np.sum(test * np.linalg.solve(precision, test.T).T, axis=1), rtol=1e-6
    )
    one = nngp_predict(x, y[:, 0], X, noise_scale=0.4, **settings)
    np.testing.assert_allclose(one.mean, found.mean[:, 0])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"activation": "tanh"}, "known here for relu and erf, not for `tanh`"),
        ({"depth": -1}, "depth must be at least 0"),
        ({"weight_scale": 0.0}, "weight_scale must be positive"),
        ({"bias_scale": -1.0}, "bias_scale must be positive"),
        ({"x_test": np.ones((2, 3))}, "have 2 and 3 features a row"),
        ({"x_test": np.ones(3)}, "add the axis"),
        ({"x_train": X * np.nan}, "`x_train` has values that are not finite"),
        ({"y_train": np.ones(2)}, "one target for each row"),
        ({"noise_scale": 0.0}, "noise_scale must be positive"),
        ({"x_train": X[[0, 0, 0]], "noise_scale": 1e-12}, "not positive definite"),
    ],
)
def test_refusals(changes, sentence):
    arguments = {
        "x_train": X,
        "y_train": np.ones(3),
        "x_test": X,
        "noise_scale": 0.1,
        "activation": "relu",
        "depth": 1,
    }
    with pytest.raises(ValueError, match=sentence):
        nngp_predict(**arguments | changes)
