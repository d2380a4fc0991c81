"""Reference posteriors: two exact samplers of one density, compared, and the package's files.

    BAYESNN_DATA=... python -m benchmarks reference_posteriors yacht concrete [--minutes 20]

For each name, `bnn.kernels.HMC` and NumPyro's NUTS sample the posterior until every function value
at the test rows has R-hat < 1.01 and the effective sample size of `reference_runs.SAMPLERS`, or the
minutes of each are over; then HMC samples it at a temperature that is wrong by a factor of 1.5,
or 2/3 where a hotter posterior has modes between which chains hardly pass (bostonHousing). Runs
lie in `runs/reference` and are resumed. Where both runs have converged and agree, and the control
does not, `bayesnn_ppl/references/NAME.npz` and `.json` are written; otherwise nothing is.
"""

import datetime
import hashlib
import json
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from benchmarks.references.reference_runs import SAMPLERS, control, run

PACKAGE = Path("bayesnn_ppl/references")
FACTORS = {"bostonHousing": 2 / 3}  # of the wrong temperature
FACTOR = 1.5
_THINNED = 125  # draws of each of the eight chains that the package holds


def convergence(values: dict[str, np.ndarray]) -> dict[str, Any]:
    """Largest R-hat, smallest effective sample size and largest error over sd of all outputs."""
    from bayesnn_ppl.diagnostics import convergence_summary

    found = {name: convergence_summary(a) for name, a in values.items()}
    return {
        "rhat_max": max(float(np.nanmax(c.rhat)) for c in found.values()),
        "ess_min": min(
            float(np.nanmin(np.minimum(c.ess_bulk, c.ess_tail))) for c in found.values()
        ),
    }


def sampler_facts(posterior: Any, values: dict[str, np.ndarray]) -> dict[str, Any]:
    """How a run was made, and how far it came."""
    made, statistics = posterior.provenance, posterior.statistics
    return {
        "kernel": made["kernel"],
        "settings": made["kernel_settings"],
        "chains": made["chains"],
        "warmup": made["warmup"],
        "draws": made["draws"],
        "seed": made["seed"],
        "seconds": round(float(made["seconds"]["total"]), 1),
        "leapfrogs": int(np.sum(statistics["n_steps"], dtype=np.int64)),
        "divergences": int(np.sum(statistics["diverging"])),
        **convergence(values),
    }


def thinned(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Evenly spaced draws of every chain."""
    return {
        name: a[:, np.linspace(0, a.shape[1] - 1, _THINNED).round().astype(int)]
        for name, a in values.items()
    }


def measures(draws: np.ndarray) -> dict[str, list[float]]:
    """R-hat and effective sample sizes of what is stored, under posteriordb's names."""
    from bayesnn_ppl.diagnostics import convergence_summary

    found = convergence_summary(draws)
    return {
        "effective_sample_size_bulk": np.ravel(found.ess_bulk).round(1).tolist(),
        "effective_sample_size_tail": np.ravel(found.ess_tail).round(1).tolist(),
        "r_hat": np.ravel(found.rhat).round(5).tolist(),
    }


def compare(
    name: str, values: dict[str, np.ndarray], draws: Any, moments: Any, facts: Any, x: Any
) -> Any:
    """The distance of function values from moments that are not in the package yet."""
    from bayesnn_ppl.diagnostics import distance_to_reference
    from bayesnn_ppl.references.stored import ReferencePosterior, fingerprint

    other = ReferencePosterior(name, draws, moments, facts, fingerprint(np.asarray(x)))
    return distance_to_reference(values, other)


def package(name: str, minutes: float) -> dict[str, Any] | None:
    """Sample, compare and write; None where the runs do not allow it."""
    from bayesnn_ppl.diagnostics.convergence.moment_errors import function_moments, pooled_moments
    from bayesnn_ppl.references.problems import PROBLEMS
    from bayesnn_ppl.references.stored import Moments, compared, fingerprint

    problem = PROBLEMS[name]
    data = problem.data()
    factor = FACTORS.get(name, FACTOR)
    posteriors = [run(name, sampler, minutes=minutes) for sampler in SAMPLERS[name]]
    values = [p.function_values() for p in posteriors]
    samplers = [sampler_facts(p, v) for p, v in zip(posteriors, values, strict=True)]
    for one in samplers:
        print(f"{name}, {one['kernel']}: R-hat {one['rhat_max']:.4f}, ESS {one['ess_min']:.0f}")
    if max(one["rhat_max"] for one in samplers) >= 1.01:
        print(f"{name}: not converged, nothing is written. Run again to continue.")
        return None
    # Labels have moments of their probabilities, and of the log-odds that are compared.
    single = [{o: function_moments(a) for o, a in (v | compared(v)).items()} for v in values]
    moments = {o: pooled_moments([one[o] for one in single]) for o in single[0]}
    small = [thinned(v) for v in values]
    draws = {o: np.concatenate([v[o] for v in small]) for o in small[0]}
    standard = getattr(data.train.y, "standardisation", None)
    units = {
        "y_mean": 0.0 if standard is None else float(standard.y_mean),
        "y_scale": 1.0 if standard is None else float(standard.y_scale),
    }
    facts: dict[str, Any] = {
        "name": name,
        "family": problem.family,
        "description": problem.description,
        "task": data.task,
        "data": {
            "name": data.name,
            "split": 0,
            "rows": len(data.test.x),
            "sha256": data.sha256,
            "description": data.description,
        },
        "units": units,
        "outputs": list(draws),
        "samplers": samplers,
        "rhat_max": max(one["rhat_max"] for one in samplers),
        "ess_min": min(one["ess_min"] for one in samplers),
        "mcse_over_sd_max": max(float(np.max(m.mean_error / m.sd)) for m in moments.values()),
        "thinned": {o: measures(a) for o, a in draws.items()},
        "command": f"python -m benchmarks reference_posteriors {name}",
        "versions": posteriors[0].provenance["versions"],
        "date": datetime.date.today().isoformat(),
    }
    between = compare(name, values[0], small[1], single[1], facts, data.test.x)
    print(f"{name}: the first sampler\n{between}")
    wrong = compare(
        name,
        control(name, factor, minutes=minutes).function_values(),
        draws,
        moments,
        facts,
        data.test.x,
    )
    print(f"{name}: the wrong temperature\n{wrong}")
    facts["agreement"] = _brief(between)
    facts["control"] = {"factor": factor, **_brief(wrong)}
    if not between.agrees or wrong.verdict != "differs":
        print(f"{name}: the samplers differ, or the control is not seen; nothing is written.")
        return None
    arrays = {f"{o}.draws": a.astype(np.float16) for o, a in compared(draws).items()} | {
        f"{o}.{field}": np.asarray(getattr(m, field), dtype=np.float32)
        for o, m in moments.items()
        for field in Moments._fields
    }
    arrays["fingerprint"] = fingerprint(np.asarray(data.test.x))
    stream = BytesIO()
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    facts["sha256"] = hashlib.sha256(stream.getvalue()).hexdigest()
    (PACKAGE / f"{name}.npz").write_bytes(stream.getvalue())
    (PACKAGE / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n")
    return facts


def _brief(distance: Any) -> dict[str, Any]:
    """What the facts keep of a distance."""
    return {name: a for name, a in distance.to_dict().items() if name != "reference"}


def main(names: list[Literal[*SAMPLERS]], /, *, minutes: float = 20.0, devices: int = 2) -> None:
    """Make the references that are named.

    Args:
        names: of posteriors.
        minutes: of each run, in this call.
        devices: host devices, for the chains.
    """
    warnings.simplefilter("ignore")  # of chains that were ended by the time
    jax.config.update("jax_num_cpu_devices", devices)
    for name in names:
        package(name, minutes)
