"""`bayesnn doctor` and `completion`: is this installation right, and how does a shell know it?"""

import importlib.metadata
import os
import platform
import time
from typing import Any

import numpy as np

from bayesnn_ppl.cli.shared.options import Argument, Command, Output
from bayesnn_ppl.cli.shared.output import note, print_json, table
from bayesnn_ppl.inference.runtime.device_placement import free_bytes
from bayesnn_ppl.settings.value_kinds import choice

__all__ = ["COMMAND", "COMPLETION", "known_posterior", "verdict"]

_PACKAGES = ("bayesnn_ppl", "jax", "jaxlib", "numpyro", "flax", "numpy", "arviz", "zarr")
_ROWS, _FEATURES, _NOISE = 60, 5, 0.5
_MOST_ERRORS = 5.0  # standard errors; of 10 numbers, by chance once in 170 000 self-checks
_LEAST_ESS = 400


def run_doctor(*, output: Output) -> int:
    """Print devices, precision, versions and memory, and check a known posterior."""
    import jax

    found: dict[str, Any] = {
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "platform": jax.default_backend(),
        "processes": jax.process_count(),
        "devices": [_device(device) for device in jax.local_devices()],
        "memory": _memory(),
        "precision": _precision(),
        "self_check": self_check(),
    }
    sound = found["self_check"]["sound"] and found["precision"]["sound"]
    found["sound"] = sound
    if output.json:
        print_json(found)
    else:
        print(_page(found))
    if not sound:
        note(
            "bayesnn: error: This installation computes a wrong posterior; see above. Do not use "
            "its results: try another version of jax and jaxlib, or another device "
            "(JAX_PLATFORMS=cpu)."
        )
    return 0 if sound else 1


def known_posterior() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Data of a linear model with w ~ N(0, I) and noise of a known size, and its posterior.

    Returns:
        x (N, d), y (N,), and mean and standard deviation of each weight, (d,): the precision is
        I + xᵀx / s², the mean its inverse times xᵀy / s² (Bishop 2006, equations 3.50 and 3.51).
    """
    generator = np.random.default_rng(0)
    x = generator.normal(size=(_ROWS, _FEATURES))
    y = x @ generator.normal(size=_FEATURES) + _NOISE * generator.normal(size=_ROWS)
    covariance = np.linalg.inv(np.eye(_FEATURES) + x.T @ x / _NOISE**2)
    return x, y, covariance @ x.T @ y / _NOISE**2, np.sqrt(np.diag(covariance))


def _model(x: Any, y: Any = None, *, batch_size: int | None = None) -> None:
    import numpyro
    import numpyro.distributions as dist

    import bayesnn_ppl as bnn

    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(x @ w, _NOISE), obs=y)


def self_check() -> dict[str, Any]:
    """Sample a posterior that is known in closed form, and compare; some ten seconds."""
    import bayesnn_ppl as bnn

    began = time.perf_counter()
    x, y, mean, sd = known_posterior()
    kernel = bnn.kernels.HMC(_model, num_leapfrogs=3, jitter=0.7, step_size=0.05)
    posterior = bnn.sample(
        kernel,
        x.astype(np.float32),
        y.astype(np.float32),
        warmup=300,
        draws=1000,
        chains=2,
        seed=0,
        progress=False,
    )
    found = verdict(posterior.draws["w"], mean, sd)
    return found | {"seconds": round(time.perf_counter() - began, 1)}


def verdict(draws: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> dict[str, Any]:
    """Check draws (chain, draw, d) against the known means and standard deviations (d,).

    Errors are counted in Monte Carlo standard errors: that of a mean is sd/√ESS, and that of a
    variance of a Gaussian √2 sd²/√ESS.
    """
    from bayesnn_ppl.diagnostics import ess_bulk

    draws = np.asarray(draws, np.float64)
    ess = float(np.min(ess_bulk(draws)))
    enough = bool(np.isfinite(ess) and ess >= _LEAST_ESS)
    count = max(ess, 1.0) if np.isfinite(ess) else 1.0
    errors = np.abs(draws.mean((0, 1)) - mean) / sd * np.sqrt(count)
    spread = np.abs(draws.var((0, 1)) / sd**2 - 1) * np.sqrt(count / 2)
    worst = float(max(errors.max(), spread.max()))
    return {
        "effective_sample_size": round(ess, 1),
        "largest_error_of_a_mean": round(float(errors.max()), 2),
        "largest_error_of_a_variance": round(float(spread.max()), 2),
        "sound": enough and bool(np.isfinite(worst)) and worst < _MOST_ERRORS,
    }


def _precision() -> dict[str, Any]:
    """How far a product of matrices is from the exact one, as samplers make it and by default."""
    import jax
    import jax.numpy as jnp

    from bayesnn_ppl.core.precision import arithmetic

    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(2, 256, 256)).astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(exact).max()

    def error() -> float:
        return float(np.abs(np.asarray(jnp.matmul(a, b), np.float64) - exact).max() / scale)

    default = error()
    with arithmetic(float64=False):
        ours, used = error(), jax.config.jax_default_matmul_precision
    return {
        "matmul_of_samplers": used,
        "matmul_by_default": jax.config.jax_default_matmul_precision or "the platform's own",
        "relative_error_of_samplers": ours,
        "relative_error_by_default": default,
        "sound": ours < 1e-5,
    }


def _device(device: Any) -> dict[str, Any]:
    return {"name": str(device), "kind": device.device_kind, "free_bytes": free_bytes(device)}


def _memory() -> dict[str, Any]:
    page = os.sysconf("SC_PAGE_SIZE")
    names = os.sysconf_names
    free = os.sysconf("SC_AVPHYS_PAGES") * page if "SC_AVPHYS_PAGES" in names else None
    return {"total_bytes": os.sysconf("SC_PHYS_PAGES") * page, "free_bytes": free}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _gigabytes(count: int | None) -> str:
    return "unknown" if count is None else f"{count / 2**30:.1f} GiB"


def _page(found: dict[str, Any]) -> str:
    check, precision = found["self_check"], found["precision"]
    rows = [("Python", found["python"])]
    rows += list(found["versions"].items())
    devices = [
        (d["name"], f"{d['kind']}, free: {_gigabytes(d['free_bytes'])}") for d in found["devices"]
    ]
    memory = found["memory"]
    rows += [
        ("processes", str(found["processes"])),
        *devices,
        (
            "memory",
            f"{_gigabytes(memory['free_bytes'])} free of {_gigabytes(memory['total_bytes'])}",
        ),
        (
            "precision",
            f"samplers multiply matrices in `{precision['matmul_of_samplers']}`: relative error "
            f"{precision['relative_error_of_samplers']:.1e} (by default on this platform "
            f"{precision['relative_error_by_default']:.1e})",
        ),
        (
            "self-check",
            f"{'right' if check['sound'] else 'WRONG'}: linear model by HMC in {check['seconds']} s"
            f", {check['effective_sample_size']:.0f} effective draws; largest error of a mean "
            f"{check['largest_error_of_a_mean']}, of a variance "
            f"{check['largest_error_of_a_variance']} standard errors (at most {_MOST_ERRORS:g})",
        ),
    ]
    return table(("WHAT", "FOUND"), rows)


COMMAND = Command(
    "doctor",
    "show devices, precision, versions and memory, and check a known posterior",
    run_doctor,
)


def run_completion(shell: str, *, output: Output) -> int:
    """Print the script of one shell."""
    from bayesnn_ppl.cli.app import whole_app

    script = whole_app().generate_completion(prog_name="bayesnn", shell=shell)  # type: ignore[arg-type]
    if output.json:
        print_json({"shell": shell, "script": script})
    else:
        print(script)
    return 0


COMPLETION = Command(
    "completion",
    "print the script with which a shell completes what is typed",
    run_completion,
    (
        Argument(
            "shell",
            "the shell whose script is printed",
            "{bash,zsh,fish}",
            read=choice("bash", "zsh", "fish"),
        ),
    ),
)
