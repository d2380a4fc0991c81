r"""The Fisher information of what a model observes, in the parameters of its distribution.

Where y has the distribution p(y|φ) and φ depends on the weights, the generalised Gauss-Newton
matrix is Σ_n J_nᵀ F(φ_n) J_n with J = ∂φ/∂θ and F the Fisher information of φ. It is the same in
whatever coordinates φ is written, so a model's own distribution will do, and the network's
outputs need not be found. For the Gaussian mean, and the logits of classes, it equals the matrix
that has the Hessian of -log p in the network's outputs in place of F.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.interpreters import partial_eval
from jax.lax import stop_gradient

from bayesnn_ppl.likelihoods.common.observed import base_distribution
from bayesnn_ppl.likelihoods.common.pseudo import PseudoLikelihood

__all__ = ["moved_parameters", "refuse_unknown", "whitened_parameters"]

# Each function gives the parameters φ of a distribution times a root of its Fisher information,
# whose own derivative does not count, and parameters that are taken as known. Logits apart,
# parameters are orthogonal, and each has the shape of y.
type Whitened = tuple[list[Any], list[Any]]


def _normal(fn: Any) -> Whitened:
    scale = stop_gradient(fn.scale)
    return [fn.loc / scale, math.sqrt(2) * fn.scale / scale], []


def _laplace(fn: Any) -> Whitened:
    scale = stop_gradient(fn.scale)
    return [fn.loc / scale, fn.scale / scale], []


def _student_t(fn: Any) -> Whitened:
    scale, df = stop_gradient(fn.scale), stop_gradient(fn.df)
    return [
        fn.loc / scale * jnp.sqrt((df + 1) / (df + 3)),
        fn.scale / scale * jnp.sqrt(2 * df / (df + 3)),
    ], [fn.df]


def _poisson(fn: Any) -> Whitened:
    return [fn.rate * stop_gradient(fn.rate) ** -0.5], []


def _gamma_poisson(fn: Any) -> Whitened:
    return [fn.mean * stop_gradient(fn.variance) ** -0.5], [fn.concentration]


def _bernoulli(fn: Any) -> Whitened:
    p = stop_gradient(fn.probs)
    return [fn.logits * jnp.sqrt(p * (1 - p))], []


def _categorical(fn: Any) -> Whitened:
    """The Fisher information diag p - p pᵀ is S Sᵀ with S = diag √p - p √pᵀ."""
    p = stop_gradient(fn.probs)
    return [jnp.sqrt(p) * (fn.logits - jnp.sum(p * fn.logits, -1, keepdims=True))], []


_FAMILIES: dict[type, Callable[[Any], Whitened]] = {
    dist.Normal: _normal,
    dist.LogNormal: _normal,  # of log y, with the same parameters
    dist.Laplace: _laplace,
    dist.StudentT: _student_t,
    dist.Poisson: _poisson,
    dist.GammaPoisson: _gamma_poisson,
    dist.BernoulliLogits: _bernoulli,
    dist.BernoulliProbs: _bernoulli,
    dist.CategoricalLogits: _categorical,
    dist.CategoricalProbs: _categorical,
}


def _family(fn: Any) -> Callable[[Any], Whitened]:
    base = type(base_distribution(fn))
    found = next((f for kind, f in _FAMILIES.items() if issubclass(base, kind)), None)
    if found is None:
        raise KeyError(base.__name__)
    return found


def refuse_unknown(fn: Any) -> None:
    """Raise ValueError unless the Fisher information of the observed distribution is known."""
    inside = fn
    while True:
        if isinstance(inside, PseudoLikelihood):
            raise ValueError(
                f"The model trains by the pseudo-likelihood {type(inside).__name__}, which is "
                "not a distribution of `y` and has no Fisher information. Use the likelihood that "
                "it stands for, or another approximation."
            )
        if isinstance(inside, dist.MaskedDistribution):
            raise ValueError(
                "The observed distribution is masked, and the curvature would count the rows that "
                "the mask leaves out. Leave those rows out of the data."
            )
        inner = getattr(inside, "base_dist", None)
        if inside is base_distribution(inside) or inner is None:
            break
        inside = inner
    try:
        _family(fn)
    except KeyError as error:
        known = ", ".join(sorted({kind.__name__ for kind in _FAMILIES}))
        raise ValueError(
            f"The Fisher information of the observed distribution {error.args[0]} is not known "
            f"here: there is that of {known}. Use another likelihood, or `Variational`, which "
            "needs densities only."
        ) from None


def whitened_parameters(fn: Any, which: tuple[int, ...] = ()) -> Any:
    """Rows u (B, R) with (∂u/∂θ)ᵀ(∂u/∂θ) the Fisher information in θ, added up over rows.

    Args:
        fn: the observed distribution of B rows.
        which: the parameters to take, all where none is named.
    """
    blocks = _blocks(fn)[0]
    return jnp.concatenate([blocks[i] for i in which or range(len(blocks))], axis=1)


def _blocks(fn: Any) -> tuple[list[Any], list[Any]]:
    base = base_distribution(fn)
    moved, known = _family(fn)(base)
    # A parameter may be smaller than y, and is then broadcast against it; logits are larger.
    labels = isinstance(base, (dist.CategoricalLogits, dist.CategoricalProbs))
    shape = fn.shape() + (moved[0].shape[-1:] if labels else ())
    return [jnp.broadcast_to(a, shape).reshape(shape[0], -1) for a in moved], known


def moved_parameters(observed: Callable[[Any], Any], vector: Any) -> tuple[int, ...]:
    """Which parameters of `observed(vector)` depend on the vector, by tracing alone.

    Raises:
        ValueError: none does, or one does that the Fisher information takes as known.
    """

    def parameters(vector: Any) -> list[Any]:
        moved, known = _blocks(observed(vector))
        return [*moved, *known, jnp.zeros(len(moved))]

    jaxpr: Any = jax.make_jaxpr(parameters)(vector).jaxpr
    outputs = len(jaxpr.outvars) - 1
    count: Any = jaxpr.outvars[-1].aval
    moved = count.shape[0]
    depends = [
        bool(partial_eval.dce_jaxpr(jaxpr, [i == j for j in range(outputs + 1)])[1][0])
        for i in range(outputs)
    ]
    if any(depends[moved:]):
        raise ValueError(
            "The degrees of freedom, or the dispersion, of the observed distribution are outputs "
            "of the network, and their curvature is not known here. Give them a prior of their own "
            "or a fixed value."
        )
    found = tuple(i for i in range(moved) if depends[i])
    if not found:
        raise ValueError(
            "The distribution of `y` does not depend on the parameters that were chosen: there is "
            "no curvature to take. Choose others by `layers=`."
        )
    return found
