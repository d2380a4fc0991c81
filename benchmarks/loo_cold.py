"""How far leave-one-out scores of cold posteriors are off, by k̂: against exact ones.

    python -m benchmarks.loo_cold [--replications 100] [--out benchmarks/results/loo_cold.json]

Linear regression with known noise, 40 rows, 8 coefficients and some outlying inputs. The
posterior with its likelihood to the power 1/T is Gaussian, and so is that without a row: draws are
independent and exact, and every score is known. For each bin of k̂: bias and root mean square error
of the scores, both in nats, the median standard error that is stated, and how often the exact score
lies within two of them.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from bayesnn_ppl.metrics.leave_one_out import _from_log_likelihood

ROWS, WEIGHTS, NOISE, DRAWS = 40, 8, 1.0, 4000
TEMPERATURES = (1.0, 0.5, 0.25, 0.1)
BINS = (-np.inf, 0.3, 0.5, 0.6, 0.7, 0.85, np.inf)


def replication(seed: int, temperature: float) -> tuple[np.ndarray, ...]:
    """`(k, error, stated)` of each row: estimated minus exact score, and its standard error."""
    generator = np.random.default_rng([seed, int(1000 * temperature)])
    x = generator.standard_t(4, size=(ROWS, WEIGHTS))
    y = x @ generator.normal(size=WEIGHTS) + NOISE * generator.normal(size=ROWS)
    power = 1 / (temperature * NOISE**2)

    def posterior(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        covariance = np.linalg.inv(np.eye(WEIGHTS) + power * x[rows].T @ x[rows])
        return covariance @ (power * x[rows].T @ y[rows]), covariance

    mean, covariance = posterior(np.arange(ROWS))
    theta = generator.multivariate_normal(mean, covariance, size=DRAWS)
    log_p = -0.5 * ((y - theta @ x.T) / NOISE) ** 2 - np.log(NOISE * np.sqrt(2 * np.pi))
    found = _from_log_likelihood(log_p.reshape(4, -1, ROWS), temperature, streamed=False)
    exact = np.empty(ROWS)
    for i in range(ROWS):
        centre, spread = posterior(np.delete(np.arange(ROWS), i))
        variance = NOISE**2 + x[i] @ spread @ x[i]
        exact[i] = -0.5 * (y[i] - x[i] @ centre) ** 2 / variance - 0.5 * np.log(
            2 * np.pi * variance
        )
    return found.pareto_k, found.log_scores - exact, found.monte_carlo_error


def table(replications: int) -> list[dict[str, float]]:
    """A row for each temperature and bin of k̂."""
    rows = []
    for temperature in TEMPERATURES:
        made = [replication(seed, temperature) for seed in range(replications)]
        k, error, stated = (np.concatenate(parts) for parts in zip(*made, strict=True))
        for low, high in zip(BINS, BINS[1:], strict=False):
            inside = (k > low) & (k <= high) & np.isfinite(error)
            if inside.sum() < 10:
                continue
            rows.append(
                {
                    "temperature": temperature,
                    "k": f"{max(low, -9):g} to {min(high, 9):g}",
                    "rows": int(inside.sum()),
                    "bias": round(float(error[inside].mean()), 4),
                    "rmse": round(float(np.sqrt(np.mean(error[inside] ** 2))), 4),
                    "stated": round(float(np.median(stated[inside])), 4),
                    "rmse_over_stated": round(
                        float(np.sqrt(np.mean((error[inside] / stated[inside]) ** 2))), 2
                    ),
                    "covered": round(float(np.mean(abs(error) <= 2 * stated, where=inside)), 3),
                }
            )
    return rows


def main() -> None:
    """Measure, write the record, and print it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/loo_cold.json"))
    arguments = parser.parse_args()
    rows = table(arguments.replications)
    arguments.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("| T | k̂ | rows | bias | RMSE | stated error | RMSE / stated | within two, % |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        print(
            f"| {row['temperature']:g} | {row['k']} | {row['rows']} | {row['bias']:.4f} "
            f"| {row['rmse']:.4f} | {row['stated']:.4f} | {row['rmse_over_stated']:.2f} "
            f"| {100 * row['covered']:.0f} |"
        )


if __name__ == "__main__":
    main()
