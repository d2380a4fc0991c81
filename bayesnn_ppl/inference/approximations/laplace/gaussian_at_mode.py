"""The steps from a mode to draws of the Gaussian around it, which approximations share."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer.util import constrain_fn

from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.inference.approximations.curvature.dense import DenseCurvature
from bayesnn_ppl.inference.approximations.curvature.evidence import maximise
from bayesnn_ppl.inference.approximations.curvature.gaussian import (
    AroundMode,
    curvature_at,
    likelihood_terms,
    noise_site,
    unit_of,
)
from bayesnn_ppl.inference.approximations.curvature.local import Point
from bayesnn_ppl.inference.approximations.curvature.prior import prior_curvature
from bayesnn_ppl.inference.approximations.curvature.selection import Selection
from bayesnn_ppl.inference.approximations.laplace.evidence_tuning import (
    by_group,
    curvature_findings,
    for_tuning,
    groups_of,
    tuning_findings,
)
from bayesnn_ppl.inference.approximations.laplace.marginal_likelihood import (
    DuringTraining,
    Hyperparameters,
    train_by_evidence,
)
from bayesnn_ppl.inference.approximations.trained_networks.starting_modes import Mode
from bayesnn_ppl.inference.fitting.approximation import Finding, Fitted
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.nn.linearised import linearised_at

__all__ = ["NO_NOISE", "Found", "Settings", "as_fitted", "gaussian_around"]

_SAMPLES = 1  # a stream of randomness
NO_NOISE = (
    "`tune_noise=True` needs a site that is the one noise scale of the model; here it is fixed, "
    "one of several, or a function of inputs. Give the likelihood a prior of one scale, "
    "`likelihoods.gaussian()`, or leave `tune_noise` out."
)


class Settings(NamedTuple):
    """Of the Gaussian around a mode; see `Laplace`."""

    structure: str
    rank: int
    prior_precision: str
    tune_noise: bool
    when: str | DuringTraining

    @property
    def tunes(self) -> bool:
        """Whether anything is tuned by the evidence."""
        return self.prior_precision != "fixed" or self.tune_noise


class Found(NamedTuple):
    """What `gaussian_around` gives.

    Attributes:
        gaussian: the normal distribution.
        mode: where it is, and how that was found.
        values: constrained values of all latent sites there, the noise tuned.
        noise: the site of the tuned noise, if it was tuned.
        normal_prior: whether the prior of the chosen parameters is normal.
        record: JSON-ready facts.
        findings: what did not go well.
        interrupted: whether the callback ended the training of the mode, or Ctrl-C or the callback
            the tuning.
    """

    gaussian: AroundMode
    mode: Mode
    values: dict[str, Any]
    noise: str | None
    normal_prior: bool
    record: dict[str, Any]
    findings: tuple[Finding, ...]
    interrupted: bool


def gaussian_around(
    problem: Problem,
    selection: Selection,
    mode: Mode,
    settings: Settings,
    *,
    recentre: bool = False,
) -> Found:
    """The Gaussian around a mode, with hyperparameters tuned.

    Args:
        problem: the model and its data.
        selection: the parameters that it is about.
        mode: where.
        settings: see `Laplace`.
        recentre: whether the model is linear in these parameters with Gaussian noise, so that
            the Gaussian is to be exact whatever the mode is.

    Raises:
        ValueError: a prior that the structure has no place for, or whose precisions cannot be
            tuned; no noise to tune.
    """
    local = selection.local
    values = constrained(problem, mode)
    centre = local.ravel({name: values[name] for name in local.sites})
    fixed = {name: values[name] for name in values if name not in local.sites}
    prior = prior_curvature(
        local, centre, fixed, problem.x, problem.y, coupling=settings.structure == "full"
    )
    if not prior.normal and (settings.prior_precision != "fixed" or settings.when != "post hoc"):
        raise ValueError(
            "The evidence tunes the precisions of a normal prior, and this model's is not "
            'one of independent normal parameters: use `prior_precision="fixed"`, or '
            "`priors.normal(...)`."
        )
    point = Point(centre, unit_of(selection, prior, settings.structure), fixed)
    if prior.coupled is not None:
        point = point._replace(unit=np.ones_like(centre))
    noise = noise_site(problem, local, point, values)
    if settings.tune_noise and noise is None:
        raise ValueError(NO_NOISE)
    groups = groups_of(local, settings.prior_precision)
    measured = partial(
        curvature_at,
        problem,
        selection,
        structure=settings.structure,
        rank=settings.rank,
    )
    started = Hyperparameters(
        np.zeros(int(groups.max()) + 1, centre.dtype), np.zeros((), centre.dtype)
    )
    record: dict[str, Any] = {}
    findings = [*selection.findings, *mode.findings, *prior.findings]
    interrupted = mode.interrupted
    if isinstance(settings.when, DuringTraining):
        point, started, record, ended_early = train_by_evidence(
            problem,
            local,
            point,
            prior,
            settings.when,
            groups=groups,
            noise=noise,
            curvature=lambda at: for_tuning(measured(at), settings.prior_precision),
            tune_prior=settings.prior_precision != "fixed",
            tune_noise=settings.tune_noise,
        )
        findings += ended_early
        interrupted |= bool(ended_early)
        prior = prior_curvature(local, point.centre, fixed, problem.x, problem.y, coupling=False)
    terms = likelihood_terms(problem, local, point, prior, gaussian=settings.tune_noise or recentre)
    curvature = measured(point)
    root = None
    if prior.coupled is not None:
        root = np.linalg.cholesky(prior.coupled)
        curvature = curvature.in_prior(root)
    if settings.tunes and settings.when == "post hoc":
        tuned = maximise(
            curvature if recentre else for_tuning(curvature, settings.prior_precision),
            terms,
            groups,
            tune_prior=settings.prior_precision != "fixed",
            tune_noise=settings.tune_noise,
            recentre=recentre,
        )
        started = Hyperparameters(tuned.log_factors, np.asarray(tuned.log_noise, centre.dtype))
        findings += tuning_findings(tuned, settings.prior_precision)
    factors = jnp.asarray(np.exp(started.log_factors)[groups])
    noise_factor = jnp.asarray(np.exp(started.log_noise))
    if isinstance(curvature, DenseCurvature):
        curvature = curvature.factored(factors, noise_factor)
    gaussian = AroundMode(
        local,
        point,
        curvature,
        terms,
        factors,
        noise_factor,
        root,
        recentre,
    )
    values = values | local.unravel(np.asarray(gaussian.mean))
    tuned_site = noise.site if noise is not None and settings.tune_noise else None
    if noise is not None and settings.tune_noise:
        tuned_scale = noise.scale * float(np.exp(-0.5 * started.log_noise))
        values = values | {noise.site: np.asarray(tuned_scale, centre.dtype)}
        record["noise"] = tuned_scale
    if settings.prior_precision in ("scalar", "layer"):
        record["prior_factors"] = by_group(local, started.log_factors, settings.prior_precision)
    gain = gaussian.newton_gain if not recentre else 0.0
    findings += curvature_findings(gaussian, gain, tuned=settings.tunes)
    record |= {
        "structure": settings.structure,
        "layers": [layer.name for layer in local.layers],
        "dimension": local.dimension,
        "log_evidence": gaussian.log_evidence,
        "log_likelihood": float(terms.log_likelihood),
        "newton_gain": gain,
        "mode": mode.record,
    }
    return Found(
        gaussian, mode, values, tuned_site, prior.normal, record, tuple(findings), interrupted
    )


def constrained(problem: Problem, mode: Mode) -> dict[str, Any]:
    """Values of the latent sites at a mode, in the model's space."""
    sites = _constrained(StaticValue(problem.model), mode.position, problem.x, problem.y)
    return {name: np.asarray(site) for name, site in sites.items()}


# Compiled as a whole: a model that runs without `jit` compiles operation by operation.
@partial(jax.jit, static_argnames="model")
def _constrained(model: StaticValue, z: Mapping[str, Any], x: Any, y: Any) -> dict[str, Any]:
    sites = constrain_fn(model.value, (x, y), {}, z)
    return {name: sites[name] for name in z}


def as_fitted(problem: Problem, found: Found, *, draws: int, predictive: str) -> Fitted:
    """Draws of the Gaussian, the other sites at the mode, and the model to predict by."""
    local, findings = found.gaussian.local, list(found.findings)
    record = dict(found.record)
    model = None
    if predictive == "linearised":
        try:
            model = linearised_at(problem.model, found.values, problem.x, local.sites)
        except ValueError as error:
            predictive = "sampled"
            findings.append(Finding("remark", f"Predictions are sampled, not linearised. {error}"))
    record |= {"predictive": predictive, "sites": list(local.sites)}
    sampled = local.unravel(found.gaussian.sample(problem.key(_SAMPLES), draws))
    positions = {}
    for name, value in found.mode.position.items():
        if name in local.sites:
            positions[name] = sampled[name][None]
        else:
            where = value
            if name == found.noise:
                where = _unconstrained(problem, name, found.values)
            positions[name] = np.broadcast_to(where, (1, draws, *np.shape(where))).copy()
    return Fitted(
        positions=positions,
        record=record,
        findings=tuple(findings),
        interrupted=found.interrupted,
        model=model,
        centre=None if model is None else {n: a[None] for n, a in found.values.items()},
    )


def _unconstrained(problem: Problem, name: str, values: dict[str, Any]) -> np.ndarray:
    substituted = handlers.substitute(problem.model, data=values)
    seeded = handlers.seed(substituted, jax.random.key(0))
    site = handlers.trace(seeded).get_trace(problem.x, problem.y)[name]
    return np.asarray(biject_to(site["fn"].support).inv(values[name]))
