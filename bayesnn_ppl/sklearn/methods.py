"""How an estimator makes draws: by a kernel, an approximation or `mile`, or what suits the size."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from numpyro.infer.mcmc import MCMCKernel

from bayesnn_ppl.core.arguments import series
from bayesnn_ppl.distributed import EndedTogether
from bayesnn_ppl.inference.approximations.trained_networks.ensemble import Ensemble
from bayesnn_ppl.inference.fitting.approximation import Approximation
from bayesnn_ppl.inference.fitting.fitter import fit
from bayesnn_ppl.inference.kernels.full_batch.chees import ChEES
from bayesnn_ppl.inference.kernels.full_batch.microcanonical.mclmc import MCLMC
from bayesnn_ppl.inference.microcanonical_ensembles import mile
from bayesnn_ppl.inference.sampling.sampler import sample
from bayesnn_ppl.posterior.posterior import Posterior

__all__ = ["MOST_ROWS_FOR_CHEES", "MethodSettings", "posterior_of"]

MOST_ROWS_FOR_CHEES = 1_000
_RUN: dict[str, Any] = {"warmup": 500, "draws": 500, "chains": 4}
# Those of `mile`, with a tenth of its steps, for more rows.
_LANGEVIN = partial(MCLMC, steps_per_draw=10, energy_variance_end=0.01)
_LANGEVIN_RUN = _RUN | {"draws": 200, "init": Ensemble()}


@dataclass(frozen=True)
class MethodSettings:
    """What an estimator was told about its method; None where it was told nothing.

    Attributes:
        method: see `BayesianRegressor`.
        warmup, draws, chains, init: of a kernel.
        max_time: seconds, or text such as "10m".
        seed: of all randomness.
        progress: show a bar.
    """

    method: Any
    warmup: int | None
    draws: int | None
    chains: int | None
    init: Any
    max_time: float | str | None
    seed: int
    progress: bool

    def given(self, *names: str) -> dict[str, Any]:
        """Those of these settings that are not None."""
        return {n: v for n in names if (v := getattr(self, n)) is not None}


def posterior_of(model: Any, x: Any, y: Any, settings: MethodSettings) -> Posterior:
    """Draws of the model's posterior by the method of the settings.

    Raises:
        TypeError, ValueError: the method is not what it must be, or a setting is given that it
            does not have.
        RuntimeError: the time was up in the warm-up.
    """
    method, run = settings.method, _RUN
    shared: dict[str, Any] = {"seed": settings.seed, "progress": settings.progress}
    until = None if settings.max_time is None else {"max_time": settings.max_time}
    if method is None and len(x) <= MOST_ROWS_FOR_CHEES:
        method = ChEES
    elif method is None:
        method, run = _LANGEVIN, _LANGEVIN_RUN
    try:
        if getattr(method, "func", method) is mile:
            _refuse(settings, "mile", ("warmup", "init"), "`partial(bnn.mile, warmup_steps=5000)`")
            chosen = settings.given("draws", "chains")
            return method(model, x, y, **chosen, until=until, **shared)
        made = _made(method, model)
        if isinstance(made, MCMCKernel):
            run = run | settings.given("warmup", "draws", "chains", "init")
            return sample(made, x, y, **run, until=until, **shared)
    except EndedTogether as error:
        raise RuntimeError(
            f"`max_time` of {settings.max_time} was over before the first draw: compilation and "
            "warm-up count too. Give more time, or a shorter `warmup`."
        ) from error
    name = type(made).__name__
    _refuse(
        settings,
        name,
        ("warmup", "draws", "chains", "init", "max_time"),
        f"`partial(bnn.approximations.{name}, ...)`",
    )
    return fit(made, x, y, **shared)


def _made(method: Any, model: Any) -> MCMCKernel | Approximation:
    """The kernel or approximation of the model."""
    if isinstance(method, MCMCKernel):
        raise TypeError(
            f"`method` is a {type(method).__name__} that has a model already, and the estimator "
            f"builds one from its own. Give the class, or `partial({type(method).__name__}, ...)` "
            "with its settings."
        )
    if isinstance(method, Approximation) and not isinstance(method, type):
        if method.model is not None:
            raise ValueError(
                f"`method` is a {type(method).__name__} that has a model already, and the "
                "estimator gives it its own. Leave its model out."
            )
        return replace(method, model=model)  # type: ignore[type-var]
    if not callable(method):
        raise TypeError(
            "`method` is None, a class such as `bnn.kernels.ChEES` or "
            "`bnn.approximations.Laplace`, a function that builds one of these from the model, or "
            f"`bnn.mile`, not {method!r}."
        )
    made = method(model)
    if isinstance(made, MCMCKernel | Approximation):
        return made
    raise TypeError(
        f"`method(model)` is a {type(made).__name__}, but must be a kernel or an approximation: "
        "`functools.partial(bnn.kernels.HMC, num_leapfrogs=20)`."
    )


def _refuse(settings: MethodSettings, name: str, unknown: tuple[str, ...], instead: str) -> None:
    """Raise ValueError where settings are given that the method does not have."""
    if given := settings.given(*unknown):
        raise ValueError(
            f"{series(f'`{setting}`' for setting in given)} cannot be given for {name}, which does "
            f"not have {'it' if len(given) == 1 else 'them'}. Set it to None, and give the "
            f"method's own settings with it: {instead}."
        )
