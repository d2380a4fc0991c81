"""Samplers on one posterior, each as its users run it: ours, and four other libraries'."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from benchmarks.harness.running import peer
from benchmarks.samplers.problem import Clock, Compilations, Problem

CHAINS = 4


def over_chains(function: Callable[..., Any]) -> Any:
    """Four chains, two on each device one after the other, as our runner places them."""
    import bayesnn_ppl as bnn

    spec = jax.sharding.PartitionSpec("chain")
    return jax.jit(
        jax.shard_map(
            lambda *args: jax.lax.map(lambda one: function(*one), args),
            mesh=bnn.device_mesh(2),
            in_specs=spec,
            out_specs=spec,
            axis_names={"chain"},
            check_vma=False,
        )
    )


def numpyro_nuts(
    problem: Problem,
    compilations: Compilations,
    budget: float,
    *,
    method: str,
    warmup: int,
    seed: int = 0,
) -> dict[str, Any]:
    """`numpyro.infer.MCMC(NUTS)`; after the warm-up, as many draws as the budget has room for."""
    from numpyro.infer import MCMC, NUTS, init_to_sample

    mcmc = MCMC(
        NUTS(problem.model, init_strategy=init_to_sample),
        num_warmup=warmup,
        num_samples=1,
        num_chains=CHAINS,
        chain_method=method,
        progress_bar=False,
    )
    data, clock = problem.arrays, Clock(compilations)
    mcmc.warmup(jax.random.key(seed), *data, extra_fields=("num_steps",), collect_warmup=True)
    steps = np.asarray(mcmc.get_extra_fields(group_by_chain=True)["num_steps"])
    per_step = clock.seconds() / steps.sum()
    mcmc.num_samples = _affordable(budget - clock.seconds(), per_step, steps)
    mcmc.run(jax.random.key(seed + 1), *data, extra_fields=("num_steps",))
    seconds = clock.seconds()
    made = np.asarray(mcmc.get_extra_fields()["num_steps"]).sum()
    samples = mcmc.get_samples(group_by_chain=True)
    draws = {name: samples[name] for name in mcmc.last_state.z}
    return {
        "functions": problem.functions(draws),
        "gradients": int(steps.sum() + made),
        "seconds": seconds,
        "compile": clock.compile,
    }


def _affordable(seconds: float, per_step: float, steps: np.ndarray) -> int:
    """Draws for the seconds that are left, if they cost what the last of the warm-up did.

    Args:
        seconds, per_step: left, and for a step of any chain.
        steps: of each draw of the warm-up, (chain, draw).
    """
    late = steps[:, -max(1, steps.shape[1] // 4) :].mean() * len(steps)
    return int(np.clip(seconds / (per_step * late), 20, 20_000))


def blackjax_nuts(
    problem: Problem,
    compilations: Compilations,
    budget: float,
    *,
    warmup: int,
    low_rank: bool = False,
) -> dict[str, Any]:
    """BlackJAX's window adaptation, of a diagonal or low-rank mass, and NUTS."""
    import blackjax

    potential, start = problem.potential()

    def log_density(z: Any) -> Any:
        return -potential(z)

    def warm(key: Any) -> Any:
        start_key, warm_key = jax.random.split(key)
        adapt = blackjax.window_adaptation_low_rank if low_rank else blackjax.window_adaptation
        adaptation = adapt(blackjax.nuts, log_density)
        (state, settings), info = adaptation.run(warm_key, start(start_key), warmup)
        return state, settings, info.info.num_integration_steps

    def draw(key: Any, state: Any, settings: Any, count: int) -> Any:
        step = blackjax.nuts(log_density, **settings).step

        def body(state: Any, key: Any) -> Any:
            state, info = step(key, state)
            return state, (state.position, info.num_integration_steps)

        return jax.lax.scan(body, state, jax.random.split(key, count))[1]

    clock = Clock(compilations)
    keys = jax.random.split(jax.random.key(0), (2, CHAINS))
    state, settings, steps = jax.block_until_ready(over_chains(warm)(keys[0]))
    steps = np.asarray(steps)
    per_step = clock.seconds() / steps.sum()
    count = _affordable(budget - clock.seconds(), per_step, steps)
    draws, made = jax.block_until_ready(
        over_chains(lambda *args: draw(*args, count))(keys[1], state, settings)
    )
    seconds = clock.seconds()
    return {
        "functions": problem.functions(problem.constrained(draws)),
        "gradients": int(steps.sum() + np.asarray(made).sum()),
        "seconds": seconds,
        "compile": clock.compile,
    }


def blackjax_mclmc(problem: Problem, compilations: Compilations, budget: float) -> dict[str, Any]:
    """BlackJAX's tuning (three tenths of the steps) and MCLMC; 1 000 draws are kept."""
    import blackjax

    potential, start = problem.potential()

    def log_density(z: Any) -> Any:
        return -potential(z)

    def run(key: Any, steps: int) -> Any:
        start_key, init_key, tune_key, draw_key = jax.random.split(key, 4)
        kernel = blackjax.mcmc.mclmc.build_kernel(
            integrator=blackjax.mcmc.integrators.isokinetic_mclachlan
        )
        state = blackjax.mcmc.mclmc.init(start(start_key), log_density, init_key)
        state, found, tuning = blackjax.mclmc_find_L_and_step_size(
            mclmc_kernel=kernel,
            num_steps=steps,
            state=state,
            rng_key=tune_key,
            logdensity_fn=log_density,
        )

        def one(state: Any, key: Any) -> Any:
            matrix = found.inverse_mass_matrix
            new, _ = kernel(key, state, log_density, matrix, found.L, found.step_size)
            return new, None

        def body(state: Any, key: Any) -> Any:
            state, _ = jax.lax.scan(one, state, jax.random.split(key, steps // 1000))
            return state, state.position

        _, draws = jax.lax.scan(body, state, jax.random.split(draw_key, 1000))
        return draws, jnp.asarray(tuning)

    keys = jax.random.split(jax.random.key(0), CHAINS)
    pilot = Clock(compilations)
    jax.block_until_ready(over_chains(lambda key: run(key, 2000))(keys))
    steps = int(2000 * budget / pilot.seconds() / 1000) * 1000
    clock = Clock(compilations)
    draws, tuning = jax.block_until_ready(over_chains(lambda key: run(key, steps))(keys))
    seconds = clock.seconds()
    return {
        "functions": problem.functions(problem.constrained(draws)),
        "gradients": int(2 * (CHAINS * steps + np.asarray(tuning).sum())),
        "seconds": seconds,
        "compile": clock.compile,
    }


def nutpie_nuts(
    problem: Problem, python: str, budget: float, *, warmup: int, low_rank: bool = False
) -> dict[str, Any]:
    """nutpie's NUTS from draws of the prior, in an environment of its own.

    Its JAX backend calls a compiled function from Python for each gradient, and so it is here, with
    the exported density.
    """
    potential, start = problem.potential()
    starts = [ravel_pytree(start(jax.random.key(chain))) for chain in range(CHAINS)]
    vector, unravel = starts[0]
    value_and_gradient = jax.jit(jax.value_and_grad(lambda z: -potential(unravel(z))))
    exported = jax.export.export(value_and_gradient)(vector)
    given = {
        "density": np.frombuffer(exported.serialize(), np.uint8),
        "starts": np.stack([vector for vector, _ in starts]),
    }
    adaptation = "low_rank" if low_rank else "diag"
    options = {"seconds": budget, "tune": warmup, "adaptation": adaptation}
    found = peer(python, "nutpie_peer.py", given, options)
    draws = jax.vmap(jax.vmap(unravel))(jnp.asarray(found["draws"], vector.dtype))
    return {
        "functions": problem.functions(problem.constrained(draws)),
        "gradients": int(found["gradients"]),
        "seconds": float(found["seconds"]),
        "compile": float(found["compile"]),
    }


def bde(problem: Problem, python: str, *, members: int = CHAINS, **settings: Any) -> dict[str, Any]:
    """`sklearn-contrib-bde` in an environment of its own, with its own network and tuning.

    Args:
        problem: whose data and hidden layers it is given.
        python: the interpreter of that environment.
        members: chains.
        settings: further ones of `BdeRegressor`.
    """
    options = {"n_members": members, "hidden_layers": problem.hidden, **settings}
    x, y = problem.arrays
    found = peer(python, "bde_peer.py", {"x": x, "y": y, "test": problem.data.test.x}, options)
    raw = found["raw"]
    steps = options["warmup_steps"] + options["n_samples"]
    return {
        "functions": np.concatenate([raw[..., 0], raw[..., 1]], axis=2),
        "gradients": int(2 * members * steps),
        "seconds": float(found["seconds"]),
        "compile": float(found["compile"]),
    }


def ours(
    problem: Problem,
    compilations: Compilations,
    kernel: Any,
    warmup: int,
    budget: float,
    *,
    chains: int = CHAINS,
    draws: int = 200_000,
    seed: int = 0,
    init: Any = None,
) -> dict[str, Any]:
    """Any kernel under `bnn.sample`; the budget holds training, warm-up and sampling."""
    import bayesnn_ppl as bnn

    gradients, clock = 0, Clock(compilations)
    history: list[tuple[float, int]] = []

    def watch(progress: Any) -> bool:
        nonlocal gradients
        gradients += int(np.sum(progress.statistics["n_steps"], dtype=np.int64))
        if progress.phase == "warmup":
            return False
        history.append((clock.seconds(), progress.done))
        return history[-1][0] > budget

    posterior = bnn.sample(
        kernel,
        *problem.data.train,
        warmup=warmup,
        draws=draws,
        chains=chains,
        seed=seed,
        init=init,
        callback=watch,
        progress=False,
        keep=bnn.Keep(weights="none", probe=problem.data.test),
    )
    values = posterior.function_values()
    functions = np.concatenate(
        [np.broadcast_to(a, values["mean"].shape) for a in values.values()], axis=2
    )
    return {
        "functions": functions,
        "gradients": gradients,
        "seconds": history[-1][0],
        "compile": clock.compile,
        "history": history,
    }
