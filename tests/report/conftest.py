"""What the tests of the report share: posteriors, and one page of them."""

import numpy as np
import pytest
from numpyro.infer import NUTS

import bayesnn_ppl as bnn


@pytest.fixture(scope="session")
def data():
    return bnn.data.load("diabetes")


@pytest.fixture(scope="session")
def posteriors(data):
    """A run that has converged, one of minibatches, and a fit."""
    model = bnn.models.linear()
    quiet = {"progress": False, "seed": 0}
    sghmc = bnn.kernels.SGHMC(model, step_size=1e-4, batch_size=64, steps_per_draw=5)
    return {
        "NUTS": bnn.sample(NUTS(model), *data.train, warmup=200, draws=200, chains=2, **quiet),
        "SGHMC": bnn.sample(sghmc, *data.train, warmup=10, draws=40, chains=2, **quiet),
        "Laplace <b>": bnn.fit(bnn.approximations.Laplace(model), *data.train, **quiet),
    }


@pytest.fixture(scope="session")
def page(data, posteriors):
    words = {"NUTS": {"command": "bayesnn sample linear --data diabetes", "data": "a & b"}}
    return bnn.report.page(
        posteriors, *data.test, train=data.train, reference="NUTS", words=words, gradients=20
    )


QUICK = {"warmup": 20, "draws": 20, "chains": 2, "seed": 0, "progress": False}


def quick_run(model, data, **options):
    """A run of an exact sampler that is too short to be believed, and long enough to be drawn."""
    kernel = bnn.kernels.HMC(model, step_size=0.02, num_leapfrogs=5)
    return bnn.sample(kernel, *data.train, **QUICK, **options)


@pytest.fixture(scope="session")
def gap():
    """Data of one input, and a run on them that kept function values besides its weights."""
    data = bnn.data.load("gap")
    model = bnn.models.mlp(hidden=(16,))
    return data, quick_run(model, data, keep=bnn.Keep(probe=data.test))


@pytest.fixture(scope="session")
def surface():
    """Data of two inputs in the data's units, and a run."""
    x = np.random.default_rng(0).uniform(-1, 1, size=(60, 2)).astype(np.float32)
    data = bnn.data.from_arrays(x, x[:, 0] * x[:, 1], name="saddle", test_fraction=0.3)
    return data, quick_run(bnn.models.mlp(hidden=(4,)), data)


@pytest.fixture(scope="session")
def wine():
    """Data of three classes and 13 inputs, and a run."""
    data = bnn.data.load("wine")
    return data, quick_run(bnn.models.logistic(classes=3), data)


@pytest.fixture(scope="session")
def large():
    """4 × 1000 draws of a network of 10⁴ weights, and the rows it is judged at.

    The draws are noise around one network: what counts is their number.
    """
    generator = np.random.default_rng(0)
    inputs, hidden = 8, 1000
    shapes = {
        "net/Dense_0.kernel": (inputs, hidden),
        "net/Dense_0.bias": (hidden,),
        "net/Dense_1.kernel": (hidden, 1),
        "net/Dense_1.bias": (1,),
        "noise_scale": (),
    }
    x = generator.normal(size=(200, inputs)).astype(np.float32)
    y = np.tanh(x[:, 0]).astype(np.float32)
    model = bnn.models.mlp(hidden=(hidden,))
    few = bnn.sample(
        NUTS(model, max_tree_depth=1), x, y, warmup=1, draws=4, chains=2, progress=False
    )
    names = few.provenance["site_names"]
    draws = {}
    for name, site in names.items():
        shape = shapes.get(site, few.draws[name].shape[2:])
        noise = generator.normal(size=(4, 1000, *shape)).astype(np.float32)
        draws[site] = 0.3 + 0.05 * np.abs(noise) if site == "noise_scale" else 0.05 * noise
    statistics = {
        "energy": generator.normal(size=(4, 1000)),
        "lp": generator.normal(size=(4, 1000)),
    }
    attributes = few.provenance | {"draws": 1000, "chains": 4}
    return bnn.Posterior.from_arrays(draws, statistics, attributes, model=model), x, y
