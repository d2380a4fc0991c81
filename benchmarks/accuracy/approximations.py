"""Every approximation compared with HMC on UCI energy and yacht: predictions and cost.

    BAYESNN_DATA=... python -m benchmarks approximations [--posterior hard] [--data yacht energy]
        [--methods ...] [--minutes 30] [--out benchmarks/results]

A relu network with one hidden layer of 50 units. Its posterior is one of two:

* `converging`: N(0, 1/30) on all parameters, noise of 0.1 standard deviations of the targets; HMC
  converges there, so that differences from it are errors of the approximation;
* `hard`: N(0, 1) on all parameters, noise learned, as one would begin; no sampler converges (its
  R-hat is noted), so HMC is a strong contender there and not the truth.

The eight methods named in `NAMED` are run on 20 splits, all others on 5, HMC on 3. Each has its
defaults, but for what `approximation_methods` says; none was tuned on these data.

RMSE and NLL are those of the mixture of all draws, in the data's own units; the table has their
mean over splits and its standard error. Splits share rows, so that errors are a little too small.
The paired column is the difference of NLL from HMC's on the splits that both have.
Costs are seconds of processor time, compilation included, which other work on the machine leaves
alone.

Every run is stored when it is done, and is not made again: with `--minutes` the command ends by
itself in between, and continues when it is called once more. HMC, the longest of them, continues
within a run: it draws until R-hat of every prediction of the test rows is below `_RHAT`, and keeps
what it has in `runs/`. Then `approximations-<posterior>.png`.
"""

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl.plots.figure import new_figure, palette, styled
from benchmarks.accuracy import approximation_methods
from benchmarks.accuracy.approximation_methods import NAMED, POSTERIORS, SPLITS, Target, sample_hmc
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table, markdown, mean_and_error, plus_minus

_SHOWN_NATS = 100.0  # from the best on; a method that diverged would leave no room for others
_LINEAR_NATS = 10.0  # an axis that goes no farther has room for all


def run(target: Target, data_name: str, split: int, method: str) -> dict[str, Any]:
    """One method on one split: its scores, and what it says of itself."""
    data = bnn.data.load(data_name, split=split)
    if method == "HMC":
        posterior, seconds = sample_hmc(target, data, split)
    else:
        began = time.process_time()
        posterior = bnn.fit(
            approximation_methods.methods(target)[method](), *data.train, seed=split, progress=False
        )
        seconds = time.process_time() - began
    scores = bnn.metrics.evaluate(posterior, *data.test)
    diagnosis = posterior.diagnose(data.test.x)
    row = {
        "data": data_name,
        "split": split,
        "method": method,
        "rmse": float(scores["rmse"]),
        "nll": float(scores["nll_mixture"]),
        "core_seconds": round(seconds, 1),
        "status": diagnosis.status,
    }
    if method == "HMC":
        row["rhat"] = max(float(s["rhat_max"]) for s in diagnosis.functions.values())
        row["leapfrogs"] = target.hmc[data_name][0]
        row["draws"] = posterior.tree["posterior"].sizes["draw"]
    return row


def table(rows: list[dict[str, Any]], data_name: str) -> dict[str, dict[str, Any]]:
    """Method -> means over splits, standard errors, and NLL paired with HMC's."""
    known = {(r["method"], r["split"]): r for r in rows if r["data"] == data_name}
    found: dict[str, dict[str, Any]] = {}
    for method in dict.fromkeys(method for method, _ in known):
        own = {s: r for (m, s), r in known.items() if m == method}
        paired = np.array(
            [
                np.subtract(*np.array([r["nll"], known["HMC", s]["nll"]], dtype=float))
                for s, r in own.items()
                if ("HMC", s) in known
            ]
        )
        found[method] = {
            "splits": len(own),
            **{
                f"{name}{kind}": value
                for name in ("rmse", "nll")
                for kind, value in zip(
                    ("", "_error"), mean_and_error([r[name] for r in own.values()]), strict=True
                )
            },
            "nll_above_hmc": float(paired.mean()) if paired.size else None,
            "nll_above_hmc_error": mean_and_error(paired)[1] if paired.size else None,
            "core_seconds": float(np.median([r["core_seconds"] for r in own.values()])),
            "not_fitted": sum(r["status"] not in ("fitted", "converged") for r in own.values()),
        }
        if method == "HMC":
            found[method]["rhat"] = max(r["rhat"] for r in own.values())
    return found


def _ranked(nll: float) -> float:
    """A method that came to NaN on a split is worse than any other."""
    return nll if np.isfinite(nll) else float("inf")


def print_table(rows: list[dict[str, Any]], data_name: str) -> None:
    """One line for each method, the best NLL first."""
    print(f"\n{data_name}")
    lines = Table(
        " <20", "splits >6", "RMSE >16", "NLL >17", "NLL - HMC >17", "core s >8.1f", " <2",
        "notes <1",
    )  # fmt: skip
    found = table(rows, data_name)
    for method, row in sorted(found.items(), key=lambda item: _ranked(item[1]["nll"])):
        names = ("rmse", "nll", "nll_above_hmc")
        pairs = (plus_minus(row[name], row[f"{name}_error"]) for name in names)
        notes = [f"R-hat {row['rhat']:.2f}"] if "rhat" in row else []
        notes += [f"{row['not_fitted']} with a doubt"] if row["not_fitted"] else []
        lines.row(method, row["splits"], *pairs, row["core_seconds"], None, "  ".join(notes))


def markdown_table(rows: list[dict[str, Any]], names: Sequence[str]) -> str:
    """One table of all data sets for the notebook of the docs: the best sum of NLLs first."""

    def pair(mean: float | None, error: float | None, digits: int) -> str:
        if mean is None or not np.isfinite(mean):
            return "" if mean is None else "not finite"
        return plus_minus(mean, error, digits) if abs(mean) < 1000 else f"{mean:.0e}"

    found = {name: table(rows, name) for name in names}
    methods, lines = found[names[0]], []
    for method in sorted(methods, key=lambda m: sum(_ranked(f[m]["nll"]) for f in found.values())):
        cells = [method, str(methods[method]["splits"])]
        for name in names:
            row = found[name][method]
            own = method == "HMC"
            cells += [
                pair(row["rmse"], row["rmse_error"], 2),
                pair(row["nll"], row["nll_error"], 3),
                "" if own else pair(row["nll_above_hmc"], row["nll_above_hmc_error"], 3),
                f"{row['core_seconds']:.0f}",
            ]
        lines.append(cells)
    heads = [(f"{name}: RMSE", "NLL", "NLL minus HMC's", "core s") for name in names]
    return markdown(["", "splits", *(head for four in heads for head in four)], lines)


@styled
def picture(rows: list[dict[str, Any]]) -> Any:
    """NLL of each method with two standard errors, a panel for each data set."""
    names = list(dict.fromkeys(r["data"] for r in rows))
    figure = new_figure(width=5 * len(names), height=6)
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        found = sorted(table(rows, name).items(), key=lambda item: -_ranked(item[1]["nll"]))
        most = min(_ranked(row["nll"]) for _, row in found) + _SHOWN_NATS
        for place, (method, row) in enumerate(found):
            beyond = not row["nll"] < most
            axis.errorbar(
                most if beyond else row["nll"],
                place,
                xerr=None if beyond else 2 * (row["nll_error"] or 0.0),
                marker=">" if beyond else "o",
                capsize=3,
                color=palette(1 if method == "HMC" else 0),
            )
        shown = [r["nll"] for _, r in found if r["nll"] < most]
        if max(shown) > _LINEAR_NATS:
            axis.set_xscale("symlog", linthresh=2)
        axis.set_yticks(range(len(found)), [f"{m} ({r['splits']})" for m, r in found])
        axis.set(
            xlabel="test NLL ± 2 standard errors [nats]; > far beyond",
            title=f"{name} (number of splits)",
        )
    return figure


def main(
    *,
    data: tuple[str, ...] = ("yacht", "energy"),
    posterior: Literal[*POSTERIORS] = "converging",
    methods: tuple[str, ...] = ("HMC", *approximation_methods.methods(POSTERIORS["hard"])),
    most_splits: int = 20,
    markdown: bool = False,
    minutes: float = float("inf"),
    out: Path = RESULTS,
) -> None:
    """Make the runs that are missing; print the tables; draw the figure.

    Args:
        markdown: also print the table of the docs.
        minutes: after which no further run begins.
    """
    warnings.simplefilter("ignore")  # of fits that are poor, which the status says
    record = Record(out / f"approximations-{posterior}.json", key=("data", "split", "method"))
    wanted = [
        (name, split, method)
        for split in range(most_splits)  # every method has its first splits early
        for name in data
        for method in methods
        if split < SPLITS.get(method, 20 if method in NAMED else 5)
    ]
    for key in record.missing(wanted, minutes):
        record[key] = run(POSTERIORS[posterior], *key)
        print(record.rows[key], flush=True)
    rows = list(record.rows.values())
    for name in data:
        print_table(rows, name)
    if markdown:
        print(f"\n{markdown_table(rows, data)}")
    picture(rows).savefig(record.path.with_suffix(".png"))
