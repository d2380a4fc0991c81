"""What k chosen draws lose at held-out rows: support points, and other ways to choose.

    BAYESNN_DATA=... python -m benchmarks compression [--minutes 20] [--out benchmarks/results]

The seven reference posteriors have 1 000 nearly independent draws of their functions at test rows.
Half of the rows, at random, choose k draws, and the other half says what is lost compared with
all draws; 20 times. With few rows to choose by, that is the hard case. In the usual one, names that
end with "at training rows", 4 × 250 draws of HMC from the same posteriors are chosen at all
training rows and judged at the test rows of the splits 0 to 4.

`tv` is the mean total variation distance of the predictive distributions (of numbers: mixtures of
Gaussians, on a grid); `nll` the negative log score minus that of all draws; `agreement` the share
of rows with the same most probable label. `support points` is `Posterior.compress`; `greedy` is
the same without exchanges; `herding` is kernel herding with a Gaussian kernel whose width is the
median distance (Chen et al. 2010, arXiv:1203.3472); `predictive` matches the probabilities, or the
distribution function at 8 points a row, by the same greedy choice and exchanges; `even` is every
(S/k)th draw; `random` the mean of 10 random choices. Writes `compression.json`.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

import bayesnn_ppl as bnn
from bayesnn_ppl.posterior.compression import _coordinates, _distances, support_points
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table, mean_and_error

SIZES, HALVES, SPLITS, RANDOM = (5, 10, 20, 50), 20, 5, 10
SAMPLED = ("breast_cancer", "wine-cold", "diabetes-ard")
AT_TRAINING_ROWS = " at training rows"
type Functions = Mapping[str, np.ndarray]  # output -> (S, N, ...)


def greedy(functions: Functions, k: int, _: Any) -> np.ndarray:
    """Support points without exchanges."""
    return support_points(_points(functions), k, passes=0)[0]


def exchanged(functions: Functions, k: int, _: Any) -> np.ndarray:
    """Support points, as `compress` chooses them."""
    return support_points(_points(functions), k)[0]


def herding(functions: Functions, k: int, _: Any) -> np.ndarray:
    """Kernel herding without repetition: the next draw is where the mean embedding lacks most."""
    distances = _distances(_points(functions))
    kernel = np.exp(-((distances / np.median(distances)) ** 2))
    wanted, had, chosen = kernel.mean(axis=1), np.zeros(len(kernel)), []
    for count in range(1, k + 1):
        gain = wanted - had / count
        gain[chosen] = -np.inf
        chosen.append(int(gain.argmax()))
        had += kernel[chosen[-1]]
    return np.array(chosen)


def predictive(functions: Functions, k: int, _: Any) -> np.ndarray:
    """Draws whose average is nearest to the predictive distribution itself, in squares."""
    features = _predictive_features(functions)
    features = features - features.mean(axis=0)
    squares, chosen = np.square(features).sum(axis=1), np.zeros(0, int)
    for place in [*range(k), *10 * list(range(k))]:
        others = np.delete(chosen, place) if place < len(chosen) else chosen
        cost = squares + 2 * features @ features[others].sum(axis=0)
        cost[others] = np.inf
        chosen = np.insert(others, min(place, len(others)), cost.argmin())
    return chosen


def even(functions: Functions, k: int, generator: Any) -> np.ndarray:
    """Every (S/k)th draw, from a random one on."""
    draws = len(next(iter(functions.values())))
    return (generator.integers(draws // k) + np.arange(k) * draws // k) % draws


WAYS: dict[str, Callable[[Functions, int, Any], np.ndarray]] = {
    "support points": exchanged,
    "greedy": greedy,
    "herding": herding,
    "predictive": predictive,
    "even": even,
}


def _points(functions: Functions) -> np.ndarray:
    return _coordinates({name: a[None] for name, a in functions.items()})


def _predictive_features(functions: Functions) -> np.ndarray:
    if "probability" in functions:
        return functions["probability"].reshape(len(functions["probability"]), -1)
    mean, sd = functions["mean"], functions["sd"]
    centre, width = mean.mean(axis=0), np.sqrt(np.square(sd).mean(axis=0) + mean.var(axis=0))
    grid = centre[:, None] + width[:, None] * ndtri((np.arange(8) + 0.5) / 8)
    return ndtr((grid - mean[..., None]) / sd[..., None]).reshape(len(mean), -1)


def losses(functions: Functions, y: np.ndarray) -> Callable[[Any], dict[str, float]]:
    """A function of chosen draws: what they lose at these rows."""
    if "probability" in functions:
        p = functions["probability"].astype(np.float64)
        whole, rows = p.mean(axis=0), np.arange(len(y))

        def of_labels(chosen: Any) -> dict[str, float]:
            few = p[chosen].mean(axis=0)
            return {
                "tv": bnn.metrics.total_variation(few, whole),
                "nll": float(np.mean(np.log(whole[rows, y] / few[rows, y]))),
                "agreement": bnn.metrics.agreement(few, whole),
            }

        return of_labels
    mean, sd = functions["mean"].astype(np.float64), functions["sd"].astype(np.float64)
    width = np.sqrt(np.square(sd).mean(axis=0) + mean.var(axis=0))
    grid = mean.mean(axis=0)[:, None] + width[:, None] * np.linspace(-8, 8, 321)
    density = np.exp(-0.5 * ((grid - mean[..., None]) / sd[..., None]) ** 2)
    density /= sd[..., None] * np.sqrt(2 * np.pi)
    step, whole = 16 / 320 * width, density.mean(axis=0)
    scores = -0.5 * ((y - mean) / sd) ** 2 - np.log(sd)

    def of_numbers(chosen: Any) -> dict[str, float]:
        few = density[chosen].mean(axis=0)
        lost = logsumexp(scores, axis=0) - np.log(len(scores))
        lost -= logsumexp(scores[chosen], axis=0) - np.log(len(chosen))
        tv = 0.5 * np.abs(few - whole).sum(axis=1) * step
        return {"tv": float(tv.mean()), "nll": float(lost.mean())}

    return of_numbers


def repetitions(name: str) -> Iterator[tuple[Functions, Functions, np.ndarray]]:
    """Function values to choose by, and those at held-out rows with their targets."""
    if name.endswith(AT_TRAINING_ROWS):
        problem = bnn.references.load(name.removesuffix(AT_TRAINING_ROWS)).problem
        for split in range(SPLITS):
            yield _sampled(problem, split)
        return
    reference = bnn.references.load(name)
    y = np.asarray(reference.data().test.y)
    draws = {n: a.reshape(-1, *a.shape[2:]) for n, a in reference.draws.items()}
    draws = _with_sd(draws)
    for seed in range(HALVES):
        rows = np.random.default_rng(seed).permutation(reference.rows)
        some, rest = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        yield (*({n: a[:, part] for n, a in draws.items()} for part in (some, rest)), y[rest])


def _with_sd(functions: Functions) -> Functions:
    """A noise that does not depend on the row, repeated for each."""
    if "probability" in functions:
        return functions
    return {n: np.broadcast_to(a, functions["mean"].shape) for n, a in functions.items()}


def _sampled(problem: Any, split: int) -> tuple[Functions, Functions, np.ndarray]:
    data = bnn.data.load(problem.data_name, split=split)
    kernel = bnn.kernels.HMC(problem.model(), num_leapfrogs=20, jitter=0.5)
    posterior = bnn.sample(
        kernel, *data.train, warmup=300, draws=250, thinning=4, chains=4, seed=split, progress=False
    )

    def functions(x: Any) -> Functions:
        found = posterior.function_values(x)
        flat = {n: a.reshape(-1, *a.shape[2:]) for n, a in found.items()}
        return _with_sd(flat)

    return functions(data.train.x), functions(data.test.x), np.asarray(data.test.y)


def measure(name: str) -> dict[tuple[int, str], dict[str, Any]]:
    """Of each number of draws and way to choose, means over the repetitions with their errors."""
    found: dict[tuple[int, str], list[dict[str, float]]] = {}
    for number, (chosen_at, held_out, y) in enumerate(repetitions(name)):
        generator, lost = np.random.default_rng(number), losses(held_out, y)
        draws = len(next(iter(held_out.values())))
        for k, (way, choose) in product(SIZES, WAYS.items()):
            chosen = choose(chosen_at, k, generator)
            assert len(set(chosen.tolist())) == k
            found.setdefault((k, way), []).append(lost(chosen))
        for k in SIZES:
            each = [lost(generator.choice(draws, k, replace=False)) for _ in range(RANDOM)]
            mean = {score: float(np.mean([e[score] for e in each])) for score in each[0]}
            found.setdefault((k, "random"), []).append(mean)
    rows = {}
    for key, each in found.items():
        scores = {s: mean_and_error([e[s] for e in each]) for s in each[0]}
        rows[key] = {s: mean for s, (mean, _) in scores.items()}
        rows[key] |= {f"{s}_error": error for s, (_, error) in scores.items()}
    for (k, _), row in rows.items():
        row["tv_ratio"] = row["tv"] / rows[k, "random"]["tv"]
    return rows


def summary(rows: list[Any]) -> dict[str, Any]:
    """Of each way, the geometric mean over posteriors and sizes of the distance to random's."""

    def ratios(usual: bool) -> dict[str, float]:
        some = [row for row in rows if row["posterior"].endswith(AT_TRAINING_ROWS) == usual]
        logs = {row["way"]: [] for row in some}
        for row in some:
            logs[row["way"]].append(np.log(row["tv_ratio"]))
        return {way: float(np.exp(np.mean(found))) for way, found in logs.items()}

    return {"tv_ratio": {"few rows": ratios(False), "training rows": ratios(True)}}


def main(*, minutes: float = float("inf"), out: Path = RESULTS) -> None:
    """Measure the posteriors that are missing, and print a line for each number and way.

    Args:
        minutes: after which no further posterior begins.
    """
    record = Record(out / "compression.json", key=("posterior", "k", "way"), summary=summary)
    table = Table(
        "posterior <31", "k >4", "  way <17", "TV >8.4f", "of random's >13.2f", "NLL lost >10.4f",
        "agreement >11.3f",
    )  # fmt: skip
    names = (*bnn.references.names(), *(name + AT_TRAINING_ROWS for name in SAMPLED))
    wanted = [(name, SIZES[0], "random") for name in names]
    for name, *_ in record.missing(wanted, minutes):
        rows = measure(name)
        for (k, way), row in sorted(rows.items(), key=lambda item: item[0][1] == "random"):
            record[name, k, way] = row
            table.row(
                name, k, f"  {way}", row["tv"], row["tv_ratio"], row["nll"], row.get("agreement")
            )
