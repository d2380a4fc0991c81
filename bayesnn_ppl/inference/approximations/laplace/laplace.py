"""The Laplace approximation: a Gaussian around a mode, with the curvature found there."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from bayesnn_ppl.core.arguments import integer, near_misses, readable, strict_switches
from bayesnn_ppl.inference.approximations.curvature.gaussian import check_structure
from bayesnn_ppl.inference.approximations.curvature.local import LocalModel
from bayesnn_ppl.inference.approximations.curvature.selection import check_layers, select
from bayesnn_ppl.inference.approximations.laplace.gaussian_at_mode import (
    NO_NOISE,
    Found,
    Settings,
    as_fitted,
    gaussian_around,
)
from bayesnn_ppl.inference.approximations.laplace.marginal_likelihood import DuringTraining
from bayesnn_ppl.inference.approximations.trained_networks.maximum_a_posteriori import MAP
from bayesnn_ppl.inference.approximations.trained_networks.starting_modes import (
    check_mode,
    find_mode,
)
from bayesnn_ppl.inference.fitting.approximation import Fitted
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.modeling.temperature import Model
from bayesnn_ppl.posterior.posterior import Posterior

__all__ = ["Laplace"]

_STRUCTURES = ("full", "diagonal", "block", "kfac", "low_rank")
_PREDICTIVES = ("linearised", "sampled")
_TUNED = ("fixed", "scalar", "layer", "element")
_RANK = 50
_DRAWS = 100


@readable
@strict_switches
@dataclass(frozen=True)
class Laplace:
    r"""A Gaussian around the mode of the posterior, with its curvature there.

        q(θ) = N(θ*, P⁻¹),    P = Σ_n w_n J_nᵀ F_n J_n - ∇² log p(θ*)

    with J_n the derivative in the weights of the parameters of the distribution of y_n, F_n their
    Fisher information (so P is the generalised Gauss-Newton matrix, and the likelihood's part is
    never negative), and w_n what the model weights row n by: 1/T of `tempered(T)`. The prior's
    Hessian is exact; `cold` weights it too. Predictions have the untempered likelihood.

    The network's parameters are taken; a noise scale, or scales of a hierarchical prior, stay at
    the mode. The log evidence, conditional on these and on weights outside `layers`, is

        log Z = log p(y|θ*) + log p(θ*) + (d/2) log 2π - ½ log |P|
              = log p(y|θ*) - ½ [log |P| / |P₀| + (θ* - μ₀)ᵀ P₀ (θ* - μ₀)],   normal prior

    Linearised predictions, f(x, θ*) + J(x)(θ - θ*), are the default: the Gaussian is exact for that
    model (and the Gauss-Newton matrix is its Hessian), while drawn weights in the network itself
    underfit badly where it is wide (Immer et al., 2021a). Draws are exact, and so is what is
    computed from them but for their number.

    Cost: one pass over the data for R outputs in a row: R backward passes ("kfac"), or R gradients
    of every row ("full", "block", "diagonal"); memory d² for "full". It fails where the posterior
    is not one peak around θ*, and where θ* is not a mode: `diagnose` says how far from one it is.

    Args:
        model: a NumPyro model that keeps the model contract.
        structure: of P: "full"; "block", one for each layer; "kfac", Kronecker factors of dense
            layers and convolutions; "diagonal"; "low_rank", the largest eigenvalues in units of
            the prior's precision, together with the prior.
        layers: whose parameters: None for all, "last", or patterns of names such as "Dense_0.*".
        rank: eigenvalues that "low_rank" keeps, by default 50.
        mode: settings of `MAP`, or the posterior of a fit of this model, where its first draw is
            θ*. None for `MAP()`.
        draws: how many.
        predictive: "linearised" or "sampled". A model without one Flax Linen network has no
            linearised predictions and says so.
        prior_precision: "fixed"; or factors of the normal prior's precisions by which the evidence
            is greatest: "scalar", one of all; "layer", one of each layer; "element", one of each
            parameter.
        tune_noise: whether the scale of Gaussian noise, a site of the model, is tuned too.
        when: "post hoc", at the mode that the model's own prior has; or `DuringTraining(...)`,
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
        >>> posterior.draws["net.Dense_0.kernel"].shape
        (1, 100, 10, 5)
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
        integer(self.draws, "`draws`", at_least=1)
        if self.rank is not None:
            integer(self.rank, "`rank`", at_least=1)
            if self.structure != "low_rank":
                raise ValueError(
                    f'`rank` is about structure="low_rank", and this one is "{self.structure}".'
                )
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

    @property
    def settings(self) -> Settings:
        """What there is to know at the mode."""
        return Settings(
            self.structure, self.rank or _RANK, self.prior_precision, self.tune_noise, self.when
        )

    def solve(self, problem: Problem) -> Fitted:
        """Find the mode and its curvature, and draw; see `fit`."""
        found = self.around(problem)
        return as_fitted(problem, found, draws=self.draws, predictive=self.predictive)

    @strict_switches
    def around(self, problem: Problem, *, recentre: bool = False) -> Found:
        """The Gaussian itself, before draws are taken from it.

        Args:
            problem: the model and its data.
            recentre: whether the model is linear in the chosen parameters with Gaussian noise, so
                that the Gaussian is to be exact whatever θ* is.
        """
        selection = select(problem, check_layers(self.layers, "Laplace"))
        check_structure(selection, self.structure)
        self._check_tuning(problem, selection.local)
        mode = find_mode(problem, self.mode)
        return gaussian_around(problem, selection, mode, self.settings, recentre=recentre)

    def _check_tuning(self, problem: Problem, local: LocalModel) -> None:
        if self._tunes and problem.summary.posterior_temperature != 1.0:
            raise ValueError(
                "The evidence of a `cold` posterior is that of no model, and nothing is to be "
                "tuned by it. Tune the untempered model, and make that one cold."
            )
        if self.tune_noise and problem.summary.observed != "Normal":
            raise ValueError(
                "`tune_noise=True` is about Gaussian noise, and the observed distribution is "
                f"{problem.summary.observed}."
            )
        scalars = [n for n, shape in problem.summary.latents.items() if shape == ()]
        if self.tune_noise and not set(scalars) - set(local.sites):
            raise ValueError(NO_NOISE)
