"""What is True or False refuses words: "no" is true in Python, and would mean yes."""

import inspect

import flax.linen as nn
import numpyro.distributions as dist
import pytest
from sklearn.base import BaseEstimator

import bayesnn_ppl as bnn
from bayesnn_ppl.core.arguments import strict_switches

# Flax and NumPyro make the constructors of their classes, and scikit-learn's check when they fit.
OTHERS = (nn.Module, dist.Distribution, BaseEstimator, bnn.Calibration)


def public():
    """Name -> function, constructor or method that a user calls."""
    modules = [bnn] + [m for m in map(bnn.__getattribute__, bnn.__all__) if inspect.ismodule(m)]
    found = {}
    for module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.isclass(thing):
                found[name] = thing
            elif thing.__module__.startswith(bnn.__name__):
                if not issubclass(thing, OTHERS):
                    found[name] = thing
                methods = inspect.getmembers(thing, inspect.isfunction)
                found |= {f"{name}.{m}": f for m, f in methods if not m.startswith("_")}
    return {name: thing for name, thing in found.items() if callable(thing)}


SWITCHES = {
    f"{name}-{argument.name}": (thing, argument.name)
    for name, thing in public().items()
    if getattr(thing, "__module__", "").startswith(bnn.__name__)
    for argument in inspect.signature(thing).parameters.values()
    if argument.annotation in (bool, bool | None)
}


def test_the_switches_are_found():
    assert len(SWITCHES) > 60
    assert {"sample-progress", "Posterior.predict-raw", "HMC-adapt_step_size"} <= SWITCHES.keys()


@pytest.mark.parametrize("value", ["no", 1])
@pytest.mark.parametrize(("callee", "switch"), SWITCHES.values(), ids=SWITCHES)
def test_a_switch_is_true_or_false(callee, switch, value):
    others = {
        a.name: False
        for a in inspect.signature(callee).parameters.values()
        if a.default is a.empty and a.kind is not a.VAR_POSITIONAL and a.kind is not a.VAR_KEYWORD
    }
    with pytest.raises(TypeError, match=f"`{switch}` of `.*` must be True or False.*{value!r}"):
        callee(**others | {switch: value})


def test_by_position_too():
    estimator = bnn.sklearn.BayesianMLPRegressor()
    with pytest.raises(TypeError, match="`return_std` of `predict` must be True or False"):
        estimator.predict([[0.0]], "no")


def test_others_by_position_are_no_switches():
    @strict_switches
    def given(first, *rest, loud: bool = False):
        return first, rest, loud

    assert given(1, "no", "no", loud=True) == (1, ("no", "no"), True)
    with pytest.raises(TypeError, match="`loud` of `given` must be True or False, not 2"):
        given(1, "no", loud=2)


def test_an_estimator_refuses_when_it_fits(regression):
    with pytest.raises(TypeError, match="`progress` of `sample` must be True or False, not 'no'"):
        bnn.sklearn.BayesianMLPRegressor(progress="no").fit(*regression)


def test_a_switch_may_stay_open():
    """Where None has a meaning, the error says so."""
    with pytest.raises(TypeError, match="`averaged` .* must be True or False, or None, not 'no'"):
        bnn.metrics.predictive_entropy([[0.5, 0.5]], averaged="no")
    assert bnn.metrics.predictive_entropy([[0.5, 0.5]], averaged=None).shape == (1,)
