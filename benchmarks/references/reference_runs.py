"""The long runs behind the reference posteriors: two exact samplers of each, resumable."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.references.problems import PROBLEMS

FOLDER = Path("runs/reference")
DRAWS = 200_000  # of a chain at most; `until` ends a run


@dataclass(frozen=True)
class Sampler:
    """One of the two samplers of a posterior.

    Attributes:
        kernel: "hmc", "nuts" or "chees".
        warmup: draws of a chain.
        ess: smallest bulk and tail effective sample size that ends the run, with R-hat < 1.01.
        settings: of the kernel.
        seed: of the run.
    """

    kernel: str
    warmup: int
    ess: float
    settings: dict[str, Any]
    seed: int = 0

    def make(self, model: Any) -> Any:
        """The kernel for a model."""
        from numpyro.infer import NUTS

        import bayesnn_ppl as bnn

        makers: dict[str, Any] = {
            "hmc": bnn.kernels.HMC,
            "nuts": NUTS,
            "chees": bnn.kernels.ChEES,
        }
        return makers[self.kernel](model, **self.settings)


def _hmc(leapfrogs: int, *, warmup: int, ess: float, step: float, **more: Any) -> Sampler:
    settings = {"num_leapfrogs": leapfrogs, "jitter": 0.5, "mass": "diagonal", "step_size": step}
    return Sampler("hmc", warmup, ess, settings | more, seed=1)


def _nuts(*, warmup: int, ess: float, **settings: Any) -> Sampler:
    return Sampler("nuts", warmup, ess, settings, seed=2)


SAMPLERS = {
    "bostonHousing": (
        _hmc(300, warmup=500, ess=4000, step=1e-3),
        _nuts(warmup=500, ess=4000),
    ),
    "concrete": (
        _hmc(300, warmup=500, ess=800, step=1e-3),
        _nuts(warmup=500, ess=800),
    ),
    "yacht": (
        _hmc(4000, warmup=500, ess=400, step=1e-3),
        _nuts(warmup=500, ess=400, max_tree_depth=(10, 12)),
    ),
    "energy-100": (
        _hmc(1000, warmup=500, ess=4000, step=1e-3, target_accept=0.9),
        _nuts(warmup=500, ess=4000, max_tree_depth=11, target_accept_prob=0.95),
    ),
    "breast_cancer": (
        _hmc(60, warmup=500, ess=1500, step=1e-2),
        _nuts(warmup=500, ess=1500),
    ),
    "diabetes-ard": (
        _hmc(60, warmup=500, ess=1500, step=1e-2),
        _nuts(warmup=500, ess=1500),
    ),
    "wine-cold": (
        _hmc(60, warmup=500, ess=1500, step=1e-2),
        _nuts(warmup=500, ess=1500),
    ),
}


def run(name: str, sampler: Sampler, *, minutes: float) -> Any:
    """Start the run, resume it, or read it where it has converged.

    Args:
        name: of the posterior.
        sampler: one of its two.
        minutes: of this call at most.
    """
    folder, model = f"{name}-{sampler.kernel}", PROBLEMS[name].model()
    return _run(name, folder, sampler, model, sampler.seed, minutes, sampler.ess)


def _run(
    name: str,
    folder: str,
    sampler: Sampler,
    model: Any,
    seed: int,
    minutes: float,
    ess: float,
    rhat: float = 1.01,
) -> Any:
    """Start, resume or read a run in its folder, where one with this R-hat and ESS is finished."""
    import bayesnn_ppl as bnn
    from bayesnn_ppl import storage

    data, kernel, out = PROBLEMS[name].data(), sampler.make(model), FOLDER / folder
    until = {"function_rhat": 1.01, "ess": sampler.ess, "max_time": 60 * minutes}
    if (out / "config.json").exists():
        drawn = storage.read_commit(out)["draws"]  # none where it was ended in its warm-up
        if drawn and converged(posterior := bnn.load(out), ess, rhat=rhat):
            return posterior
        return bnn.resume(out, kernel, *data.train, until=until)
    return bnn.sample(
        kernel,
        *data.train,
        warmup=sampler.warmup,
        draws=DRAWS,
        chains=4,
        seed=seed,
        keep=bnn.Keep(weights="none", probe=data.test),
        until=until,
        out=out,
    )


def converged(posterior: Any, ess: float, *, rhat: float = 1.01) -> bool:
    """Whether R-hat and effective sample sizes of all outputs are what is asked for.

    `until` asks for the precision of standard deviations too, which probabilities near 0 or 1 with
    their long tails reach much later.
    """
    from bayesnn_ppl.diagnostics import convergence_summary

    found = [convergence_summary(a) for a in posterior.function_values().values()]
    return all(
        float(np.max(c.rhat)) < rhat and float(np.min(np.minimum(c.ess_bulk, c.ess_tail))) >= ess
        for c in found
    )


def control(name: str, temperature: float, *, minutes: float) -> Any:
    """The first sampler at a temperature that is wrong by a factor: a run that must be seen."""
    import bayesnn_ppl as bnn
    from bayesnn_ppl.modeling.temperature import ColdModel

    model = PROBLEMS[name].model()
    if isinstance(model, ColdModel):
        model, temperature = model.model, temperature * model.temperature
    wrong = bnn.cold(model, temperature)
    # Errors that are known about suffice: a wrong temperature is far away.
    return _run(name, f"{name}-control", SAMPLERS[name][0], wrong, 3, minutes, 200, rhat=1.05)
