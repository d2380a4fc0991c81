"""What a stochastic-gradient step costs: its time over that of the gradient it cannot do without.

    python -m benchmarks sgmcmc [--cases mlp lenet] [--repeats 15] [--out FILE.json]
        [--posteriors PYTHON]

Two cases: a 50-50 tanh MLP with eight inputs (3 051 weights), B = 64 of N = 50 000 rows; and LeNet
on images of 28 × 28 (91 946 weights), B = 128 of N = 10 000. One chain. The contenders take turns,
and ratios are medians over the turns: the machine's speed drifts by more than the differences.

* host loop: one compiled function, the gradient on a minibatch and a move along it, called from
  Python for each step with indices made before;
* scan: the same as the body of a `lax.scan`. Neither has noise. The gradient is NumPyro's own
  `potential_energy` on a dictionary of weights, with the indices substituted into the plate;
* SGLD, SGHMC: `kernel.sample` of ours, with the draw of indices, noise and statistics; in the
  second line each with a permutation an epoch;
* BlackJAX: its SGLD and SGHMC (10 steps on one minibatch, as it has it) with the same gradient in a
  `lax.scan`, where it is installed;
* posteriors: the PyTorch library's SGLD and SGHMC, run by the interpreter `--posteriors` of an
  environment of its own, just before the turns of the others.
"""

import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.infer.util import initialize_model, potential_energy

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.stochastic_gradient.sghmc import SGHMC
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgld import SGLD
from benchmarks.harness.records import Record
from benchmarks.harness.running import run_peer
from benchmarks.harness.tables import Table
from benchmarks.harness.timing import Run, in_turns, median_ratio, timed
from benchmarks.speed.baselines import sine_rows, tanh_network

STEP_SIZE = 1e-8


def mlp_case() -> tuple[Any, Any, Any, int, int]:
    """Model, x, y, batch size and steps of a turn."""
    return tanh_network(), *sine_rows(50_000), 64, 1000


def lenet_case() -> tuple[Any, Any, Any, int, int]:
    """Likewise, on noise in the place of images."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(10_000, 28, 28, 1)).astype(np.float32)
    y = generator.integers(10, size=10_000).astype(np.int32)
    return bnn.models.lenet(), x, y, 128, 10


CASES = {"mlp": mlp_case, "lenet": lenet_case}


def contenders(case: str) -> tuple[dict[str, Run], int]:
    """Name -> a function that makes the steps of a turn and returns the seconds; how many."""
    model, x, y, batch_size, steps = CASES[case]()
    data = (jnp.asarray(x), jnp.asarray(y))
    position = initialize_model(jax.random.key(0), model, model_args=data).param_info.z
    indices = jax.random.randint(jax.random.key(1), (steps, batch_size), 0, len(x))

    def gradient(z: Any, rows: Any, data: Any) -> Any:
        on_rows = handlers.substitute(model, data={"data": rows})
        options = {"batch_size": batch_size}
        return jax.grad(lambda z: potential_energy(on_rows, data, options, z))(z)

    def move(z: Any, rows: Any, data: Any) -> Any:
        return jax.tree.map(lambda a, g: a - STEP_SIZE * g, z, gradient(z, rows, data))

    def scan(z: Any, indices: Any, data: Any) -> Any:
        return jax.lax.scan(lambda z, rows: (move(z, rows, data), None), z, indices)[0]

    def host_loop() -> float:
        z = position
        began = time.perf_counter()
        for rows in host_indices:
            z = one(z, rows, data)
        jax.block_until_ready(z)
        return time.perf_counter() - began

    def of_kernel(kernel: Any) -> Run:
        state = kernel.init(jax.random.key(0), 0, position, data, {})
        return timed(lambda state, data: kernel.sample(state, data, {}), state, data)

    host_indices = list(np.asarray(indices))
    one = jax.jit(move)
    settings = {"step_size": STEP_SIZE, "batch_size": batch_size, "steps_per_draw": steps}
    runs = {
        "host loop": host_loop,
        "scan": timed(scan, position, indices, data),
        "SGLD": of_kernel(SGLD(model, **settings)),
        "SGHMC": of_kernel(SGHMC(model, **settings)),
        "SGLD, epochs": of_kernel(SGLD(model, minibatches="epoch", **settings)),
        "SGHMC, epochs": of_kernel(SGHMC(model, minibatches="epoch", **settings)),
    }
    host_loop()
    if importlib.util.find_spec("blackjax") is None:
        print("BlackJAX is not installed: pip install 'bayesnn_ppl[benchmarks]'")
        return runs, steps
    return runs | blackjax_contenders(gradient, position, data, batch_size, steps), steps


def blackjax_contenders(
    gradient: Any, position: Any, data: Any, batch_size: int, steps: int
) -> dict[str, Run]:
    """BlackJAX's kernels, on the same gradient, with indices and keys made as it needs them."""
    import blackjax

    def estimator(z: Any, minibatch: Any) -> Any:
        rows, data = minibatch
        return jax.tree.map(jnp.negative, gradient(z, rows, data))

    leapfrogs = 10
    kernels = {
        "BlackJAX SGLD": (blackjax.sgld(estimator), steps),
        "BlackJAX SGHMC": (blackjax.sghmc(estimator, leapfrogs), steps // leapfrogs),
    }

    def over(kernel: Any, count: int) -> Callable[..., Any]:
        def scan(z: Any, key: Any, data: Any) -> Any:
            row_key, noise_key = jax.random.split(key)
            indices = jax.random.randint(row_key, (count, batch_size), 0, len(data[0]))

            def step(z: Any, inputs: Any) -> Any:
                rows, key = inputs
                return kernel.step(key, z, (rows, data), STEP_SIZE), None

            return jax.lax.scan(step, z, (indices, jax.random.split(noise_key, count)))[0]

        return scan

    return {
        name: timed(over(kernel, count), position, jax.random.key(2), data)
        for name, (kernel, count) in kernels.items()
    }


def posteriors_peer(python: str, case: str, repeats: int) -> dict[str, list[float]]:
    """Name -> seconds a step of the PyTorch library, one for each repeat."""
    steps = {"mlp": 200, "lenet": 5}[case]
    found = json.loads(run_peer(python, "posteriors_peer.py", case, steps, repeats))
    return {f"posteriors {name}": seconds for name, seconds in found.items()}


def measure(case: str, repeats: int, peer: str | None) -> dict[str, dict[str, float]]:
    """Name -> microseconds a step, and the ratios to the two floors."""
    peers = {} if peer is None else posteriors_peer(peer, case, repeats)
    runs, steps = contenders(case)
    turns = in_turns(runs, repeats)
    seconds = {name: [s / steps for s in values] for name, values in turns.items()} | peers
    return {
        name: {
            "microseconds": 1e6 * statistics.median(values),
            "over host loop": median_ratio(values, seconds["host loop"]),
            "over scan": median_ratio(values, seconds["scan"]),
            "least over least": min(values) / min(seconds["scan"]),
        }
        for name, values in seconds.items()
    }


def main(
    *,
    cases: tuple[Literal[*CASES], ...] = tuple(sorted(CASES)),
    repeats: int = 15,
    posteriors: str | None = None,
    out: Path | None = None,
) -> None:
    """Print one table per case.

    Args:
        posteriors: an interpreter that has `posteriors` and torch.
        out: a JSON file for the figures.
    """
    table, record = (
        Table(
            "case <7",
            "contender <16",
            "us/step >11.1f",
            "/ host >8.3f",
            "/ scan >8.3f",
            "least >8.3f",
        ),
        Record(out),
    )
    for case in cases:
        record[case] = measure(case, repeats, posteriors)
        for name, row in record.rows[case].items():
            table.row(case, name, *row.values())
