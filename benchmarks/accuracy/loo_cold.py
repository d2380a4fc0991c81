"""How far LOO's scores of cold posteriors are off, by k̂, and whether its errors say so.

    python -m benchmarks loo_cold [--sets 24] [--repeats 16] [--minutes 9]
        [--out benchmarks/results]

Linear regression with known noise, whose posteriors without each row are known in closed form, at
T in {1, 0.5, 0.25, 0.1} of the likelihood or of the whole posterior, with 1 000 and 4 000 exact,
independent draws. Data sets of 40 rows and 4 or 12 weights; in every second one inputs and noise
are Student's t with 4 degrees of freedom, so rows have influence. Every data set is drawn from
`--repeats` times.

For each row: the error of its log score against the exact one, the standard error by the delta
method on the draws alone (`delta`: what was stated before), and the stated `monte_carlo_error`,
which follows the fitted tail beyond the largest weight. By bins of k̂: bias, root mean square of
errors and of stated errors, the share of errors within two stated ones, and the share of scores
that are too high by more. Standard errors are a jackknife over the data sets, whose rows and draws
belong together.

A cell is a temperature, its kind and a number of draws. It is stored when it is done, and is not
made again: with `--minutes` the command ends by itself, and continues when it is called once more.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bayesnn_ppl.metrics.leave_one_out.importance_weights import log_weights, weighted_score
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import markdown

NOISE, ROWS, WEIGHTS = 1.0, 40, (4, 12)
TEMPERATURES, DRAWS = (1.0, 0.5, 0.25, 0.1), (1000, 4000)
BINS = (-np.inf, 0.3, 0.5, 0.6, 0.7, 1.0, np.inf)
CELLS = [
    (draws, temperature, kind)
    for draws in DRAWS
    for temperature in TEMPERATURES
    for kind in (("posterior", "likelihood") if temperature < 1 else ("posterior",))
]

type Array = NDArray[np.float64]


def data_set(rng: np.random.Generator, weights: int, *, heavy: bool) -> tuple[Array, Array]:
    """Features (rows, weights), the last of which is 1, and targets."""
    x = rng.standard_t(4, (ROWS, weights - 1)) if heavy else rng.normal(size=(ROWS, weights - 1))
    phi = np.column_stack([x, np.ones(ROWS)])
    noise = rng.standard_t(4, ROWS) if heavy else rng.normal(size=ROWS)
    return phi, phi @ rng.normal(size=weights) + NOISE * noise


def posterior(phi: Array, y: Array, temperature: float, kind: str) -> tuple[Array, Array]:
    """Mean and covariance of the weights, whose prior is N(0, I)."""
    noise = NOISE**2 * (temperature if kind == "likelihood" else 1.0)
    precision = np.eye(phi.shape[1]) + phi.T @ phi / noise
    mean = np.linalg.solve(precision, phi.T @ y / noise)
    return mean, (1.0 if kind == "likelihood" else temperature) * np.linalg.inv(precision)


def exact_scores(phi: Array, y: Array, temperature: float, kind: str) -> Array:
    """log p(y_i | all other rows), (rows,)."""
    scores = np.empty(len(y))
    for i in range(len(y)):
        mean, cov = posterior(np.delete(phi, i, 0), np.delete(y, i), temperature, kind)
        sd = np.sqrt(phi[i] @ cov @ phi[i] + NOISE**2)
        scores[i] = stats.norm.logpdf(y[i], phi[i] @ mean, sd)
    return scores


def errors(
    rng: np.random.Generator, phi: Array, y: Array, draws: int, temperature: float, kind: str
) -> Array:
    """k̂, error, delta error, stated error and tail bias of each row, (rows, 5)."""
    mean, cov = posterior(phi, y, temperature, kind)
    theta = mean + rng.normal(size=(draws, len(mean))) @ np.linalg.cholesky(cov).T
    log_p, truth = (
        stats.norm.logpdf(y, theta @ phi.T, NOISE),
        exact_scores(phi, y, temperature, kind),
    )
    found = np.empty((len(y), 5))
    for i, row in enumerate(log_p.T):
        log_w, k = log_weights(row / temperature, 1.0)
        score, error, bias = weighted_score(row, log_w, k, temperature, 1.0)
        shares = np.exp(log_w + row - score) - np.exp(log_w)
        found[i] = k, score - truth[i], np.sqrt(np.sum(shares**2)), error, bias
    return found


def summary(sets: list[Array]) -> list[dict[str, Any]]:
    """A line for each bin of k̂, with jackknife errors over data sets."""
    lines = []
    for low, high in zip(BINS, BINS[1:], strict=False):
        sums = np.array([_sums(rows[(rows[:, 0] > low) & (rows[:, 0] <= high)]) for rows in sets])
        if sums[:, 0].sum() < 50:
            continue
        whole = _ratios(sums.sum(0))
        left = np.array([list(_ratios(sums.sum(0) - one).values()) for one in sums])
        spread = np.sqrt((len(left) - 1) * left.var(axis=0))
        line: dict[str, Any] = {"above": _number(low), "up_to": _number(high)}
        line["rows"] = int(sums[:, 0].sum())
        for (name, value), error in zip(whole.items(), spread, strict=True):
            line[name] = [float(f"{value:.4g}"), float(f"{error:.2g}")]
        lines.append(line)
    return lines


def _number(value: float) -> float | None:
    return None if np.isinf(value) else value


def _sums(rows: Array) -> Array:
    _, error, delta, stated, bias = rows.T
    return np.array(
        [
            len(rows),
            error.sum(),
            (error**2).sum(),
            (delta**2).sum(),
            (stated**2).sum(),
            (np.abs(error) < 2 * delta).sum(),
            (np.abs(error) < 2 * stated).sum(),
            (error > 2 * delta).sum(),
            (error > 2 * stated).sum(),
            bias.sum(),
        ],
        dtype=float,
    )


def _ratios(s: Array) -> dict[str, float]:
    return {
        "bias": s[1] / s[0],
        "tail_bias": s[9] / s[0],
        "rms_error": np.sqrt(s[2] / s[0]),
        "over_delta": np.sqrt(s[2] / s[3]),
        "over_stated": np.sqrt(s[2] / s[4]),
        "within_two_delta": s[5] / s[0],
        "within_two_stated": s[6] / s[0],
        "too_high_delta": s[7] / s[0],
        "too_high_stated": s[8] / s[0],
    }


def run(cell: tuple[int, float, str], sets: int, repeats: int) -> list[dict[str, Any]]:
    """All data sets of a cell; the same data for every cell."""
    draws, temperature, kind = cell
    found = []
    for number in range(sets):
        for weights in WEIGHTS:
            phi, y = data_set(
                np.random.default_rng((number, weights)), weights, heavy=number % 2 == 1
            )
            rng = np.random.default_rng((number, weights, draws, round(1000 * temperature)))
            parts = [errors(rng, phi, y, draws, temperature, kind) for _ in range(repeats)]
            found.append(np.concatenate(parts))
    return summary(found)


def table(cells: dict[str, Any], draws: int) -> str:
    """Markdown: both kinds of temperature, one after the other."""
    lines = []
    for cell in cells.values():
        if cell["draws"] != draws:
            continue
        for line in cell["bins"]:
            low, high = line["above"], line["up_to"]
            where = f"≤ {high}" if low is None else f"> {low}" if high is None else f"{low}–{high}"
            of = "" if cell["temperature"] == 1 else f", {cell['kind']}"
            shares = {n: f"{100 * line[n][0]:.0f} %" for n in line if n.startswith(("with", "too"))}
            lines.append(
                (
                    f"{cell['temperature']:g}{of}",
                    where,
                    line["rows"],
                    f"{line['bias'][0]:+.3f}",
                    f"{line['rms_error'][0]:.3f}",
                    f"{line['over_delta'][0]:.2g}",
                    shares["within_two_delta"],
                    f"{line['over_stated'][0]:.2g}",
                    shares["within_two_stated"],
                    shares["too_high_stated"],
                )
            )
    header = "T; k̂; rows; bias; error; over delta; within 2, delta; over stated; within 2, stated"
    return markdown([*header.split("; "), "too high by > 2"], lines)


def main(
    *, sets: int = 24, repeats: int = 16, minutes: float = float("inf"), out: Path = RESULTS
) -> None:
    """Make the cells that are missing; print the tables.

    Args:
        sets: data sets of each number of weights.
        repeats: posteriors drawn of each.
        minutes: after which no further cell begins.
    """
    settings = {"sets": sets, "repeats": repeats, "rows": ROWS, "weights": list(WEIGHTS)}
    record, began = Record(out / "loo_cold.json", part="cells", settings=settings), time.time()
    cells = {f"{draws} draws, T = {t:g}, {kind}": (draws, t, kind) for draws, t, kind in CELLS}
    for name in record.missing(cells, minutes):
        draws, temperature, kind = cells[name]
        record[name] = {
            "draws": draws,
            "temperature": temperature,
            "kind": kind,
            "bins": run(cells[name], sets, repeats),
        }
        print(name, f"{time.time() - began:.0f} s", flush=True)
    for draws in DRAWS:
        print(f"\n{draws} draws\n\n{table(record.rows, draws)}")
