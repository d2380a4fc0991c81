"""The posteriors that approximations are compared on, every method, and HMC for reference."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bayesnn_ppl as bnn

NAMED = (
    "MAP",
    "ensemble",
    "SWAG",
    "mean field",
    "full-rank VI",
    "Laplace, full",
    "last layer",
    "MC dropout",
)
SPLITS = {"HMC": 3}
# A little below 1.01: it is read after each block, and the first reading below it ends the run.
_RHAT = 1.009
WHOLE: dict[str, Any] = {"validation_fraction": 0.0, "patience": None}


@dataclass(frozen=True)
class Target:
    """A posterior to be approximated, and settings of HMC for it.

    `hmc` has leapfrogs a draw, steps of warm-up and most draws by the name of the data.
    """

    prior_variance: float
    noise: float | None
    hmc: dict[str, tuple[int, int, int]]

    def model(self, prior: Any = None) -> Any:
        """The model, with another prior where one is given."""
        return bnn.models.mlp(
            hidden=(50,),
            activation="relu",
            prior=bnn.priors.normal(variance=self.prior_variance) if prior is None else prior,
            likelihood=bnn.likelihoods.gaussian(scale=self.noise),
        )


POSTERIORS = {
    "converging": Target(1 / 30, 0.1, {"yacht": (2000, 200, 500), "energy": (10_000, 200, 3000)}),
    "hard": Target(1.0, None, {"yacht": (200, 150, 250), "energy": (200, 150, 250)}),
}


def methods(target: Target) -> dict[str, Callable[[], Any]]:
    """Name -> a function that builds the approximation."""
    a, model = bnn.approximations, target.model()
    return {
        "MAP": lambda: a.MAP(model),
        "ensemble": lambda: a.Ensemble(model, members=10),
        "SWAG": lambda: a.SWAG(model),
        "mean field": lambda: a.Variational(model, guide="normal"),
        "full-rank VI": lambda: a.Variational(model, guide="multivariate_normal"),
        "Laplace, full": lambda: a.Laplace(model, structure="full"),
        "last layer": lambda: a.LastLayer(model),
        "MC dropout": lambda: a.Dropout(model),
        "ensemble of modes": lambda: a.Ensemble(model, members=10, objective="posterior", **WHOLE),
        "MultiSWAG": lambda: a.SWAG(model, members=5),
        "Laplace, kfac": lambda: a.Laplace(model, structure="kfac"),
        "Laplace, diagonal": lambda: a.Laplace(model, structure="diagonal"),
        "Laplace, low rank": lambda: a.Laplace(model, structure="low_rank"),
        "anchored ensemble": lambda: a.Ensemble(
            model, members=10, objective="posterior", anchored=True, **WHOLE
        ),
        "SVGD": lambda: a.Repulsive(model, members=20),
        "constant SGD": lambda: a.ConstantSGD(model),
        "SNGP": lambda: a.SNGP(model),
        "concrete dropout": lambda: a.Dropout(model, rate="concrete"),
        "low-rank VI": lambda: a.Variational(model, guide="low_rank"),
        "IAF": lambda: a.Variational(model, guide="iaf"),
        "VOGN": lambda: a.NaturalGradient(model, method="vogn"),
        "noisy Adam": lambda: a.NaturalGradient(model, method="noisy_adam"),
        "noisy K-FAC": lambda: a.NaturalGradient(model, method="noisy_kfac"),
        "empirical Bayes": lambda: a.EmpiricalBayes(target.model(bnn.priors.learned_normal())),
    }


def sample_hmc(target: Target, data: Any, split: int) -> tuple[Any, float]:
    """Draws of HMC on one split, and the processor time of all calls that made them."""
    leapfrogs, warmup, draws = target.hmc[data.name]
    kernel = bnn.kernels.HMC(target.model(), num_leapfrogs=leapfrogs, jitter=0.5, mass="diagonal")
    until = {"function_rhat": _RHAT}
    out = Path("runs") / f"approximations-{data.name}-{split}-{target.prior_variance:.3g}"
    spent = out.with_name(f"{out.name}.seconds")
    before = float(spent.read_text()) if spent.exists() else 0.0
    begun = (out / "commit.json").exists()
    if begun:
        found = bnn.load(out, kernel.model)
        if (found.provenance.get("ended") or {}).get("by") == "convergence":
            return found, before
    began = time.process_time()
    try:
        if begun:
            posterior = bnn.resume(out, kernel, *data.train, until=until)
        else:
            posterior = bnn.sample(
                kernel,
                *data.train,
                warmup=warmup,
                draws=draws,
                chains=4,
                seed=split,
                init=bnn.approximations.Ensemble(),
                out=out,
                keep=bnn.Keep(probe=data.test.x),
                until=until,
            )
    finally:
        seconds = before + time.process_time() - began
        if out.exists():
            spent.write_text(f"{seconds:.1f}\n")
    return posterior, seconds
