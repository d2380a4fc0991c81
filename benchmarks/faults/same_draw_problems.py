"""Small problems whose draws are to keep their bits: every kernel and approximation.

They use public names only, so the same problems run before and after modules are moved.
"""

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Arrays", "kernels", "problems", "sampled", "uncovered"]

ROWS, DRAWS, WARMUP, CHAINS = 24, 12, 24, 2

type Arrays = dict[str, np.ndarray]


def data() -> tuple[np.ndarray, np.ndarray]:
    """Rows of a small regression."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 3))
    return x, np.sin(x[:, 0]) + 0.1 * rng.normal(size=ROWS)


def kernels() -> dict[str, Callable[[Any], Any]]:
    """Name of a problem, the class first -> model -> kernel."""
    from numpyro.infer import HMC, NUTS

    import bayesnn_ppl as bnn

    k, s, p, g = bnn.kernels, bnn.schedules, bnn.preconditioners, bnn.gradients
    steps = {"steps_per_draw": 3, "batch_size": 8}
    found: dict[str, Callable[[Any], Any]] = {
        "numpyro.NUTS": lambda m: NUTS(m, max_tree_depth=4),
        "numpyro.HMC": lambda m: HMC(m, step_size=0.01, trajectory_length=0.1),
        "HMC": lambda m: k.HMC(m, num_leapfrogs=8),
        "HMC diagonal, jitter": lambda m: k.HMC(m, num_leapfrogs=8, mass="diagonal", jitter=0.5),
        "HMC rows at once": lambda m: k.HMC(m, trajectory_length=0.05, rows_at_once=10),
        "MALA": k.MALA,
        "MALA fixed": lambda m: k.MALA(m, step_size=1e-3, adapt_step_size=False),
        "RandomWalk": k.RandomWalk,
        "ChEES": lambda m: k.ChEES(m, max_leapfrogs=16),
        "MCLMC": lambda m: k.MCLMC(m, steps_per_draw=3),
        "AdjustedMCLMC": lambda m: k.AdjustedMCLMC(m, max_steps=20),
        "ParallelTempering": lambda m: k.ParallelTempering(
            m, temperatures=(1, 2, 4), num_leapfrogs=6
        ),
        "WALNUTS": lambda m: k.WALNUTS(m, max_leapfrogs=16),
        "TemperedSMC": lambda m: k.TemperedSMC(m, runs=1, max_leapfrogs=16),
        "OBABO": lambda m: k.OBABO(m, step_size=1e-4, **steps),
        "ATMC": lambda m: k.ATMC(m, step_size=1e-4, **steps),
        "BiasedMinibatchMetropolis": lambda m: k.BiasedMinibatchMetropolis(
            m, step_size=1e-3, **steps
        ),
        "BiasedMinibatchHMC": lambda m: k.BiasedMinibatchHMC(
            m, step_size=1e-3, batch_size=8, num_leapfrogs=3
        ),
    }
    for name in ("SGLD", "SGHMC", "SGMCLMC", "SGNHT", "Langevin"):
        found[name] = lambda m, name=name: getattr(k, name)(m, step_size=1e-4, **steps)
    more: dict[str, dict[str, Any]] = {
        "rmsprop": {"preconditioner": p.RMSProp()},
        "moving rmsprop": {"preconditioner": p.RMSProp(mode="corrected")},
        "adagrad": {"preconditioner": p.Adagrad()},
        "gradient noise": {"preconditioner": p.GradientNoise()},
        "layerwise": {"preconditioner": p.Layerwise(every=6, gradients=4)},
        "svrg": {"gradient": g.SVRG(every=6)},
        "control variate": {"gradient": g.ControlVariate()},
        "epoch": {"minibatches": "epoch"},
        "sub-batches": {"sub_batches": 2},
        "burn-in": {"step_size": s.CosineBurnIn(1e-3, 1e-4, 50)},
        "cyclical": {"step_size": s.Cyclical(1e-3, 9)},
        "cold": {"temperature": 0.1},
    }
    for name, settings in more.items():
        method = {"moving rmsprop": k.SGLD, "gradient noise": k.SGMCLMC}.get(name, k.SGHMC)
        found[f"{method.__name__} {name}"] = lambda m, c=method, given=settings: c(
            m, **{"step_size": 1e-4, **steps, **given}
        )
    for integrator in ("OBABO", "BBK", "symplectic_euler", "position_verlet"):
        found[f"Langevin {integrator}"] = lambda m, i=integrator: k.Langevin(
            m, step_size=1e-4, integrator=i, **steps
        )
    return found


def approximations() -> dict[str, Callable[[Any], Any]]:
    """Name of a problem, the class first -> model -> approximation."""
    import bayesnn_ppl as bnn

    a = bnn.approximations
    short = {"epochs": 6, "batch_size": 8}
    found: dict[str, Callable[[Any], Any]] = {
        "MAP": lambda m: a.MAP(m, **short),
        "Ensemble": lambda m: a.Ensemble(m, members=2, epochs=6),
        "Dropout": lambda m: a.Dropout(m, **short),
        "SNGP": lambda m: a.SNGP(m, **short),
        "Repulsive": lambda m: a.Repulsive(m, members=3, **short),
        "SWAG": lambda m: a.SWAG(
            m, mode=a.MAP(**short), learning_rate=1e-3, iterates=6, burn_in=2, rank=3, draws=8
        ),
        "ConstantSGD": lambda m: a.ConstantSGD(
            m, mode=a.MAP(**short), learning_rate=1e-4, draws=8, burn_in=3
        ),
        "LastLayer": lambda m: a.LastLayer(m, mode=a.MAP(**short), draws=8),
        "EmpiricalBayes": lambda m: a.EmpiricalBayes(m, steps=20, draws=8),
        "DuringTraining": lambda m: a.Laplace(
            m, when=a.DuringTraining(rounds=2, epochs=2, steps=3), tune_noise=True, draws=8
        ),
        "NaturalGradient": lambda m: a.NaturalGradient(m, steps=10, draws=8),
    }
    for structure in ("full", "diagonal", "block", "kfac", "low_rank"):
        found[f"Laplace {structure}"] = lambda m, s=structure: a.Laplace(
            m, structure=s, mode=a.MAP(**short), draws=8, **({"rank": 3} if s == "low_rank" else {})
        )
    for guide in ("normal", "multivariate_normal", "low_rank", "iaf", "laplace"):
        found[f"Variational {guide}"] = lambda m, g=guide: a.Variational(
            m, guide=g, steps=20, draws=8
        )
    return found


def sampled(make: Callable[[Any], Any], **changes: Any) -> Arrays:
    """Draws and statistics of a run."""
    import bayesnn_ppl as bnn

    settings = {"warmup": WARMUP, "draws": DRAWS, "chains": CHAINS, "seed": 3} | changes
    run = bnn.sample(
        make(bnn.models.mlp(hidden=(4,))), *data(), float64=True, progress=False, **settings
    )
    return run.draws | {f"statistic {name}": a for name, a in run.statistics.items()}


def fitted(make: Callable[[Any], Any]) -> Arrays:
    """Draws and predictions of a fit."""
    import bayesnn_ppl as bnn

    found = bnn.fit(
        make(bnn.models.mlp(hidden=(4,))), *data(), seed=3, float64=True, progress=False
    )
    return found.draws | {"mean": np.asarray(found.predict(data()[0]).mean)}


def resumed() -> Arrays:
    """Draws of a run that its callback ended, and that was resumed and extended."""
    import bayesnn_ppl as bnn

    kernel = bnn.kernels.SGHMC(
        bnn.models.mlp(hidden=(4,)), step_size=1e-4, batch_size=8, steps_per_draw=3
    )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        settings: dict[str, Any] = {"warmup": WARMUP, "chains": CHAINS, "seed": 3}
        first = {"float64": True, "out": out, "callback": lambda p: p.phase == "sample"}
        bnn.sample(kernel, *data(), draws=DRAWS, progress=False, **settings, **first)
        bnn.resume(out, kernel, *data(), progress=False)
        return dict(bnn.extend(out, kernel, *data(), draws=5, progress=False).draws)


def streamed() -> Arrays:
    """Draws of a run whose rows are read during it."""
    import bayesnn_ppl as bnn

    kernel = bnn.kernels.SGHMC(
        bnn.models.mlp(hidden=(4,)),
        step_size=1e-4, batch_size=8, steps_per_draw=3, minibatches="epoch",
    )  # fmt: skip
    rows = bnn.data.stream(*data())
    run = bnn.sample(
        kernel, *rows, warmup=6, draws=DRAWS, chains=CHAINS, seed=3, float64=True, progress=False
    )
    return dict(run.draws)


def judged() -> Arrays:
    """Predictions, scores and the diagnosis of a run."""
    import bayesnn_ppl as bnn

    x, y = data()
    model = bnn.models.mlp(hidden=(4,))
    run = bnn.sample(
        bnn.kernels.HMC(model, num_leapfrogs=8), x, y, warmup=WARMUP, draws=DRAWS, chains=4, seed=3,
        float64=True, progress=False,
    )  # fmt: skip
    prediction, said = run.predict(x), str(run.diagnose(x).to_dict())
    return {
        "mean": np.asarray(prediction.mean),
        "variance": np.asarray(prediction.variance),
        "samples": np.asarray(prediction.samples(5, seed=1)),
        "log likelihood": run.log_likelihood(x, y),
        "scores": np.array(list(bnn.metrics.evaluate(run, x, y).values())),
        "diagnosis": np.frombuffer(hashlib.sha256(said.encode()).digest(), np.uint8),
    }


def problems(devices: int) -> dict[str, Callable[[], Arrays]]:
    """Name -> what is run on so many devices."""
    found: dict[str, Callable[[], Arrays]] = {
        f"{name}, {devices} devices": lambda make=make: sampled(make)
        for name, make in kernels().items()
    }
    if devices > 1:
        return found
    found["NUTS, thinned"] = lambda: sampled(kernels()["numpyro.NUTS"], thinning=2)
    found["HMC, sequential"] = lambda: sampled(kernels()["HMC"], chain_method="sequential")
    found["HMC, from networks"] = lambda: sampled(kernels()["HMC"], init="network")
    found |= {name: lambda make=make: fitted(make) for name, make in approximations().items()}
    return found | {"resumed": resumed, "streamed": streamed, "judged": judged}


def uncovered() -> list[str]:
    """Kernels and approximations that the library offers and no problem has."""
    import bayesnn_ppl as bnn

    known = {name.split()[0] for name in (*kernels(), *approximations())}
    offered = (*bnn.kernels.__all__, *bnn.approximations.__all__)
    return [name for name in offered if name[0].isupper() and name not in known]
