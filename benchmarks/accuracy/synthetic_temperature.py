"""Is T = 1 the best temperature where the model is right? Data drawn from the prior itself.

    python -m benchmarks synthetic_temperature [--temperatures 0.1 1 10] [--minutes 3]

Wenzel et al. (2020) ask whether cold posteriors do better than Bayes because the sampler is wrong
or because the model is. Here the model is right by construction: weights from the prior of a relu
network with two layers of 10 units and three classes, inputs x ~ N(0, I₅), labels from the
network's own probabilities. 100 rows are for training, 2 000 of the same network for the test. The
predictions of the Bayes posterior are then the best there are on average, so temperatures apart
from 1 must cost something, unless it is the sampler that is at fault.

SGHMC with B = N, so that no minibatch noise is in it, and a step so small that both temperature
diagnostics read T. For each data set and temperature the test NLL of the averaged probabilities is
recorded, with their verdict and function-space R-hat; the table has the paired differences from
T = 1 and their standard errors.

The prior's scale is 2/√fan-in: with 1/√fan-in labels are almost pure noise and all temperatures
predict alike. Data sets in which a class is missing among the 100 rows are drawn again.

Every run is written to `synthetic_temperature.json` when it is done, and is not made again: with
`--minutes` the command ends by itself in between, and continues when it is called once more. Then
the figure, `synthetic_temperature.png`.
"""

import tempfile
import time
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpyro.infer import Predictive

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.stochastic_gradient.sghmc import SGHMC
from bayesnn_ppl.plots.figure import new_figure, palette, styled
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import Table, plus_minus

CLASSES, INPUTS, ROWS, TEST_ROWS = 3, 5, 100, 2_000
MODEL = bnn.models.mlp(
    hidden=(10, 10),
    likelihood=bnn.likelihoods.categorical(CLASSES),
    prior=bnn.priors.fan_in_normal(2.0),
    activation="relu",
)
# At T < 1 barriers are higher and diffusion is slower, so chains are ten times as long. At T > 1
# weights are larger, and so is the curvature. Steps are so small that no array is hot by 10 %.
SETTINGS = {
    "cold": {"step_size": 2.5e-5, "warmup": 800, "draws": 6000},
    "at one": {"step_size": 5e-5, "warmup": 100, "draws": 600},
    "hot": {"step_size": 2e-5, "warmup": 100, "draws": 600},
    "momentum_decay": 0.97,
    "steps_per_draw": 100,
    "chains": 4,
}
_SCORED = 600  # draws of a chain that predict; the temperature diagnostics read all

type Pair = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def dataset(number: int, *, rows: int = ROWS, test_rows: int = TEST_ROWS) -> tuple[Pair, Pair]:
    """Training and test rows of one network from the prior; the same for a number at all times."""
    for attempt in range(100):
        generator = np.random.default_rng((number, attempt))
        x = generator.normal(size=(rows + test_rows, INPUTS)).astype(np.float32)
        key = jax.random.fold_in(jax.random.key(number), attempt)
        y = np.asarray(Predictive(MODEL, num_samples=1)(key, x)["y"][0]).astype(np.int32)
        if len(np.unique(y[:rows])) == CLASSES:
            return (x[:rows], y[:rows]), (x[rows:], y[rows:])
    raise ValueError(f"In 100 attempts no data set {number} had all {CLASSES} classes.")


def at(temperature: float, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that depend on T."""
    return settings["cold" if temperature < 1 else "hot" if temperature > 1 else "at one"]


def kernel_at(temperature: float, settings: Mapping[str, Any]) -> SGHMC:
    """The sampler of exp(-U/T)."""
    return SGHMC(
        MODEL,
        step_size=at(temperature, settings)["step_size"],
        momentum_decay=settings["momentum_decay"],
        batch_size=ROWS,
        steps_per_draw=settings["steps_per_draw"],
        temperature=temperature,
    )


def run(number: int, temperature: float, settings: Mapping[str, Any]) -> dict[str, Any]:
    """One data set at one temperature: its test NLL, and whether the sampler can be trusted."""
    began = time.perf_counter()
    train, test = dataset(number)
    draws = at(temperature, settings)["draws"]
    posterior = bnn.sample(
        kernel_at(temperature, settings),
        *train,
        warmup=at(temperature, settings)["warmup"],
        draws=draws,
        chains=settings["chains"],
        seed=number,
        progress=False,
    )
    thermometry = posterior.temperatures(*train, gradients=draws)
    functions = posterior.diagnose(test[0][:50], temperatures=thermometry).functions
    summaries = list(functions.values())
    with tempfile.TemporaryDirectory() as folder:
        posterior.save(folder + "/run")
        some = bnn.load(folder + "/run", MODEL, thin=max(1, draws // _SCORED))
        scores = bnn.metrics.evaluate(some, *test)
    readings = {
        name: [float(v) for v in (read[:, 0].min(), read[:, 0].max())]
        for name, read in thermometry.readings().items()
    }
    return {
        "dataset": number,
        "temperature": temperature,
        "nll": float(scores["nll"]),
        "accuracy": float(scores["accuracy"]),
        "thermometers": {"status": thermometry.status, **readings},
        "arrays": [a.status for a in thermometry.arrays],
        "function_rhat": max(float(s["rhat_max"]) for s in summaries),
        "function_ess": min(float(s["ess_bulk_min"]) for s in summaries),
        "seconds": time.perf_counter() - began,
    }


def paired(runs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Temperature -> what it costs against T = 1 on the data sets that have both."""
    known = {(r["dataset"], r["temperature"]): r for r in runs}
    table = {}
    for temperature in sorted({r["temperature"] for r in runs}):
        both = sorted(number for number, t in known if t == temperature and (number, 1.0) in known)
        if not both:
            continue
        at = [known[number, temperature] for number in both]
        difference = np.array([r["nll"] - known[r["dataset"], 1.0]["nll"] for r in at])
        error = difference.std(ddof=1) / len(both) ** 0.5 if len(both) > 1 else float("nan")
        statuses = [status for r in at for status in r["arrays"]]
        table[f"{temperature:g}"] = {
            "datasets": len(both),
            "nll": float(np.mean([r["nll"] for r in at])),
            "accuracy": float(np.mean([r["accuracy"] for r in at])),
            "difference": float(difference.mean()),
            "standard_error": float(error),
            "worse_on": int((difference > 0).sum()),
            "arrays": {status: statuses.count(status) for status in sorted(set(statuses))},
            "function_rhat": max(r["function_rhat"] for r in at),
            "function_ess": min(r["function_ess"] for r in at),
        }
    return table


def print_table(table: Mapping[str, Mapping[str, Any]]) -> None:
    """One line for each temperature."""
    lines = Table(
        "T >5", "sets >5", "NLL >8.4f", "NLL - NLL(T=1) >19", "worse on >9", " <2", "diagnostics <1"
    )
    for temperature, row in table.items():
        arrays = ", ".join(f"{count} {status}" for status, count in row["arrays"].items())
        arrays += f"; R-hat {row['function_rhat']:.3f}, ESS {row['function_ess']:.0f}"
        difference = plus_minus(row["difference"], row["standard_error"], 4)
        cells = (row["datasets"], row["nll"], difference, row["worse_on"])
        lines.row(temperature, *cells, None, arrays)


@styled
def picture(runs: list[dict[str, Any]]) -> Any:
    """Test NLL against T: one grey line for each data set as a difference, the mean over them."""
    table = paired(runs)
    temperatures = [float(t) for t in table]
    figure = new_figure(width=5.5, height=4)
    axis = figure.subplots()
    base = {r["dataset"]: r["nll"] for r in runs if r["temperature"] == 1}
    for number, at_one in base.items():
        own = sorted((r["temperature"], r["nll"] - at_one) for r in runs if r["dataset"] == number)
        axis.plot(*zip(*own, strict=True), color="0.8", linewidth=0.8, zorder=1)
    axis.errorbar(
        temperatures,
        [row["difference"] for row in table.values()],
        yerr=[2 * row["standard_error"] for row in table.values()],
        color=palette(0),
        marker="o",
        capsize=3,
        label=f"mean of {len(base)} data sets, ± 2 standard errors",
    )
    axis.axhline(0, color="0.1", linewidth=0.8, linestyle="--")
    axis.set_xscale("log")
    axis.set_xticks(temperatures, [f"{t:g}" for t in temperatures])
    axis.minorticks_off()
    axis.set(
        xlabel="temperature of the posterior",
        ylabel="test NLL above that at T = 1 [nats]",
        title="Where the model is right, T = 1 predicts best",
    )
    axis.legend(loc="upper left")
    return figure


def main(
    *,
    datasets: int = 20,
    temperatures: tuple[float, ...] = (0.1, 1.0, 10.0),
    minutes: float = float("inf"),
    out: Path = RESULTS,
) -> None:
    """Make the runs that are missing; print the table; draw the figure.

    Args:
        minutes: after which no further run begins.
    """
    record = Record(
        out / "synthetic_temperature.json",
        part="runs",
        key=("dataset", "temperature"),
        settings=SETTINGS,
        summary=lambda runs: {"summary": paired(runs)},
    )
    wanted = product(range(datasets), sorted(temperatures))
    for number, temperature in record.missing(wanted, minutes):
        record[number, temperature] = found = run(number, temperature, SETTINGS)
        print(
            f"data set {number}, T = {temperature:g}: NLL {found['nll']:.4f}, temperature "
            f"diagnostics {found['thermometers']['status']}, {found['seconds']:.0f} s",
            flush=True,
        )
    runs = list(record.rows.values())
    print_table(paired(runs))
    picture(runs).savefig(record.path.with_suffix(".png"))
