"""The Fisher information of each family, against the variance of its score."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.inference.approximations.curvature.fisher import (
    moved_parameters,
    refuse_unknown,
    whitened_parameters,
)
from bayesnn_ppl.likelihoods.common.pseudo import PseudoLikelihood

# A distribution as a function of a vector that its parameters depend on, not linearly.
FAMILIES = {
    "Normal": (lambda v: dist.Normal(v[0] ** 2, jnp.exp(v[1])), 2),
    "LogNormal": (lambda v: dist.LogNormal(v[0] ** 2, jnp.exp(v[1])), 2),
    "Laplace": (lambda v: dist.Laplace(v[0] ** 2, jnp.exp(v[1])), 2),
    "StudentT": (lambda v: dist.StudentT(4.0, v[0] ** 2, jnp.exp(v[1])), 2),
    "Poisson": (lambda v: dist.Poisson(jnp.exp(v[0])), 1),
    "NegativeBinomial": (lambda v: dist.NegativeBinomial2(jnp.exp(v[0]), 3.0), 1),
    "BernoulliLogits": (lambda v: dist.Bernoulli(logits=2 * v[0]), 1),
    "BernoulliProbs": (lambda v: dist.Bernoulli(probs=jax.nn.sigmoid(v[0])), 1),
    "Categorical": (lambda v: dist.Categorical(logits=v + jnp.arange(3)), 3),
    "CategoricalProbs": (lambda v: dist.Categorical(probs=jax.nn.softmax(v)), 3),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_information_is_the_variance_of_the_score(name):
    family, size = FAMILIES[name]
    vector, count = np.linspace(0.7, -0.4, size), 100_000
    with arithmetic(float64=True):
        j = jax.jacobian(lambda v: whitened_parameters(family(v).expand((1,))))(vector)[0]
        information = np.asarray(j.T @ j)
        y = family(vector).sample(jax.random.key(0), (count,))
        score = jax.jit(jax.vmap(jax.grad(lambda v, y: family(v).log_prob(y)), (None, 0)))
        products = np.einsum("ni,nj->nij", *(np.asarray(score(vector, y)),) * 2)
    error = products.std(0) / np.sqrt(count)
    assert np.abs((information - products.mean(0)) / (error + 1e-9)).max() < 5
    assert (np.diag(products.mean(0)) > 10 * np.diag(error)).all()  # 10 % would be seen


def test_only_parameters_that_move_are_taken():
    assert moved_parameters(lambda v: dist.Normal(v[:1], 2.0), jnp.ones(2)) == (0,)
    assert moved_parameters(lambda v: dist.Normal(v[:1], jnp.exp(v[1:])), jnp.ones(2)) == (0, 1)
    with pytest.raises(ValueError, match="does not depend"):
        moved_parameters(lambda v: dist.Normal(jnp.zeros(1), 2.0), jnp.ones(2))
    with pytest.raises(ValueError, match="degrees of freedom"):
        moved_parameters(lambda v: dist.StudentT(jnp.exp(v[:1]), v[1:], 1.0), jnp.ones(2))


class Pseudo(PseudoLikelihood):
    def log_prob(self, value):
        return -jnp.abs(value)


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (Pseudo(dist.Normal(jnp.zeros(2), 1.0)), "pseudo-likelihood Pseudo"),
        (dist.Normal(jnp.zeros(2), 1.0).mask(jnp.array([True, False])), "masked"),
        (dist.Gumbel(jnp.zeros(2), 1.0), "Gumbel is not known"),
    ],
)
def test_what_has_no_information_is_refused(fn, words):
    with pytest.raises(ValueError, match=words):
        refuse_unknown(fn)
