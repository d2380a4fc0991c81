"""nutpie's NUTS on a posterior of NumPyro, by the density that JAX computes."""

import time
from typing import Any

import jax
import numpy as np

from benchmarks.samplers.contenders import CHAINS
from benchmarks.samplers.problem import Clock, Compilations, Problem


def nutpie_nuts(
    problem: Problem, compilations: Compilations, budget: float, *, warmup: int, low_rank: bool
) -> dict[str, Any]:
    """Its NUTS, of which JAX computes log p and gradient, ended when the budget is spent.

    Args:
        problem, compilations: whose seconds are left out.
        budget: seconds.
        warmup: draws of it.
        low_rank: a mass with the directions in which draws and gradients disagree most.
    """
    import nutpie
    from jax.flatten_util import ravel_pytree
    from nutpie.compiled_pyfunc import from_pyfunc

    potential, start = problem.potential()
    begun = start(jax.random.key(0))
    vector, unravel = ravel_pytree(begun)
    slope = jax.jit(jax.value_and_grad(lambda z: -potential(unravel(z))))

    def log_density(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = slope(np.asarray(z, np.float32))
        return float(value), np.asarray(gradient, np.float64)

    def initial_point(seed: int) -> np.ndarray:
        return np.asarray(ravel_pytree(start(jax.random.key(seed % 2**31)))[0], np.float64)

    model = from_pyfunc(
        vector.size,
        lambda: log_density,
        lambda *_: lambda z: {"z": z},
        [np.dtype(np.float64)],
        [(vector.size,)],
        ["z"],
        make_initial_point_fn=initial_point,
    )
    clock = Clock(compilations)
    log_density(np.asarray(vector))
    initial_point(0)
    clock.seconds()
    sampler = nutpie.sample(
        model,
        draws=20_000,
        tune=warmup,
        chains=CHAINS,
        cores=CHAINS,
        seed=0,
        progress_bar=False,
        blocking=False,
        adaptation="low_rank" if low_rank else "diag",
    )
    time.sleep(max(0.0, budget - clock.seconds()))
    trace = sampler.abort()
    seconds = clock.seconds()
    draws = np.asarray(trace["posterior"]["z"], np.float32)
    groups = "sample_stats", "warmup_sample_stats"
    steps = sum(np.nansum(np.asarray(trace[group]["n_steps"])) for group in groups)
    draws = draws[:, np.isfinite(draws).all((0, 2))]
    if draws.shape[1] < 4:  # too few for an effective sample size; the warm-up's have scores
        draws = np.asarray(trace["warmup_posterior"]["z"], np.float32)
        draws = draws[:, np.isfinite(draws).all((0, 2))][:, -3:]
    return {
        "functions": problem.functions(problem.constrained(jax.vmap(jax.vmap(unravel))(draws))),
        "gradients": int(steps),
        "seconds": seconds,
        "compile": clock.compile,
    }
