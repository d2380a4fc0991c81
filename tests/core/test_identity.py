"""Equal models meet, and models that differ in anything that is traced do not."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.distributions.transforms import AffineTransform
from numpyro.infer import AIES, HMC, NUTS
from numpyro.infer.reparam import LocScaleReparam

import bayesnn_ppl as bnn
from bayesnn_ppl.core.identity import describe, identity_key

SCALE = 1.0


def reads_a_global(x):
    return SCALE * x


def calls_another(x):
    return [reads_a_global(v) for v in x]


def recursive(n):
    return n if n == 0 else recursive(n - 1)


class Scaled:
    def __init__(self, scale):
        self.scale = scale

    def model(self, x):
        return self.scale * x

    def __call__(self, x):
        return self.scale * x


def closure(scale, default=1.0):
    def model(x, offset=default):
        return scale * x + offset

    return model


@pytest.mark.parametrize("function", [reads_a_global, calls_another])
def test_a_changed_global_makes_another_model(function, monkeypatch):
    before = identity_key(function)
    assert identity_key(function) == before
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert identity_key(function) != before


EQUAL = {
    "closures": (lambda: closure(1.0), lambda: closure(2.0)),
    "defaults": (lambda: closure(1.0, 1.0), lambda: closure(1.0, 2.0)),
    "arrays": (lambda: closure(np.ones(3)), lambda: closure(np.zeros(3))),
    "objects": (lambda: Scaled(1.0), lambda: Scaled(2.0)),
    "bound methods": (lambda: Scaled(1.0).model, lambda: Scaled(2.0).model),
    "partials": (lambda: partial(max, 1), lambda: partial(max, 2)),
    "models": (lambda: bnn.models.mlp(hidden=(3,)), lambda: bnn.models.mlp(hidden=(4,))),
    "temperatures": (
        lambda: bnn.cold(bnn.models.linear(), 0.5),
        lambda: bnn.cold(bnn.models.linear(), 0.25),
    ),
    "distributions": (lambda: dist.Normal(0, 1), lambda: dist.Normal(0, 2)),
    "kinds of distribution": (lambda: dist.Normal(0, 1), lambda: dist.Cauchy(0, 1)),
    "kernels": (lambda: NUTS(reads_a_global), lambda: NUTS(reads_a_global, max_tree_depth=5)),
    "kinds of kernel": (lambda: NUTS(reads_a_global), lambda: HMC(reads_a_global)),
    "mass matrices": (
        lambda: HMC(closure(1.0), inverse_mass_matrix=jnp.ones(2)),
        lambda: HMC(closure(1.0), inverse_mass_matrix=2 * jnp.ones(2)),
    ),
    "moves": (
        lambda: AIES(reads_a_global, moves={AIES.StretchMove(): 1.0}),
        lambda: AIES(reads_a_global, moves={AIES.DEMove(): 1.0}),
    ),
    "NaN": (lambda: float("nan"), lambda: 1.0),
    "kinds of one": (lambda: np.float32(1), lambda: np.int32(1)),
    "truth and one": (lambda: True, lambda: 1),
}


@pytest.mark.parametrize("case", EQUAL)
def test_equal_parts_meet_and_others_do_not(case):
    make, other = EQUAL[case]
    assert identity_key(make()) == identity_key(make())
    assert hash(identity_key(make())) == hash(identity_key(make()))
    assert identity_key(make()) != identity_key(other())


def test_cycles_end():
    assert identity_key(recursive) == identity_key(recursive)
    knot = []
    knot.append(knot)
    assert identity_key(knot) == identity_key(knot)


def test_a_description_knows_models_apart():
    assert describe(bnn.models.linear()) == describe(bnn.models.linear())
    assert describe(bnn.models.linear()) != describe(bnn.models.linear(temperature=0.5))
    assert describe(reads_a_global) != describe(calls_another)
    assert " at 0x" not in describe(bnn.models.mlp(prior=reads_a_global))


def reparametrised(centred):
    return handlers.reparam(reads_a_global, config={"w": LocScaleReparam(centred)})


DESCRIBED = {
    **{case: EQUAL[case] for case in ("closures", "arrays", "objects")},
    **{case: EQUAL[case] for case in ("bound methods", "temperatures")},
    "partials": (lambda: partial(calls_another, 1), lambda: partial(calls_another, 2)),
    "partials of others": (lambda: partial(calls_another), lambda: partial(reads_a_global)),
    "handlers": (lambda: reparametrised(0.0), lambda: reparametrised(0.5)),
    "weights of rows": (
        lambda: handlers.scale(reads_a_global, 1.0),
        lambda: handlers.scale(reads_a_global, 2.0),
    ),
    "keys": (lambda: closure(jax.random.key(0)), lambda: closure(jax.random.key(1))),
}


@pytest.mark.parametrize("case", DESCRIBED)
def test_a_description_knows_what_a_model_takes_from_around_it(case):
    make, other = DESCRIBED[case]
    assert describe(make()) == describe(make())
    assert " at 0x" not in describe(make())
    assert describe(make()) != describe(other())


@pytest.mark.parametrize("function", [reads_a_global, calls_another])
def test_a_description_knows_globals(function, monkeypatch):
    before = describe(function)
    assert describe(function) == before
    monkeypatch.setitem(globals(), "unread", 2.0)
    assert describe(function) == before
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert describe(function) != before


def test_a_description_of_a_cycle_ends():
    assert describe(recursive) == describe(recursive)


WRAPPED = [
    dist.HalfNormal(1.0).expand([3]),
    dist.HalfNormal(2.0).expand([3]),
    dist.HalfNormal(1.0).expand([2]),
    dist.HalfNormal(1.0).expand([3]).to_event(1),
    dist.TransformedDistribution(dist.Gamma(2.0, 1.0), AffineTransform(1.0, 2.0)),
    dist.TransformedDistribution(dist.Gamma(2.0, 1.0), AffineTransform(1.0, 3.0)),
    dist.MixtureSameFamily(dist.Categorical(np.ones(2) / 2), dist.Normal(np.zeros(2), 1.0)),
    dist.MixtureSameFamily(dist.Categorical(np.ones(2) / 2), dist.Normal(np.zeros(2), 2.0)),
]


def test_a_description_knows_wrapped_distributions_and_arrays_apart():
    texts = [describe(one) for one in WRAPPED]
    assert len(set(texts)) == len(WRAPPED)
    assert not [text for text in texts if " at 0x" in text]
    again = dist.TransformedDistribution(dist.Gamma(2.0, 1.0), AffineTransform(1.0, 2.0))
    assert describe(again) == texts[4] and identity_key(again) == identity_key(WRAPPED[4])
    assert identity_key(WRAPPED[4]) != identity_key(WRAPPED[5])
    assert describe(np.arange(9.0)) != describe(np.zeros(9))
    assert describe(np.arange(9.0)) == describe(np.arange(9.0))
