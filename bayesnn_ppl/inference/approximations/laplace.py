"""The Laplace approximation: a normal law around a mode, with the curvature found there."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to
from numpyro.infer.util import constrain_fn

from bayesnn_ppl.arguments import near_misses, whole_number
from bayesnn_ppl.inference.approximations.base import Finding, Fitted, Problem
from bayesnn_ppl.inference.approximations.linearised import linearised_at
from bayesnn_ppl.inference.approximations.marginal_likelihood import (
    DuringTraining,
    Hyperparameters,
    train_by_evidence,
)
from bayesnn_ppl.inference.approximations.maximum_a_posteriori import (
    MAP,
    Mode,
    check_mode,
    find_mode,
)
from bayesnn_ppl.inference.curvature.around import (
    AroundMode,
    Noise,
    check_structure,
    curvature_at,
    likelihood_terms,
    noise_site,
    unit_of,
)
from bayesnn_ppl.inference.curvature.evidence import maximise
from bayesnn_ppl.inference.curvature.local import LocalProgram, Point
from bayesnn_ppl.inference.curvature.low_rank import LowRankCurvature
from bayesnn_ppl.inference.curvature.prior import prior_curvature
from bayesnn_ppl.inference.curvature.selection import Selection, check_layers, select
from bayesnn_ppl.posterior import Posterior
from bayesnn_ppl.temperature import Model

__all__ = ["Laplace"]

_STRUCTURES = ("full", "diagonal", "block", "kfac", "low_rank")
_PREDICTIVES = ("linearised", "sampled")
_TUNED = ("fixed", "scalar", "layer", "element")
_RANK = 50
_DRAWS = 100
_FAR_FROM_A_MODE = 0.05  # nats for each parameter, by which a Newton step would gain
_SAMPLES = 1  # streams of randomness


class Found(NamedTuple):
    """What `Laplace.around` gives.

    Attributes:
        law: the normal law.
        mode: where it is, and how that was found.
        values: constrained values of all latent sites there, the noise tuned.
        noise: the site of the tuned noise, if it was tuned.
        normal_prior: whether the prior of the chosen parameters is normal.
        record: JSON-ready facts.
        findings: what did not go well.
    """

    law: AroundMode
    mode: Mode
    values: dict[str, Any]
    noise: str | None
    normal_prior: bool
    record: dict[str, Any]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Laplace:
    r"""A normal law around the mode of the posterior, with its curvature there.

        q(θ) = N(θ*, P⁻¹),    P = Σ_n w_n J_nᵀ F_n J_n - ∇² log p(θ*)

    with J_n the derivative in the weights of the parameters of the distribution of y_n, F_n their
    Fisher information (so P is the generalised Gauss-Newton matrix, and the likelihood's part is
    never negative), and w_n what the program weights row n by: 1/T of `tempered(T)`. The prior's
    Hessian is exact; `cold` weights it too. Predictions have the untempered likelihood.

    The network's parameters are taken; a noise scale, or scales of a hierarchical prior, stay at
    the mode. The log evidence, conditional on these and on weights outside `layers`, is

        log Z = log p(y|θ*) + log p(θ*) + (d/2) log 2π - ½ log |P|
              = log p(y|θ*) - ½ [log |P| / |P₀| + (θ* - μ₀)ᵀ P₀ (θ* - μ₀)],   normal prior

    Linearised predictions, f(x, θ*) + J(x)(θ - θ*), are the default: the law is exact for that
    model (and the Gauss-Newton matrix is its Hessian), while drawn weights in the network itself
    underfit badly where the law is wide (Immer et al., 2021a). Draws are exact, and so is what is
    computed from them but for their number.

    Cost: one pass over the data for R outputs in a row: R backward passes ("kfac"), or R gradients
    of every row ("full", "block", "diagonal"); memory d² for "full". It fails where the posterior
    is not one peak around θ*, and where θ* is not a mode: `diagnose` says how far from one it is.

    Args:
        model: a NumPyro program that keeps the model contract.
        structure: of P: "full"; "block", one for each layer; "kfac", Kronecker factors of dense
            layers and convolutions; "diagonal"; "low_rank", the largest eigenvalues in units of
            the prior's precision, and the prior beside them.
        layers: whose parameters: None for all, "last", or patterns of names such as "Dense_0.*".
        rank: eigenvalues that "low_rank" keeps, by default 50.
        mode: settings of `MAP`, or the posterior of a fit of this model, where its first draw is
            θ*. None for `MAP()`.
        draws: how many.
        predictive: "linearised" or "sampled". A program without one Flax Linen network has no
            linearised predictions and says so.
        prior_precision: "fixed"; or factors of the normal prior's precisions by which the evidence
            is greatest: "scalar", one of all; "layer", one of each layer; "element", one of each
            parameter.
        tune_noise: whether the scale of Gaussian noise, a site of the program, is tuned too.
        when: "post hoc", at the mode that the program's own prior has; or `DuringTraining(...)`,
            where the mode follows.

    Raises:
        TypeError, ValueError: an argument is not what it must be.

    References:
        MacKay (1992); Ritter, Botev and Barber (2018); Immer et al. (2021a), arXiv:2008.08400
        (linearised predictions), and (2021b), arXiv:2104.04975 (evidence); Daxberger et al. (2021),
        arXiv:2106.14806.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> data = bnn.data.load("diabetes")
        >>> posterior = bnn.fit(
        ...     bnn.approximations.Laplace(
        ...         bnn.models.mlp(hidden=(5,)), structure="kfac",
        ...         mode=bnn.approximations.MAP(epochs=20)),
        ...     *data.train, progress=False)
        >>> posterior.predict(data.test.x).mean.shape
        (111,)
    """

    model: Model
    _: KW_ONLY
    structure: str = "full"
    layers: str | Sequence[str] | None = None
    rank: int | None = None
    mode: MAP | Posterior | None = None
    draws: int = _DRAWS
    predictive: str = "linearised"
    prior_precision: str = "fixed"
    tune_noise: bool = False
    when: str | DuringTraining = "post hoc"

    def __post_init__(self) -> None:
        for field, known in (
            ("structure", _STRUCTURES),
            ("predictive", _PREDICTIVES),
            ("prior_precision", _TUNED),
        ):
            value = getattr(self, field)
            if value not in known:
                raise ValueError(
                    f"`Laplace({field}={value!r})` is unknown. {near_misses(str(value), known)}"
                )
        check_layers(self.layers, "Laplace")
        check_mode(self.mode, "Laplace")
        whole_number(self.draws, "`draws`", at_least=1)
        if self.rank is not None:
            whole_number(self.rank, "`rank`", at_least=1)
            if self.structure != "low_rank":
                raise ValueError(
                    f'`rank` is about structure="low_rank", and this one is "{self.structure}".'
                )
        if not isinstance(self.tune_noise, bool):
            raise TypeError(f"`tune_noise` is True or False, not {self.tune_noise!r}.")
        if self.when != "post hoc" and not isinstance(self.when, DuringTraining):
            raise ValueError(f'`when` is "post hoc" or `DuringTraining(...)`, not {self.when!r}.')
        if self.structure == "kfac" and self.prior_precision == "element":
            raise ValueError(
                'A Kronecker product has no place for a precision of each parameter: use "scalar" '
                'or "layer", or structure="diagonal".'
            )
        if self.when != "post hoc" and not self._tunes:
            raise ValueError(
                "`when=DuringTraining(...)` tunes by the evidence while the network is trained, "
                'but nothing is to be tuned: set `prior_precision="layer"` or `tune_noise=True`.'
            )

    @property
    def _tunes(self) -> bool:
        return self.prior_precision != "fixed" or self.tune_noise

    def solve(self, problem: Problem) -> Fitted:
        """Find the mode and its curvature, and draw; see `fit`."""
        found = self.around(problem)
        return as_fitted(problem, found, draws=self.draws, predictive=self.predictive)

    def around(self, problem: Problem, *, recentre: bool = False) -> Found:
        """The normal law itself, before draws are taken from it.

        Args:
            problem: the program and its data.
            recentre: whether the model is linear in the chosen parameters with Gaussian noise, so
                that the law is to be exact whatever θ* is.
        """
        selection = select(problem, check_layers(self.layers, "Laplace"))
        check_structure(selection, self.structure)
        self._check_tuning(problem)
        mode = find_mode(problem, self.mode)
        return self.around_mode(problem, selection, mode, recentre=recentre)

    def around_mode(
        self, problem: Problem, selection: Selection, mode: Mode, *, recentre: bool
    ) -> Found:
        """As `around`, where the mode is known."""
        local = selection.local
        values = constrained(problem, mode)
        centre = local.ravel({name: values[name] for name in local.sites})
        fixed = {name: values[name] for name in values if name not in local.sites}
        prior = prior_curvature(
            local, centre, fixed, problem.x, problem.y, coupling=self.structure == "full"
        )
        if self.prior_precision != "fixed" and not prior.normal:
            raise ValueError(
                "The evidence tunes the precisions of a normal prior, and this program's is not "
                'one of independent normal parameters: use `prior_precision="fixed"`, or '
                "`priors.normal(...)`."
            )
        point = Point(centre, unit_of(selection, prior, self.structure), fixed)
        if prior.coupled is not None:
            point = point._replace(unit=np.ones_like(centre))
        noise = self._noise(problem, local, point, values)
        groups = _groups(local, self.prior_precision)
        measured = partial(
            curvature_at,
            problem,
            selection,
            structure=self.structure,
            rank=self.rank or _RANK,
        )
        started = Hyperparameters(
            np.zeros(int(groups.max()) + 1, centre.dtype), np.zeros((), centre.dtype)
        )
        record: dict[str, Any] = {}
        if isinstance(self.when, DuringTraining):
            point, started, record = train_by_evidence(
                problem,
                local,
                point,
                prior,
                self.when,
                groups=groups,
                noise=noise,
                curvature=lambda at: _for_tuning(measured(at), self.prior_precision),
                tune_prior=self.prior_precision != "fixed",
                tune_noise=self.tune_noise,
            )
            prior = prior_curvature(
                local, point.centre, fixed, problem.x, problem.y, coupling=False
            )
        terms = likelihood_terms(problem, local, point, prior, gaussian=self.tune_noise or recentre)
        curvature = measured(point)
        root = None
        if prior.coupled is not None:
            root = np.linalg.cholesky(prior.coupled)
            curvature = curvature.in_prior(root)
        findings = [*selection.findings, *mode.findings, *prior.findings]
        if self._tunes and self.when == "post hoc":
            tuned = maximise(
                curvature if recentre else _for_tuning(curvature, self.prior_precision),
                terms,
                groups,
                tune_prior=self.prior_precision != "fixed",
                tune_noise=self.tune_noise,
                recentre=recentre,
            )
            started = Hyperparameters(tuned.log_factors, np.asarray(tuned.log_noise, centre.dtype))
            findings += _of_tuning(tuned, self.prior_precision)
        factors = jnp.exp(jnp.asarray(started.log_factors))[groups]
        law = AroundMode(
            local,
            point,
            curvature,
            terms,
            factors,
            jnp.exp(jnp.asarray(started.log_noise)),
            root,
            recentre,
        )
        values = values | local.unravel(np.asarray(law.mean))
        tuned_site = noise.site if noise is not None and self.tune_noise else None
        if noise is not None and self.tune_noise:
            tuned_scale = noise.scale * float(np.exp(-0.5 * started.log_noise))
            values = values | {noise.site: np.asarray(tuned_scale, centre.dtype)}
            record["noise"] = tuned_scale
        if self.prior_precision in ("scalar", "layer"):
            record["prior_factors"] = _by_group(local, started.log_factors, self.prior_precision)
        gain = law.newton_gain if not recentre else 0.0
        findings += self._of_curvature(law, gain)
        record |= {
            "structure": self.structure,
            "layers": [layer.name for layer in local.layers],
            "dimension": local.dimension,
            "log_evidence": law.log_evidence,
            "log_likelihood": float(terms.log_likelihood),
            "newton_gain": gain,
            "mode": mode.record,
        }
        return Found(law, mode, values, tuned_site, prior.normal, record, tuple(findings))

    def _check_tuning(self, problem: Problem) -> None:
        if self._tunes and problem.summary.posterior_temperature != 1.0:
            raise ValueError(
                "The evidence of a `cold` posterior is that of no model, and nothing is to be "
                "tuned by it. Tune the untempered program, and make that one cold."
            )
        if self.tune_noise and problem.summary.observed != "Normal":
            raise ValueError(
                "`tune_noise=True` is about Gaussian noise, and the observed distribution is "
                f"{problem.summary.observed}."
            )

    def _noise(
        self, problem: Problem, local: LocalProgram, point: Point, values: dict[str, Any]
    ) -> Noise | None:
        found = noise_site(problem, local, point, values)
        if self.tune_noise and found is None:
            raise ValueError(
                "`tune_noise=True` needs a site that is the one noise scale of the program; here "
                "it is fixed, one of several, or a function of inputs. Give the likelihood a "
                "prior of one scale, `likelihoods.gaussian()`, or leave `tune_noise` out."
            )
        return found

    def _of_curvature(self, law: AroundMode, gain: float) -> list[Finding]:
        found = []
        if not np.isfinite(law.log_evidence):
            found.append(
                Finding(
                    "failure",
                    "The log evidence is not finite: the curvature at the mode is not positive to "
                    "the precision of the arithmetic. Use `float64=True`, or a narrower prior.",
                )
            )
        if gain > max(1.0, _FAR_FROM_A_MODE * law.local.dimension) and not self._tunes:
            found.append(
                Finding(
                    "doubt",
                    f"The weights are not at a mode: a Newton step would add {gain:.3g} to the log "
                    "density. The evidence is low by about that, and predictions are those around "
                    "another point. Train for longer, or with all rows at the end.",
                )
            )
        if isinstance(law.curvature, LowRankCurvature):
            least = float(law.curvature.values[-1])
            if least > 1.0 and len(law.curvature.values) < law.local.dimension:
                found.append(
                    Finding(
                        "doubt",
                        f"The least of the {len(law.curvature.values)} eigenvalues that were kept "
                        f"is {least:.3g} times the prior's precision: directions that the data "
                        "determine count as if they were not. Raise `rank`.",
                    )
                )
        return found


def constrained(problem: Problem, mode: Mode) -> dict[str, Any]:
    """Values of the latent sites at a mode, in the program's space."""
    sites = constrain_fn(problem.model, (problem.x, problem.y), {}, mode.position)
    return {name: np.asarray(sites[name]) for name in mode.position}


def as_fitted(problem: Problem, found: Found, *, draws: int, predictive: str) -> Fitted:
    """Draws of the law beside the other sites at the mode, and the program to predict by."""
    local, findings = found.law.local, list(found.findings)
    record = dict(found.record)
    model = None
    if predictive == "linearised":
        try:
            model = linearised_at(problem.model, found.values, problem.x)
        except ValueError as error:
            predictive = "sampled"
            findings.append(Finding("remark", f"Predictions are sampled, not linearised. {error}"))
    record["predictive"] = predictive
    sampled = local.unravel(found.law.sample(problem.key(_SAMPLES), draws))
    positions = {}
    for name, value in found.mode.position.items():
        if name in local.sites:
            positions[name] = sampled[name][None]
        else:
            where = value
            if name == found.noise:
                where = _unconstrained(problem, name, found.values)
            positions[name] = np.broadcast_to(where, (1, draws, *np.shape(where))).copy()
    return Fitted(positions=positions, record=record, findings=tuple(findings), model=model)


def _unconstrained(problem: Problem, name: str, values: dict[str, Any]) -> np.ndarray:
    from numpyro import handlers

    substituted = handlers.substitute(problem.model, data=values)
    seeded = handlers.seed(substituted, jax.random.key(0))
    site = handlers.trace(seeded).get_trace(problem.x, problem.y)[name]
    return np.asarray(biject_to(site["fn"].support).inv(values[name]))


def _groups(local: LocalProgram, tuned: str) -> np.ndarray:
    """The group of each parameter, of those that share one factor."""
    if tuned == "element":
        return np.arange(local.dimension)
    groups = np.zeros(local.dimension, int)
    if tuned == "layer":
        for number, layer in enumerate(local.layers):
            groups[layer.part] = number
    return groups


def _by_group(local: LocalProgram, log_factors: Any, tuned: str) -> dict[str, float]:
    names = [layer.name for layer in local.layers] if tuned == "layer" else ["all"]
    return {name: float(np.exp(v)) for name, v in zip(names, np.asarray(log_factors), strict=True)}


def _for_tuning(curvature: Any, tuned: str) -> Any:
    """The curvature as the evidence needs it, diagonal where the factors leave it so."""
    spectral = curvature.spectrum()
    one_block = len(getattr(curvature, "parts", ())) == 1
    if spectral is None or tuned == "element":
        return curvature
    if tuned == "layer" and one_block:
        return curvature
    return spectral


def _of_tuning(tuned: Any, what: str) -> list[Finding]:
    found = []
    if not tuned.converged:
        found.append(
            Finding(
                "doubt",
                "The evidence was still rising when its maximisation ended: the tuned precisions "
                "are not where it is greatest. Use `float64=True`.",
            )
        )
    if tuned.at_bound.size and what != "element":
        found.append(
            Finding(
                "doubt",
                f"The evidence rises without end in {tuned.at_bound.size} of the tuned prior "
                "precisions: the data say that those weights are 0, or do not bound them. Fix the "
                "prior there.",
            )
        )
    return found
