"""Does the prior's family matter? Gaussian, mixture and logistic weights of one variance, by HMC.

    BAYESNN_DATA=... python -m benchmarks prior_families [--data bostonHousing mnist-160 concrete]
        [--families normal logistic] [--seconds 120] [--minutes 9] [--out benchmarks/results]

Izmailov et al. (2021, arXiv:2104.14421) report that Gaussian, mixture and logistic priors predict
alike. Here on every parameter, each of mean 0 and variance v, so that only the shape differs:

* normal: N(0, v);
* mixture: 3/4 N(0, s²) + 1/4 N(0, 25 s²), 7 s² = v; kurtosis 9.6;
* logistic: scale √(3v)/π; kurtosis 4.2.

UCI regression: `mlp_regression_small` (one relu layer of 50 to mean and scale), v = 1/30, five
standard splits (concrete: three). `mnist-160`: the first 160 images of
MNIST and v = 1, as in bnn_hmc's example, with one relu layer of 50 in place of two of 256 (those
take 50 000 leapfrogs of 3 ms a draw); scored on the first 2 000 test images. Our `kernels.HMC`,
four chains from draws of the prior; a run ends when R-hat and effective sample size of all function
values at the test rows are good (1.02, 200), or its time is up: `--seconds`, which each run holds.

The score is the test NLL of the mixture of all draws, in the data's units, minus that under the
normal prior on the same rows: `difference`, with three errors.

* `standard_error_rows`: over all test rows, as if they were independent;
* `standard_error_splits`: over the splits' means. Splits share rows, so it is on the small side;
* `sampling_error`: what the Markov chains leave open, by a jackknife over the chains of both runs.

Beside each the largest R-hat of a function value, of both runs and all splits.

Every run is written to `prior_families.json` when it is done, and is not made again: with
`--minutes` the command ends by itself in between, and continues when it is called once more. Then
the figure, `prior_families.png`.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.special import logsumexp

import bayesnn_ppl as bnn
from bayesnn_ppl.plots.figure import new_figure, palette, styled
from bayesnn_ppl.settings.models.prior_families import prior_of
from benchmarks.harness.records import RESULTS, Record

MNIST = "mnist-160"
BASE = "normal"
FAMILIES = (BASE, "mixture", "logistic")
_UCI = {
    "splits": 5,
    "variance": 1 / 30,
    "hidden": [50],
    "kernel": {"num_leapfrogs": 300, "jitter": 0.5, "mass": "diagonal", "step_size": 1e-3},
    "warmup": 200,
    "draws": 4000,
    "until": {"function_rhat": 1.02, "ess": 200},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "bostonHousing": _UCI,
    "concrete": _UCI | {"splits": 3},
    MNIST: {
        "splits": 1,
        "variance": 1.0,
        "hidden": [50],
        "kernel": {"trajectory_length": 1.5, "step_size": 1e-3},
        "warmup": 20,
        "draws": 200,
        "until": {"function_rhat": 1.02, "ess": 200},
    },
}
CHAINS, TEST_IMAGES = 4, 2000

type Array = np.ndarray[Any, np.dtype[np.float64]]


def rows_of(name: str, split: int) -> tuple[Any, Any]:
    """Training and test rows, each `(x, y)`."""
    if name != MNIST:
        data = bnn.data.load(name, split=split)
        return data.train, data.test
    data = bnn.data.load("mnist", subset=160)

    def flat(part: Any, rows: int) -> tuple[Any, Any]:
        return np.asarray(part.x[:rows]).reshape(rows, -1), part.y[:rows]

    return flat(data.train, 160), flat(data.test, TEST_IMAGES)


def model_of(name: str, family: str, settings: Mapping[str, Any]) -> Any:
    """The model of a data set under a prior of the family, of the data set's variance."""
    mnist = name == MNIST
    return bnn.models.mlp(
        hidden=tuple(settings["hidden"]),
        likelihood=bnn.likelihoods.categorical(10) if mnist else bnn.likelihoods.heteroscedastic(),
        prior=prior_of(family, settings["variance"]),
        activation="relu",
    )


def row_scores(log_p: Array) -> Array:
    """-log of the mixture of all draws, log_p of shape (chain, draw, rows); returns (rows,)."""
    return -logsumexp(log_p, axis=(0, 1)) + np.log(log_p.shape[0] * log_p.shape[1])


def sampling_error(log_p: Array) -> float:
    """Standard error of the mean of `row_scores` by a jackknife over the C chains.

    √((C - 1)/C Σ_c (s_c - s̄)²), s_c the score of the mixture without chain c.
    """
    chains = range(log_p.shape[0])
    without = np.array([row_scores(np.delete(log_p, chain, axis=0)).mean() for chain in chains])
    return float(np.sqrt((len(without) - 1) * without.var()))


def run(
    name: str, split: int, family: str, settings: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """One posterior: its test rows' scores, and whether its chains agree."""
    began = time.perf_counter()
    train, test = rows_of(name, split)
    posterior = bnn.sample(
        bnn.kernels.HMC(model_of(name, family, settings), **settings["kernel"]),
        *train,
        warmup=settings["warmup"],
        draws=settings["draws"],
        chains=CHAINS,
        seed=split,
        keep=bnn.Keep(weights="none", probe=tuple(test)),
        until=settings["until"] | {"max_time": seconds},
        progress=False,
    )
    log_p = np.asarray(posterior.log_likelihood(), float)
    diagnosis = posterior.diagnose()
    functions, statistics = diagnosis.functions.values(), posterior.statistics
    scores = row_scores(log_p)
    return {
        "data": name,
        "split": split,
        "family": family,
        "nll": float(scores.mean()),
        "sampling_error": sampling_error(log_p),
        "status": diagnosis.status,
        "function_rhat": max(float(s["rhat_max"]) for s in functions),
        "function_rhat_below_1.01": min(float(s["rhat_below_threshold"]) for s in functions),
        "function_ess": min(float(s["ess_bulk_min"]) for s in functions),
        "draws": log_p.shape[1],
        "ended": posterior.provenance["ended"]["by"],
        "max_time": seconds,
        "acceptance": float(statistics["acceptance_rate"].mean()),
        "leapfrogs": float(statistics["n_steps"].mean()),
        "divergences": int(statistics["diverging"].sum()),
        "seconds": round(time.perf_counter() - began, 1),
        "versions": ", ".join(f"{k} {v}" for k, v in posterior.provenance["versions"].items()),
        # One string: the file would otherwise have a line for each row of each run.
        "rows": " ".join(f"{score:.5f}" for score in scores),
    }


def paired(runs: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Data set -> family -> its scores minus those under the normal prior, where both are known."""
    known = {(r["data"], r["family"], r["split"]): r for r in runs}
    table: dict[str, dict[str, dict[str, Any]]] = {}
    for name in dict.fromkeys(r["data"] for r in runs):
        for family in FAMILIES:
            splits = [s for n, f, s in known if (n, f) == (name, family) and (n, BASE, s) in known]
            if splits:
                pairs = [(known[name, family, s], known[name, BASE, s]) for s in sorted(splits)]
                row = _compared(pairs, against_itself=family == BASE)
                table.setdefault(name, {})[family] = row
    return table


def _compared(pairs: list[tuple[Any, Any]], *, against_itself: bool) -> dict[str, Any]:
    both = [run for pair in pairs for run in pair]
    found = {
        "splits": len(pairs),
        "nll": float(np.mean([run["nll"] for run, _ in pairs])),
        "function_rhat": max(run["function_rhat"] for run in both),
        "function_ess": min(run["function_ess"] for run in both),
    }
    if against_itself:
        return found
    differences = [_rows(run) - _rows(base) for run, base in pairs]
    means, rows = np.array([d.mean() for d in differences]), np.concatenate(differences)
    variance = sum(run["sampling_error"] ** 2 for run in both)
    return found | {
        "rows": len(rows),
        "difference": float(means.mean()),
        "standard_error_rows": float(rows.std(ddof=1) / len(rows) ** 0.5),
        "standard_error_splits": (
            float(means.std(ddof=1) / len(means) ** 0.5) if len(means) > 1 else None
        ),
        "sampling_error": float(variance**0.5 / len(pairs)),
        "by_split": means.tolist(),
        "worse_on": int((means > 0).sum()),
    }


def _rows(run: Mapping[str, Any]) -> Array:
    return np.array(run["rows"].split(), float)


def print_table(table: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """One line for each data set and family."""
    for name, families in table.items():
        for family, row in families.items():
            line = f"{name:15}{family:10}NLL {row['nll']:.4f}"
            if "difference" in row:
                kinds = ("standard_error_rows", "standard_error_splits", "sampling_error")
                errors = ("-" if row[kind] is None else f"{row[kind]:.4f}" for kind in kinds)
                line += f", minus normal {row['difference']:+.4f} ± {', '.join(errors)}"
            print(f"{line}; R-hat {row['function_rhat']:.3f}, ESS {row['function_ess']:.0f}")


@styled
def picture(table: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Any:
    """The differences with their errors, a panel for each data set."""
    figure = new_figure(width=3.4 * len(table) + 0.8, height=2.7)
    axes = figure.subplots(1, len(table), squeeze=False, sharey=True)[0]
    others = [family for family in FAMILIES if family != BASE]
    for axis, (name, families) in zip(axes, table.items(), strict=True):
        axis.axvline(0, color="0.1", linewidth=0.8, linestyle="--")
        for place, family in enumerate(others):
            if family not in families:
                continue
            row = families[family]
            if row["splits"] > 1:
                axis.plot(row["by_split"], [place + 0.18] * row["splits"], ".", color="0.6")
            for size, style in (
                ("standard_error_rows", {"color": palette(place), "linewidth": 3}),
                ("sampling_error", {"color": "0.1", "linewidth": 1}),
            ):
                axis.errorbar(row["difference"], place, xerr=2 * row[size], marker="o", **style)
        axis.set_ylim(-0.5, len(others) - 0.5)
        axis.margins(x=0.15)
        worst = max(row["function_rhat"] for row in families.values())
        axis.set_title(f"{name}\nlargest R-hat {worst:.3f}")
    axes[0].set_yticks(range(len(others)), others)
    figure.supxlabel(
        "test NLL minus that under the normal prior [nats a row]; ± 2 standard errors over "
        "rows (coloured) and of sampling (black); dots: splits",
        fontsize="small",
    )
    return figure


def main(
    *,
    data: tuple[Literal[*SETTINGS], ...] = ("bostonHousing", MNIST),
    families: tuple[Literal[*FAMILIES], ...] = FAMILIES,
    seconds: float = 120.0,
    minutes: float = float("inf"),
    out: Path = RESULTS,
) -> None:
    """Make the runs that are missing; print the table; draw the figure.

    Args:
        seconds: that a run may take.
        minutes: after which no further run begins.
    """
    shared = {"chains": CHAINS, "test_images": TEST_IMAGES}
    record = Record(
        out / "prior_families.json",
        part="runs",
        key=("data", "split", "family"),
        settings=SETTINGS,
        summary=lambda runs: shared | {"summary": paired(runs)},
    )
    wanted = [
        (name, split, family)
        for name in data
        for split in range(SETTINGS[name]["splits"])
        for family in families
    ]
    for name, split, family in record.missing(wanted, minutes):
        found = run(name, split, family, SETTINGS[name], seconds)
        record[name, split, family] = found
        print(
            f"{name}, split {split}, {family}: NLL {found['nll']:.4f} ± "
            f"{found['sampling_error']:.4f} (sampling), R-hat {found['function_rhat']:.3f}, ESS "
            f"{found['function_ess']:.0f}, acceptance {found['acceptance']:.2f}, "
            f"{found['seconds']:.0f} s",
            flush=True,
        )
    table = paired(list(record.rows.values()))
    print_table(table)
    if table:
        picture(table).savefig(out / "prior_families.png")
