"""`--prior`: families of one variance, so that a study compares their shapes alone."""

import numpy as np
import pytest
from jax import random
from numpyro import handlers

from bayesnn_ppl.cli import main
from bayesnn_ppl.settings.models import zoo
from bayesnn_ppl.settings.models.prior_families import FAMILIES, prior_of


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_the_variance_that_is_asked_for(family):
    prior = prior_of(family, 0.09)
    if family == "hierarchical":
        model = zoo.build(
            "linear", {"prior": family, "prior_scale": 0.3}, task="regression", classes=None
        )
        trace = handlers.trace(handlers.seed(model, random.key(0))).get_trace(np.ones((3, 2)))
        (scale,) = {name: s for name, s in trace.items() if name.endswith("prior_scale")}.values()
        assert scale["fn"].variance + scale["fn"].mean ** 2 == pytest.approx(0.09)  # E τ²
        return
    fn = prior("Dense_0.kernel", (3, 2))
    if family == "cauchy":
        np.testing.assert_allclose(fn.cdf(0.3 * 0.6744898), 0.75, rtol=1e-5)
    else:
        np.testing.assert_allclose(fn.variance, 0.09, rtol=1e-5)
        np.testing.assert_allclose(fn.mean, 0, atol=1e-8)


def test_the_scale_and_the_default():
    assert zoo._prior({"prior": "laplace", "prior_scale": 0.3}) == prior_of("laplace", 0.3**2)
    assert zoo._prior({"prior": "laplace"}) == prior_of("laplace", 1.0)
    assert zoo._prior({}) is None
    with pytest.raises(ValueError, match="no family of priors `normall`"):
        prior_of("normall", 1.0)


def test_the_command_refuses_an_unknown_family(capsys):
    assert main(["prior", "mlp", "--prior", "laplas"]) == 2
    assert "laplace" in capsys.readouterr().err
