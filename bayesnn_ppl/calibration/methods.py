"""A kernel or an approximation as what calibration needs: data and a seed in, a posterior out."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpyro.infer.mcmc import MCMCKernel

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.inference.fitting.approximation import Approximation
from bayesnn_ppl.inference.fitting.fitter import make_fit
from bayesnn_ppl.inference.fitting.prepared_fit import Fit
from bayesnn_ppl.inference.runtime.draw_writers import MemorySink
from bayesnn_ppl.inference.runtime.run_inputs import RunInputs
from bayesnn_ppl.inference.sampling.execution import execute
from bayesnn_ppl.inference.sampling.plan import Plan, SampleInputs, make_plan
from bayesnn_ppl.modeling.contract import ModelSummary
from bayesnn_ppl.posterior.posterior import Posterior

_WARMUP, _DRAWS, _CHAINS, _ENSEMBLE_CHAINS = 150, 150, 2, 4


@dataclass(frozen=True)
class Sampling:
    """How a kernel is run in each replication; see `sample`."""

    warmup: int
    draws: int
    chains: int
    thinning: int = 1
    init: Any = None


class Method:
    """A method that is ready for data of one shape.

    Attributes:
        independent: whether its draws are independent, those of an approximation.
        summary: what its model declares.
    """

    def __init__(
        self, method: Any, x: np.ndarray, y: np.ndarray, sampling: Sampling | None, *, float64: bool
    ) -> None:
        self._given, self._float64 = (method, x, y, sampling), float64
        self.independent = sampling is None
        self._draws = 0 if sampling is None else sampling.draws
        shared: dict[str, Any] = {"method": method, "x": x, "y": y, "simulated": True}
        shared["float64"] = float64
        self._ready: Plan | Fit
        if sampling is None:
            self._ready = make_fit(RunInputs(**shared), False, None)
        else:
            self._ready = make_plan(
                SampleInputs(
                    warmup=sampling.warmup,
                    chains=sampling.chains,
                    init=sampling.init,
                    thinning=sampling.thinning,
                    **shared,
                )
            )

    def __reduce__(self) -> Any:
        """A worker that is sent a method makes it ready, and compiles it, for itself."""
        return partial(Method, float64=self._float64), self._given

    @property
    def summary(self) -> ModelSummary:
        """What the model declares."""
        ready = self._ready
        return ready.summary if isinstance(ready, Plan) else ready.problem.summary

    def describe(self) -> dict[str, Any]:
        """The provenance of a run that has not begun."""
        if isinstance(self._ready, Plan):
            return self._ready.describe(draws_requested=self._draws)
        with arithmetic(float64=self._float64):
            return self._ready.describe(None)

    def posterior(self, y: np.ndarray, seed: int, *, draws: int | None = None) -> Posterior:
        """Draws given y; compiles nothing where an earlier call has."""
        y = y.astype(np.int32) if self.summary.discrete else y
        if isinstance(self._ready, Plan):
            plan = self._ready.on_targets(y, seed)
            draws = self._draws if draws is None else draws
            sink = MemorySink(draws, plan.keep)
            found = execute(plan, sink, draws, progress=False, callback=None)
        else:
            problem = replace(self._ready.problem, y=y, seed=seed)
            with arithmetic(float64=self._float64):
                found = replace(self._ready, problem=problem).in_memory()
        if found.provenance["interrupted"]:
            raise KeyboardInterrupt
        return found


def built(method: Any, model: Any) -> Any:
    """`method`, or what it builds from `model`."""
    if isinstance(method, MCMCKernel):
        return method
    if isinstance(method, Approximation) and not isinstance(method, type):
        return method
    if callable(method) and model is not None:
        try:
            found = method(model)
        except (AttributeError, TypeError) as error:
            raise TypeError(
                f"`method(model)` failed: {error}. `method` is a kernel, an approximation, or a "
                "function that builds one from the model, such as `NUTS`."
            ) from error
        if isinstance(found, MCMCKernel | Approximation):
            return found
        raise TypeError(
            f"`method(model)` is a {type(found).__name__}. A function given as `method` must "
            "return a kernel or an approximation: `lambda model: NUTS(model)`."
        )
    hint = " Build it from your model: `NUTS(model)`." if callable(method) else ""
    raise TypeError(
        "`calibrate` takes a kernel such as `NUTS(model)`, an approximation such as "
        f"`bnn.approximations.Laplace(model)`, or a function that makes one, not {method!r}.{hint}"
    )


def chosen_sampling(method: Any, **settings: Any) -> Sampling | None:
    """The sampling of a kernel, where None means the default; None of an approximation."""
    given = {name: value for name, value in settings.items() if value is not None}
    if not isinstance(method, MCMCKernel):
        if wrong := [f"`{name}`" for name in given]:
            raise ValueError(
                f"{' and '.join(wrong)} are settings of a kernel, and "
                f"{type(method).__name__} is an approximation: give it its own settings, such as "
                f"`{type(method).__name__}(model, draws=400)`."
            )
        return None
    # Particles are many, and each makes few draws.
    usual = getattr(method, "usual_run", {})
    many = usual.get("chains", _ENSEMBLE_CHAINS if method.is_ensemble_kernel else _CHAINS)
    draws = integer(given.get("draws", usual.get("draws", _DRAWS)), "`draws`", at_least=1)
    chains = integer(given.get("chains", many), "`chains`", at_least=1)
    if draws * chains < 14:
        raise ValueError(
            f"{chains} chains of {draws} draws are too few to rank a parameter among: "
            "7 nearly independent draws are needed. Give more `draws`."
        )
    thinning = settings["thinning"] or 1
    warmup = given.get("warmup", usual.get("warmup", _WARMUP))
    return Sampling(warmup, draws, chains, thinning, settings["init"])
