"""Whole kernels and approximations on models whose truth is known, at right and wrong steps."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl import approximations, kernels
from benchmarks.verdicts.verdict_models import MODELS, Known

__all__ = ["KERNEL_SITUATIONS", "KernelSituation", "judged_run"]

_CHAINS = 4


@dataclass(frozen=True)
class KernelSituation:
    """A kernel with its settings on a model; runs differ in their seeds.

    Attributes:
        name: a line of the table.
        of: what a model is given to, a kernel or an approximation.
        on: a name in `MODELS`.
        warmup, draws, chains: of a run.
        runs: how many runs are judged.
        init: where chains start, as `sample` takes it; None draws them from the prior.
        biased: whether its distribution is known to be off, by less than what is called wrong.
    """

    name: str
    of: Callable[[Any], Any]
    on: str = "linear"
    warmup: int = 200
    draws: int = 1000
    chains: int = _CHAINS
    runs: int = 20
    init: Any = None
    biased: bool = False

    @property
    def underdispersed(self) -> bool:
        """Whether all chains start at one place."""
        return self.init is not None

    @property
    def fitted(self) -> bool:
        """Whether it is an approximation."""
        return hasattr(approximations, type(self.of(MODELS[self.on]().model)).__name__)


def judged_run(situation: KernelSituation, seed: int) -> tuple[Any, Any, Known]:
    """A run: its diagnosis, its outputs (chain, draw, output), and the truth."""
    known = MODELS[situation.on]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too long steps say so
        algorithm = situation.of(known.model)
        options: dict[str, Any] = {"seed": seed, "progress": False}
        if situation.fitted:
            posterior = bnn.fit(algorithm, known.x, known.y, **options)
        else:
            posterior = bnn.sample(
                algorithm,
                known.x,
                known.y,
                warmup=situation.warmup,
                draws=situation.draws,
                chains=situation.chains,
                init=situation.init,
                **options,
            )
        found = posterior.diagnose(known.probe)
        values = np.asarray(posterior.function_values(known.probe)["mean"], float)
    values = values.reshape(*values.shape[:2], -1)
    return found, values, known


def _kernel(name: str, **settings: Any) -> Callable[[Any], Any]:
    if name in ("NUTS", "NumPyro's HMC"):
        from numpyro.infer import HMC, NUTS

        maker: Any = NUTS if name == "NUTS" else HMC
    else:
        maker = getattr(kernels, name, None) or getattr(approximations, name)
    return lambda model: maker(model, **settings)


def _small_batches(name: str, step_size: float, steps: int, **settings: Any) -> Any:
    """Of a stochastic-gradient kernel, with a tenth of the rows of the linear model a step."""
    sizes = {"step_size": step_size, "steps_per_draw": steps}
    return _kernel(name, **(sizes | {"batch_size": 10} | settings))


def _of(name: str, of: Any, **settings: Any) -> KernelSituation:
    return KernelSituation(name, of, **settings)


def _named(how: str, kernel: str, on: str) -> str:
    article = {"linear": "linear model", "network": "one-unit network", "funnel": "funnel"}[on]
    return f"{kernel}{', ' + how if how else ''}, {article}"


_EXACT: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("NUTS", "NUTS", {}),
    ("NumPyro's HMC", "NumPyro's HMC", {"trajectory_length": 1.7}),
    ("HMC", "HMC", {"num_leapfrogs": 8, "mass": "diagonal"}),
    ("MALA", "MALA", {}),
    ("RandomWalk", "RandomWalk", {}),
    ("ChEES", "ChEES", {}),
    ("AdjustedMCLMC", "AdjustedMCLMC", {}),
    ("ParallelTempering", "ParallelTempering", {}),
)


def _exact() -> list[KernelSituation]:
    made = []
    for on in ("linear", "network"):
        for label, name, settings in _EXACT:
            of = _kernel(name, **settings)
            warmup = 500 if on == "linear" else 1000
            runs = 20 if on == "linear" else 100
            made.append(_of(_named("", label, on), of, on=on, warmup=warmup, runs=runs))
    return made


def _noisy() -> list[KernelSituation]:
    """Steps: short, where spreads are right to 5 %; hot, off by 5 to 20 %; and too long."""
    made = []
    lengths = {"short": (1.0, 1.0), "hot": (5.0, 0.5), "too long": (20.0, 0.25)}
    for name in ("SGLD", "leimkuhler_matthews"):
        of = "SGLD" if name == "SGLD" else "Langevin"
        extra = {} if name == "SGLD" else {"integrator": name}
        for how, (factor, fewer) in lengths.items():
            kernel = _small_batches(of, 2e-5 * factor, int(200 * fewer), **extra)
            made.append(
                _of(_named(f"{how} steps", _label(name), "linear"), kernel, biased=how == "hot")
            )
    far = _small_batches("SGLD", 1e-3, 50)
    made.append(_of(_named("far too long steps", "SGLD", "linear"), far))
    for name in ("SGHMC", "BAOAB", "OBABO", "BBK", "position_verlet"):
        of = "SGHMC" if name == "SGHMC" else "Langevin"
        extra = {} if name == "SGHMC" else {"integrator": name}
        for how, (factor, fewer) in lengths.items():
            if how == "hot" and name not in ("SGHMC", "BAOAB"):
                continue
            kernel = _small_batches(of, 4e-6 * factor, int(100 * fewer), **extra)
            made.append(
                _of(_named(f"{how} steps", _label(name), "linear"), kernel, biased=how == "hot")
            )
    for name in ("SGNHT", "ATMC"):
        for how, factor, steps in (("short", 1, 100), ("hot", 100, 25), ("too long", 500, 25)):
            kernel = _small_batches(name, 4e-6 * factor, steps)
            made.append(_of(_named(f"{how} steps", name, "linear"), kernel, biased=how == "hot"))
    for name, short, long in (
        ("SGLD", (4e-4, 300), (4e-3, 50)),
        ("SGHMC", (5e-5, 150), (1e-3, 50)),
        ("SGNHT", (5e-5, 150), (1e-3, 50)),
    ):
        for how, (step, steps) in (("short", short), ("too long", long)):
            kernel = _small_batches(name, step, steps)
            made.append(_of(_named(f"{how} steps", name, "network"), kernel, on="network"))
    return made


def _label(name: str) -> str:
    return {"leimkuhler_matthews": "Leimkuhler–Matthews", "position_verlet": "position Verlet"}.get(
        name, name
    )


def _microcanonical() -> list[KernelSituation]:
    default, coarse = _kernel("MCLMC"), _kernel("MCLMC", energy_variance_end=0.5)
    fine = _kernel("MCLMC", energy_variance_end=0.001, steps_per_draw=40)
    return [
        _of(_named("default", "MCLMC", "linear"), default),
        _of(_named("coarse", "MCLMC", "linear"), coarse),
        _of(_named("default", "MCLMC", "network"), default, on="network"),
        _of(_named("coarse", "MCLMC", "network"), coarse, on="network"),
        _of(_named("fine", "MCLMC", "network"), fine, on="network"),
        _of(_named("default", "MCLMC", "funnel"), default, on="funnel"),
    ]


def _others() -> list[KernelSituation]:
    careful = _kernel("NUTS", target_accept_prob=0.99)
    hmc = _kernel("NumPyro's HMC", trajectory_length=2.0)
    together = {"v": np.float32(0.0), "w": np.float32(1.0)}
    mean_field = _kernel("Variational", batch_size=None, steps=2000, learning_rate=0.02, draws=4000)
    laplace = _kernel("Laplace", structure="full", draws=4000)
    nuts = _kernel("NUTS")
    fits = [
        _of(_named("", label, on), of, on=on, runs=3)
        for label, of in (("Laplace", laplace), ("mean-field VI", mean_field))
        for on in ("linear", "network")
    ]
    return [
        _of(_named("default", "NUTS", "funnel"), nuts, on="funnel", warmup=500),
        _of(_named("acceptance 0.99", "NUTS", "funnel"), careful, on="funnel", warmup=500),
        _of(
            _named("acceptance 0.99, 8 000 draws", "NUTS", "funnel"),
            careful,
            on="funnel",
            warmup=1000,
            draws=8000,
            runs=10,
        ),
        _of(_named("", "NumPyro's HMC", "funnel"), hmc, on="funnel", warmup=500),
        _of(
            _named("starts at one place", "NUTS", "funnel"),
            nuts,
            on="funnel",
            warmup=500,
            init=together,
            runs=20,
        ),
        _of(_named("2 chains", "NUTS", "linear"), nuts, chains=2, warmup=500, runs=20),
        *fits,
    ]


KERNEL_SITUATIONS = (*_exact(), *_noisy(), *_microcanonical(), *_others())
