"""Does a kernel leave the posterior unchanged? A test that needs no mixing.

Independent draws θ* of the posterior are made exactly, by rejection from the prior. Each is the
start of a chain, and T transitions later θ_T must have the same distribution. Functionals of both
are compared in pairs: a kernel that moves little has small differences, and small errors of them.

References:
    Geweke (2004), Getting it right: joint distribution tests of posterior simulators, JASA 99.
    Gandy and Scott (2020), Unit testing for MCMC and other Monte Carlo methods, arXiv:2001.06465.
"""

import functools

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy import stats

import bayesnn_ppl as bnn

ROWS = 6
X = np.linspace(-1.5, 1.5, ROWS, dtype=np.float32)[:, None]
Y = np.array([-0.9, -0.3, -0.4, 0.2, 0.8, 0.5], np.float32)
PROBE = 0.7


def model(x, y=None, *, batch_size=None):
    """One tanh unit, y ~ N(v tanh(w x) + b, σ²): three coordinates and a scale."""
    w = numpyro.sample("w", dist.Normal(0.0, 1.0))
    v = numpyro.sample("v", dist.Normal(0.0, 1.0))
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    scale = numpyro.sample("scale", dist.LogNormal(-0.5, 0.5))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(v * jnp.tanh(w * x[:, 0]) + b, scale), obs=y)


def log_likelihood(values):
    mean = values["v"][:, None] * np.tanh(values["w"][:, None] * X[:, 0]) + values["b"][:, None]
    squares = ((Y - mean) ** 2).sum(axis=1) / values["scale"] ** 2
    return -0.5 * squares - ROWS * (np.log(values["scale"]) + 0.5 * np.log(2 * np.pi))


def log_prior(values):
    coordinates = sum(stats.norm.logpdf(values[name]) for name in ("w", "v", "b"))
    return coordinates + stats.lognorm.logpdf(values["scale"], 0.5, scale=np.exp(-0.5))


@functools.cache
def posterior_draws(count, *, seed=0, prior_sd=1.0, temperature=1.0, likelihood=1.0):
    """Exact draws, site -> (count,), of p(y|θ)^{likelihood/T} times the (wrong) prior to 1/T.

    Args:
        prior_sd: factor on the sd of w, v and b.
        temperature: of the whole posterior; a prior to the power 1/T has the sd √T times.
        likelihood: power of the likelihood.
    """
    generator = np.random.default_rng(seed)
    power = likelihood / temperature
    root = temperature**0.5
    kept, have = [], 0
    # With w, v and b at their best and the best scale no draw is more likely.
    bound = _largest_likelihood() * power
    while have < count:
        size = 400_000
        values = {n: prior_sd * root * generator.normal(size=size) for n in ("w", "v", "b")}
        values["scale"] = np.exp(_log_scale(generator, temperature, size))
        accept = np.log(generator.uniform(size=size)) < power * log_likelihood(values) - bound
        kept.append({name: a[accept] for name, a in values.items()})
        have += int(accept.sum())
    joined = {name: np.concatenate([k[name] for k in kept])[:count] for name in kept[0]}
    return {name: a.astype(np.float32) for name, a in joined.items()}


def _log_scale(generator, temperature, size):
    """Of LogNormal(m, s) to the power 1/T: log scale is N(m + s² (T - 1), s² T).

    The density of the scale itself is tempered, so the factor 1/scale is one to the power 1/T.
    """
    spread = 0.25
    return (
        -0.5
        + spread * (temperature - 1)
        + np.sqrt(spread * temperature) * generator.normal(size=size)
    )


@functools.cache
def _largest_likelihood():
    from scipy.optimize import minimize

    def negative(p):
        values = {n: np.array([p[i]]) for i, n in enumerate(("w", "v", "b"))}
        return -float(log_likelihood(values | {"scale": np.exp(p[3:])})[0])

    starts = np.random.default_rng(0).normal(size=(20, 4))
    return -min(minimize(negative, s, method="Nelder-Mead").fun for s in starts) + 0.01


def functionals(values):
    """Name -> (replication,), of site -> (replication,)."""
    values = {name: np.asarray(a, np.float64) for name, a in values.items()}
    f = values["v"] * np.tanh(values["w"] * PROBE) + values["b"]
    likelihood, prior = log_likelihood(values), log_prior(values)
    return {
        "b": values["b"],
        "b²": values["b"] ** 2,
        "v w": values["v"] * values["w"],
        "w²": values["w"] ** 2,
        "w² + v²": values["w"] ** 2 + values["v"] ** 2,
        "f": f,
        "f²": f**2,
        "log scale": np.log(values["scale"]),
        "log scale²": (np.log(values["scale"]) + 0.5) ** 2,
        "log likelihood": likelihood,
        "log joint": likelihood + prior,
        "f > 0.5": (f > 0.5).astype(float),
    }


def transitions(kernel, starts, *, draws, seed=0, thinning=1):
    """θ_T of chains that start at `starts`, site -> (replication,), and how many of them moved."""
    count = len(starts["w"])
    made = bnn.sample(
        kernel,
        X,
        Y,
        warmup=0,
        draws=draws,
        chains=count,
        thinning=thinning,
        seed=seed,
        init=dict(starts),
        chain_method="vectorized",
        progress=False,
    )
    end = {name: made.draws[name][:, -1] for name in starts}
    return end, float(np.mean(end["w"] != starts["w"]))


def z_scores(starts, end):
    """Name -> mean paired difference over its standard error."""
    before, after = functionals(starts), functionals(end)
    found = {}
    for name in before:
        difference = after[name] - before[name]
        error = difference.std(ddof=1) / np.sqrt(len(difference))
        found[name] = float(difference.mean() / error)
    return found


def largest(scores):
    return max(abs(z) for z in scores.values())


# Fourteen kernels with twelve functionals: a right one exceeds this once in 1 000 suites.
LIMIT = float(stats.norm.isf(0.001 / (2 * 14 * 12)))

__all__ = ["LIMIT", "functionals", "largest", "model", "posterior_draws", "transitions", "z_scores"]
