"""Do draws keep their bits through a change of the code?

    python -m benchmarks same_draws record FILE     # before the change
    python -m benchmarks same_draws check FILE      # after it; exit status 1 where a bit differs

Every kernel and approximation that the library offers runs on a small problem, in float64 with
fixed seeds, in the variants that take other ways through the code: on one device, kernels on two
as well. FILE holds a hash of each array, and its mean, by which the size of a difference is told.
Bits are comparable on one machine with the same versions only; another machine is told so.

Problems use public names only, so the same command runs before and after modules are moved.
"""

import argparse
import hashlib
import importlib.metadata
import json
import platform
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROWS, DRAWS, WARMUP, CHAINS = 24, 12, 24, 2
_PACKAGES = ("jax", "jaxlib", "numpyro", "flax", "numpy")

type Arrays = dict[str, np.ndarray]


def here() -> dict[str, str]:
    """What bits depend on besides the code: versions, and the processor's instructions."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    flags = sorted(set(" ".join(line for line in lines if line.startswith("flags")).split()))
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    processor = hashlib.sha256(" ".join(flags).encode()).hexdigest()[:12]
    return found | {"python": platform.python_version(), "processor": processor}


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
        "OBABO": lambda m: k.OBABO(m, step_size=1e-4, **steps),
        "ATMC": lambda m: k.ATMC(m, step_size=1e-4, **steps),
        "BiasedMinibatchMetropolis": lambda m: k.BiasedMinibatchMetropolis(
            m, step_size=1e-3, **steps
        ),
        "BiasedMinibatchHMC": lambda m: k.BiasedMinibatchHMC(
            m, step_size=1e-3, batch_size=8, num_leapfrogs=3
        ),
    }
    for name in ("SGLD", "SGHMC", "SGNHT", "Langevin"):
        found[name] = lambda m, name=name: getattr(k, name)(m, step_size=1e-4, **steps)
    more: dict[str, dict[str, Any]] = {
        "rmsprop": {"preconditioner": p.RMSProp()},
        "moving rmsprop": {"preconditioner": p.RMSProp(mode="corrected")},
        "adagrad": {"preconditioner": p.Adagrad()},
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
        method = k.SGLD if "moving" in name else k.SGHMC
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


def outcome(problem: Callable[[], Arrays]) -> dict[str, Any]:
    """Array name -> hash and mean; where it fails, the error."""
    try:
        arrays = problem()
    except Exception as error:  # a record of all others is worth more
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}
    return {
        name: [
            hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()[:16],
            float(np.mean(np.asarray(a, float))),
        ]
        for name, a in sorted(arrays.items())
    }


def run(devices: int, only: str) -> dict[str, Any]:
    """Outcomes of all problems on so many devices, in this process."""
    import jax

    warnings.simplefilter("ignore")
    jax.config.update("jax_num_cpu_devices", devices)
    found = {}
    for name, problem in problems(devices).items():
        if only in name:
            found[name] = outcome(problem)
            print(name, found[name].get("error", ""), file=sys.stderr, flush=True)
    return found


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A line for each problem whose arrays are others."""
    lines = [f"{name}: there is none any more" for name in before if name not in after]
    for name, arrays in after.items():
        old = before.get(name, {})
        for array in {**old, **arrays}:
            if old.get(array) != arrays.get(array):
                lines.append(f"{name}, {array}: {old.get(array)} became {arrays.get(array)}")
                break
    return lines


def main() -> int:
    """Record or check."""
    parser = argparse.ArgumentParser(description="Do draws keep their bits?")
    parser.add_argument("action", choices=["record", "check", "run"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--devices", type=int, default=1, help="of `run`, one process of the two")
    parser.add_argument("--only", default="", help="problems whose names hold this")
    options = parser.parse_args()
    if options.action == "run":
        options.file.write_text(json.dumps(run(options.devices, options.only)))
        return 0
    if missing := uncovered():
        print(f"No problem covers {', '.join(missing)}. Add them to benchmarks/faults.")
        return 1
    found: dict[str, Any] = {}
    for devices in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder) / "part.json"
            command = [sys.executable, "-m", "benchmarks", "same_draws", "run", str(part)]
            command += ["--devices", str(devices), "--only", options.only]
            subprocess.run(command, check=True)
            found |= json.loads(part.read_text())
    if options.action == "record":
        options.file.write_text(json.dumps({"here": here(), "found": found}, indent=1))
        failed = [name for name, arrays in found.items() if "error" in arrays]
        print(f"{len(found)} problems recorded, of which {len(failed)} failed: {failed}")
        return 1 if failed else 0
    before = json.loads(options.file.read_text())
    if before["here"] != here():
        print("Recorded with other versions or on another processor: bits are not comparable.")
        return 1
    was = {name: a for name, a in before["found"].items() if options.only in name}
    lines = differences(was, found)
    print("\n".join(lines) or f"{len(found)} problems: every bit is as it was.")
    return 1 if lines else 0
