"""How many of 25 modes a chain finds with a cyclical step size, and with a constant one.

    python -m benchmarks gaussian_mixture [--seeds 5] [--out benchmarks/results]

The toy of Zhang et al. (2020, Section 5.1): 25 Gaussians of covariance 0.03·I, alike in weight,
at the points of {-4, -2, 0, 2, 4}². SGLD makes 50 000 steps from a start uniform on (-10, 10)².
A mode is found by a chain that has 100 draws or more within 0.25 of it, which is their criterion;
of all draws 0.65 should lie so near to a mode (`inside`), and that says what large steps cost.

* cyclical: 30 cycles, ε = peak·c², draws are the steps of the last half of each cycle;
* the same as in their code: peak 0.07, ε = peak·c, draws are all steps but the first 50 of a cycle;
* constant: every step is a draw.

Peak and constant are each chosen from the same eight values, on chains of other seeds: of those
with `inside` within 10 % of what it should be, the one with which the union of 4 chains finds most
modes (median of the unions), and of equals the smallest. A constant is chosen a second time by
the modes alone: steps so large that they are almost unstable carry a chain over every mode, but
hardly into one, and what comes out is not the density.

Writes `gaussian_mixture.json` and `gaussian_mixture.png`.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import init_to_uniform

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgld import SGLD
from bayesnn_ppl.inference.schedules.simple import Cyclical
from bayesnn_ppl.plots.figure import new_figure, palette, styled
from benchmarks.harness.records import RESULTS, write_result

CENTRES = np.array([(a, b) for a in range(-4, 5, 2) for b in range(-4, 5, 2)], np.float32)
VARIANCE, RADIUS, ENOUGH = 0.03, 0.25, 100
EXACT = 1 - math.exp(-(RADIUS**2) / (2 * VARIANCE))  # of all draws, so many are near a mode
CHAINS, CYCLES = 4, 30
STEP_SIZES = (0.005, 0.008, 0.012, 0.018, 0.028, 0.043, 0.065, 0.1)
NO_DATA = np.zeros((1, 1), np.float32), np.zeros(1, np.float32)

type Draws = np.ndarray[Any, np.dtype[np.float32]]


def mixture(x: Any, y: Any = None, *, batch_size: int | None = None) -> None:
    """The density as a prior, under the model contract: its one row says nothing about it."""
    component = dist.Normal(jnp.asarray(CENTRES), VARIANCE**0.5).to_event(1)
    weights = dist.Categorical(probs=jnp.full(len(CENTRES), 1 / len(CENTRES)))
    numpyro.sample("position", dist.MixtureSameFamily(weights, component))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(jnp.zeros(x.shape[0]), 1.0), obs=y)


@dataclass(frozen=True)
class Rule:
    """A step size, and which steps of it are draws.

    Attributes:
        step_size: a number, or a schedule of 30 cycles.
        skipped: steps at the beginning of a cycle that are no draws.
    """

    step_size: float | Cyclical
    skipped: int = 0


def cyclical(peak: float, steps: int) -> Rule:
    """30 cycles with draws in the last half of each."""
    length = steps // CYCLES
    return Rule(Cyclical(peak, steps_per_cycle=length), skipped=length // 2)


def as_published(steps: int) -> Rule:
    """The settings of csgmcmc's own script."""
    return Rule(Cyclical(0.07, steps_per_cycle=steps // CYCLES, power=1), skipped=50)


def positions(rule: Rule, *, steps: int, chains: int, seed: int) -> Draws:
    """Where the chains were after each step that is a draw, shape (chains, draws, 2)."""
    cycle = rule.step_size.steps_per_cycle if isinstance(rule.step_size, Cyclical) else 1
    steps -= steps % cycle
    posterior = bnn.sample(
        SGLD(mixture, step_size=rule.step_size, batch_size=1, steps_per_draw=1),
        *NO_DATA,
        warmup=0,
        draws=steps,
        chains=chains,
        seed=seed,
        init=init_to_uniform(radius=10),
        progress=False,
    )
    draws = np.asarray(posterior.draws["position"])
    return draws[:, np.arange(steps) % cycle >= rule.skipped]


def counts(draws: Draws) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Draws (..., n, 2) within the radius of each mode, shape (..., 25)."""
    nearest = np.clip(np.round(draws / 2), -2, 2).astype(int)
    inside = ((draws - 2 * nearest) ** 2).sum(-1) < RADIUS**2
    index = 5 * (nearest[..., 0] + 2) + nearest[..., 1] + 2
    flat = np.where(inside, index, len(CENTRES)).reshape(-1, draws.shape[-2])
    found = np.stack([np.bincount(row, minlength=26)[:25] for row in flat])
    return found.reshape(*draws.shape[:-2], 25)


def figures_of(draws: Draws) -> dict[str, Any]:
    """What is recorded of chains (chains, draws, 2), in groups of four."""
    numbers = counts(draws)
    found = numbers >= ENOUGH
    unions = found.reshape(-1, CHAINS, 25).any(axis=1).sum(axis=-1)
    return {
        "per_chain": found.sum(axis=-1).tolist(),
        "union_of_4": unions.tolist(),
        "inside": float(numbers.sum() / np.prod(draws.shape[:2])),
    }


def tried(
    rule: Callable[[float], Rule], *, steps: int, groups: int, seed: int
) -> list[dict[str, Any]]:
    """What each step size of the grid does."""
    rows = []
    for value in STEP_SIZES:
        draws = positions(rule(value), steps=steps, chains=CHAINS * groups, seed=seed)
        rows.append({"step_size": value, **figures_of(draws)})
        print(_line(f"tuning, {value:g}", rows[-1]), flush=True)
    return rows


def best(rows: Sequence[Mapping[str, Any]], *, faithful: bool = True) -> float:
    """The step size that finds most modes, among those whose draws lie as they should."""
    allowed = [r for r in rows if not faithful or r["inside"] > 0.9 * EXACT]
    if not allowed:
        raise ValueError(f"No step size of {STEP_SIZES} samples the density: add smaller ones.")
    chosen = max(allowed, key=lambda row: (np.median(row["union_of_4"]), -row["step_size"]))
    return float(chosen["step_size"])


@styled
def picture(draws: Mapping[str, Draws], titles: Mapping[str, str]) -> Any:
    """One panel for each contender: the draws of its four chains, in four colours."""
    figure = new_figure(width=4.2 * len(draws), height=4.6)
    axes = figure.subplots(1, len(draws), sharex=True, sharey=True, squeeze=False)[0]
    for axis, (name, chains) in zip(axes, draws.items(), strict=True):
        for number, chain in enumerate(chains):
            shown = chain[:: max(1, len(chain) // 4000)]
            axis.plot(*shown.T, ".", markersize=1.2, color=palette(number), alpha=0.5)
        missed = ~(counts(chains) >= ENOUGH).any(axis=0)
        axis.scatter(*CENTRES.T, s=260, facecolors="none", edgecolors="0.75", linewidths=0.8)
        axis.scatter(*CENTRES[missed].T, s=60, marker="x", color="0.1", label="not found")
        axis.set(title=titles[name], xlim=(-5.5, 5.5), ylim=(-5.5, 5.5), aspect="equal")
        axis.grid(visible=False)
    return figure


def run(*, steps: int, seeds: int, groups: int) -> tuple[dict[str, Any], Any]:
    """Tune, measure, draw the picture."""
    print("cyclical", flush=True)
    peaks = tried(lambda peak: cyclical(peak, steps), steps=steps, groups=groups, seed=1000)
    print("constant", flush=True)
    constants = tried(Rule, steps=steps, groups=groups, seed=2000)
    peak, constant = best(peaks), best(constants)
    largest = best(constants, faithful=False)
    contenders = {
        f"cyclical, peak {peak:g}": cyclical(peak, steps),
        "cyclical as published": as_published(steps),
        f"constant, {constant:g}": Rule(constant),
        f"constant, {largest:g}: modes alone": Rule(largest),
    }
    results, first = {}, {}
    for name, rule in contenders.items():
        began = time.perf_counter()
        runs = [positions(rule, steps=steps, chains=CHAINS, seed=seed) for seed in range(seeds)]
        first[name] = runs[0]
        results[name] = figures_of(np.concatenate(runs)) | {"seconds": time.perf_counter() - began}
        print(_line(name, results[name]), flush=True)
    titles = {
        name: f"{name}\n{r['union_of_4'][0]} of 25 modes, inside {r['inside']:.2f}"
        for name, r in results.items()
    }
    record = {
        "steps": steps,
        "seeds": seeds,
        "criterion": {"radius": RADIUS, "draws": ENOUGH},
        "inside_exact": EXACT,
        "results": results,
        "tuning": {"cyclical": peaks, "constant": constants},
    }
    return record, picture(first, titles)


def _line(name: str, row: Mapping[str, Any]) -> str:
    single, union = row["per_chain"], row["union_of_4"]
    return (
        f"{name:<38} one chain {min(single)}-{max(single)} (median {np.median(single):g}), union "
        f"of 4 {min(union)}-{max(union)} (median {np.median(union):g}), inside {row['inside']:.2f}"
    )


def main(*, steps: int = 50_000, seeds: int = 5, groups: int = 3, out: Path = RESULTS) -> None:
    """Print the table, write JSON and picture.

    Args:
        groups: of four chains, in the tuning.
    """
    record, figure = run(steps=steps, seeds=seeds, groups=groups)
    write_result(out / "gaussian_mixture.json", record)
    figure.savefig(out / "gaussian_mixture.png")
