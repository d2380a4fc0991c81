"""What people can afford, beside MCMC: every approximation on UCI energy and yacht.

    BAYESNN_DATA=... python -m benchmarks approximations [--posterior hard] [--data yacht energy]
        [--methods ...] [--minutes 30] [--out benchmarks/results]

A relu network with one hidden layer of 50 units. Its posterior is one of two:

* `converging`: N(0, 1/30) on all parameters, noise of 0.1 standard deviations of the targets; HMC
  converges there, so that differences from it are errors of the approximation;
* `hard`: N(0, 1) on all parameters, noise learned, as one would begin; no sampler converges (R-hat
  stands beside HMC), so HMC is a strong contender there and not the truth.

The eight methods named in `NAMED` are run on 20 splits, all others on 5, HMC on 3. Each has its
defaults, but for what `methods` says; none was tuned on these data.

RMSE and NLL are those of the mixture of all draws, in the data's own units; the table has their
mean over splits and its standard error. Splits share rows, so that errors are a little too small.
The paired column is the difference of NLL from HMC's on the splits that both have.
Costs are seconds of processor time, compilation included, which other work on the machine leaves
alone.

Every run is stored when it is done, and is not made again: with `--minutes` the command ends by
itself in between, and goes on when it is called once more. HMC, the longest of them, goes on within
a run: it draws until R-hat of every prediction of the test rows is below `_RHAT`, and keeps what it
has in `runs/`. Then `approximations-<posterior>.png`.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn

NAMED = (
    "MAP",
    "ensemble",
    "SWAG",
    "mean field",
    "full-rank VI",
    "Laplace, full",
    "last layer",
    "MC dropout",
)
SPLITS = {"HMC": 3}
_SHOWN_NATS = 100.0  # from the best on; a method that diverged would leave no room for others
_LINEAR_NATS = 10.0  # an axis that goes no farther has room for all
# A little below 1.01: it is read after each block, and the first reading below it ends the run.
_RHAT = 1.009
WHOLE: dict[str, Any] = {"validation_fraction": 0.0, "patience": None}


@dataclass(frozen=True)
class Target:
    """A posterior to be approximated, and settings of HMC for it.

    `hmc` has leapfrogs a draw, steps of warm-up and most draws by the name of the data.
    """

    prior_variance: float
    noise: float | None
    hmc: dict[str, tuple[int, int, int]]

    def model(self, prior: Any = None) -> Any:
        """The program, with another prior where one is given."""
        return bnn.models.mlp(
            hidden=(50,),
            activation="relu",
            prior=bnn.priors.normal(variance=self.prior_variance) if prior is None else prior,
            likelihood=bnn.likelihoods.gaussian(scale=self.noise),
        )


POSTERIORS = {
    "converging": Target(1 / 30, 0.1, {"yacht": (2000, 200, 500), "energy": (10_000, 200, 3000)}),
    "hard": Target(1.0, None, {"yacht": (200, 150, 250), "energy": (200, 150, 250)}),
}


def methods(target: Target) -> dict[str, Callable[[], Any]]:
    """Name -> a function that builds the approximation."""
    a, model = bnn.approximations, target.model()
    return {
        "MAP": lambda: a.MAP(model),
        "ensemble": lambda: a.Ensemble(model, members=10),
        "SWAG": lambda: a.SWAG(model),
        "mean field": lambda: a.Variational(model, guide="normal"),
        "full-rank VI": lambda: a.Variational(model, guide="multivariate_normal"),
        "Laplace, full": lambda: a.Laplace(model, structure="full"),
        "last layer": lambda: a.LastLayer(model),
        "MC dropout": lambda: a.Dropout(model),
        "ensemble of modes": lambda: a.Ensemble(model, members=10, objective="posterior", **WHOLE),
        "MultiSWAG": lambda: a.SWAG(model, members=5),
        "Laplace, kfac": lambda: a.Laplace(model, structure="kfac"),
        "Laplace, diagonal": lambda: a.Laplace(model, structure="diagonal"),
        "Laplace, low rank": lambda: a.Laplace(model, structure="low_rank"),
        "anchored ensemble": lambda: a.Ensemble(
            model, members=10, objective="posterior", anchored=True, **WHOLE
        ),
        "SVGD": lambda: a.Repulsive(model, members=20),
        "constant SGD": lambda: a.ConstantSGD(model),
        "SNGP": lambda: a.SNGP(model),
        "concrete dropout": lambda: a.Dropout(model, rate="concrete"),
        "low-rank VI": lambda: a.Variational(model, guide="low_rank"),
        "IAF": lambda: a.Variational(model, guide="iaf"),
        "VOGN": lambda: a.NaturalGradient(model, method="vogn"),
        "noisy Adam": lambda: a.NaturalGradient(model, method="noisy_adam"),
        "noisy K-FAC": lambda: a.NaturalGradient(model, method="noisy_kfac"),
        "empirical Bayes": lambda: a.EmpiricalBayes(target.model(bnn.priors.learned_normal())),
    }


def sample_hmc(target: Target, data: Any, split: int) -> tuple[Any, float]:
    """Draws of HMC on one split, and the processor time of all calls that made them."""
    leapfrogs, warmup, draws = target.hmc[data.name]
    kernel = bnn.kernels.HMC(target.model(), num_leapfrogs=leapfrogs, jitter=0.5, mass="diagonal")
    until = {"function_rhat": _RHAT}
    out = Path("runs") / f"approximations-{data.name}-{split}-{target.prior_variance:.3g}"
    spent = out.with_name(f"{out.name}.seconds")
    before = float(spent.read_text()) if spent.exists() else 0.0
    begun = (out / "commit.json").exists()
    if begun:
        found = bnn.load(out, kernel.model)
        if (found.provenance.get("ended") or {}).get("by") == "convergence":
            return found, before
    began = time.process_time()
    try:
        if begun:
            posterior = bnn.resume(out, kernel, *data.train, until=until)
        else:
            posterior = bnn.sample(
                kernel,
                *data.train,
                warmup=warmup,
                draws=draws,
                chains=4,
                seed=split,
                init=bnn.approximations.Ensemble(),
                out=out,
                keep=bnn.Keep(probe=data.test.x),
                until=until,
            )
    finally:
        seconds = before + time.process_time() - began
        if out.exists():
            spent.write_text(f"{seconds:.1f}\n")
    return posterior, seconds


def run(target: Target, data_name: str, split: int, method: str) -> dict[str, Any]:
    """One method on one split: its scores, and what it says of itself."""
    data = bnn.data.load(data_name, split=split)
    if method == "HMC":
        posterior, seconds = sample_hmc(target, data, split)
    else:
        began = time.process_time()
        posterior = bnn.fit(methods(target)[method](), *data.train, seed=split, progress=False)
        seconds = time.process_time() - began
    scores = bnn.metrics.evaluate(posterior, *data.test)
    diagnosis = posterior.diagnose(data.test.x)
    row = {
        "data": data_name,
        "split": split,
        "method": method,
        "rmse": _number(scores["rmse"]),
        "nll": _number(scores["nll_mixture"]),
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
                    ("", "_error"), _mean_and_error([r[name] for r in own.values()]), strict=True
                )
            },
            "nll_above_hmc": float(paired.mean()) if paired.size else None,
            "nll_above_hmc_error": _mean_and_error(paired)[1] if paired.size else None,
            "core_seconds": float(np.median([r["core_seconds"] for r in own.values()])),
            "not_fitted": sum(r["status"] not in ("fitted", "converged") for r in own.values()),
        }
        if method == "HMC":
            found[method]["rhat"] = max(r["rhat"] for r in own.values())
    return found


def _number(value: Any) -> float | None:
    """None for what is not finite, since JSON has no such numbers; NumPy reads it as NaN."""
    return float(value) if np.isfinite(value) else None


def _ranked(nll: float) -> float:
    """A method that came to NaN on a split is worse than any other."""
    return nll if np.isfinite(nll) else float("inf")


def _mean_and_error(values: Any) -> tuple[float, float | None]:
    """The mean, and its standard error where there are two or more."""
    array = np.asarray(values, dtype=float)
    error = float(array.std(ddof=1) / len(array) ** 0.5) if len(array) > 1 else None
    return float(array.mean()), error


def print_table(rows: list[dict[str, Any]], data_name: str) -> None:
    """One line for each method, the best NLL first."""

    def pair(mean: float | None, error: float | None) -> str:
        if mean is None:
            return "-"
        return f"{mean:.3f}" + ("" if error is None else f" ± {error:.3f}")

    head = f"{'':20}{'splits':>6}{'RMSE':>16}{'NLL':>17}{'NLL - HMC':>17}{'core s':>8}"
    print(f"\n{data_name}\n{head}")
    found = table(rows, data_name)
    for method, row in sorted(found.items(), key=lambda item: _ranked(item[1]["nll"])):
        print(
            f"{method:20}{row['splits']:>6}{pair(row['rmse'], row['rmse_error']):>16}"
            f"{pair(row['nll'], row['nll_error']):>17}"
            f"{pair(row['nll_above_hmc'], row['nll_above_hmc_error']):>17}"
            f"{row['core_seconds']:>8.1f}"
            + (f"  R-hat {row['rhat']:.2f}" if "rhat" in row else "")
            + (f"  {row['not_fitted']} with a doubt" if row["not_fitted"] else "")
        )


def print_markdown(rows: list[dict[str, Any]], names: list[str]) -> None:
    """One table of all data sets, as docs/performance.md has it: the best sum of NLLs first."""

    def pair(mean: float | None, error: float | None, digits: int) -> str:
        if mean is None or not np.isfinite(mean):
            return "" if mean is None else "not finite"
        text = f"{mean:.{digits}f}" if abs(mean) < 1000 else f"{mean:.0e}"
        return text if error is None or abs(mean) >= 1000 else f"{text} ± {error:.{digits}f}"

    found = {name: table(rows, name) for name in names}
    head = [f"{name}: RMSE | NLL | NLL less HMC's | core s" for name in names]
    print(f"\n| | splits | {' | '.join(head)} |\n|{'---|' * (2 + 4 * len(names))}")
    methods = found[names[0]]
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
        print(f"| {' | '.join(cells)} |")


def picture(rows: list[dict[str, Any]]) -> Any:
    """NLL of each method with two standard errors, a panel for each data set."""
    from bayesnn_ppl.plots.figure import new_figure, palette, styled

    @styled
    def plot() -> Any:
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

    return plot()


def main() -> None:
    """Make the runs that are missing; print the tables; draw the figure."""
    parser = argparse.ArgumentParser(description="Approximations on UCI data.")
    parser.add_argument("--data", nargs="+", default=["yacht", "energy"])
    parser.add_argument("--posterior", choices=POSTERIORS, default="converging")
    parser.add_argument("--methods", nargs="+", default=["HMC", *methods(POSTERIORS["hard"])])
    parser.add_argument("--most-splits", type=int, default=20)
    parser.add_argument("--markdown", action="store_true", help="also print the table of the docs")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="then stop")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of fits that are poor, which the status says
    path = options.out / f"approximations-{options.posterior}.json"
    target, began = POSTERIORS[options.posterior], time.perf_counter()
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    done = {(r["data"], r["split"], r["method"]) for r in rows}
    wanted = [
        (name, split, method)
        for split in range(options.most_splits)  # every method has its first splits early
        for name in options.data
        for method in options.methods
        if split < SPLITS.get(method, 20 if method in NAMED else 5)
    ]
    missing = [key for key in wanted if key not in done]
    options.out.mkdir(parents=True, exist_ok=True)
    for count, key in enumerate(missing, start=1):
        rows.append(run(target, *key))
        part = path.with_suffix(".part")
        part.write_text(json.dumps(rows, indent=1) + "\n")
        part.replace(path)
        print(rows[-1], flush=True)
        if time.perf_counter() - began > 60 * options.minutes and count < len(missing):
            print(f"{len(missing) - count} runs are left: call the same command again.")
            break
    for name in options.data:
        print_table(rows, name)
    if options.markdown:
        print_markdown(rows, options.data)
    picture(rows).savefig(path.with_suffix(".png"))
