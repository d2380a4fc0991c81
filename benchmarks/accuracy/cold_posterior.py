"""What studies of the temperature found: NLL(T) with errors, and whether the chains had converged.

    bayesnn study cold-posterior --scale cpu               # hours; resumable, cell by cell
    bayesnn study cold-posterior-mnist160 --scale cpu
    BAYESNN_DATA=... python -m benchmarks cold_posterior runs/study-cold-posterior-cpu
        runs/study-cold-posterior-mnist160-cpu [--out benchmarks/results]

Reads the finished cells of each study: NLL, accuracy, the verdict, R-hat of the function outputs,
and the acceptance or, of stochastic gradients, the kinetic temperature of each run. Errors: over
seeds where there are several; of a single seed, over the test rows. Differences to T = 1 are
paired, by seed or by row. A single run is also scored by each chain alone and by half of its
draws, which says how much of its NLL hangs on their number.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl.plots.figure import new_figure, styled
from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.tables import markdown, mean_and_error, plus_minus


def cells_of(folder: Path) -> list[dict[str, Any]]:
    """A record of each finished cell."""
    found = []
    for path in sorted(folder.glob("cells/*/result.json")):
        cell, diagnosis = (
            json.loads(one.read_text()) for one in (path, path.parent / "run" / "diagnosis.json")
        )
        figures, functions = cell["figures"], diagnosis["functions"]["probability"]
        found.append(
            {name: cell[name] for name in ("arm", "x", "seed", "seconds")}
            | {name: figures[name] for name in ("nll", "accuracy", "chains", "draws", "verdict")}
            | {name: functions[name] for name in ("rhat_max", "rhat_below_limit", "ess_bulk_min")}
            | {
                "acceptance": diagnosis["sampler"]["acceptance"],
                "divergences": diagnosis["sampler"]["divergences"],
                "kinetic": kinetic_temperature(diagnosis["temperatures"]),
                "run": str(path.parent / "run"),
            }
        )
    return sorted(found, key=lambda one: (one["arm"], one["x"], one["seed"]))


def kinetic_temperature(temperatures: dict[str, Any] | None) -> dict[str, float] | None:
    """In units of T: of all coordinates, and of the hottest parameter array; None of full batches.

    Far above 1 where minibatches bring more heat than the friction takes out.
    """
    if not temperatures:
        return None
    arrays = temperatures["arrays"]
    values, sizes = zip(*((a["kinetic"]["value"], a["elements"]) for a in arrays), strict=True)
    return {"mean": float(np.average(values, weights=sizes)), "hottest": max(values)}


def row_scores(run: str) -> tuple[np.ndarray, dict[str, Any]]:
    """-log score of each test row, (N,), and what else there is to say of one run.

    `chains`: the NLL of each chain alone; `half`: that of the first half of each chain's draws;
    `unseen`: the share of rows to whose label no draw gives a hundredth of probability.
    """
    from scipy.special import logsumexp

    import bayesnn_ppl as bnn
    from bayesnn_ppl.settings.saved.opening import open_run

    opened = open_run(Path(run))
    posterior = bnn.load(run, model=opened.load_model(None)[0])
    log_p = posterior.log_likelihood(*opened.load_data().test).astype(np.float64)

    def scores(some: np.ndarray) -> np.ndarray:  # of (chain, draw, N)
        values: np.ndarray = math.log(some.shape[0] * some.shape[1]) - logsumexp(some, axis=(0, 1))
        return values

    return scores(log_p), {
        "chains": [float(scores(chain[None]).mean()) for chain in log_p],
        "half": float(scores(log_p[:, : log_p.shape[1] // 2]).mean()),
        "unseen": float((log_p.max(axis=(0, 1)) < math.log(0.01)).mean()),
    }


def points_of(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """NLL at each temperature of each arm, with its error and the difference to T = 1."""
    points = []
    for arm in sorted({cell["arm"] for cell in cells}):
        own = [cell for cell in cells if cell["arm"] == arm]
        values: dict[float, np.ndarray] = {}  # by seed, or by row
        more: dict[float, dict[str, Any]] = {}
        several = len({cell["seed"] for cell in own}) > 1
        for x in sorted({cell["x"] for cell in own}):
            here = [cell for cell in own if cell["x"] == x]
            if several:
                values[x] = np.array([cell["nll"] for cell in here])
            else:
                values[x], more[x] = row_scores(here[0]["run"])
        for x, scores in values.items():
            mean, error = mean_and_error(scores)
            point = {"arm": arm, "x": x, "nll": mean, "error": error, "over": len(scores)}
            if 1.0 in values and x != 1.0 and len(values[1.0]) == len(scores):
                difference, its_error = mean_and_error(scores - values[1.0])
                point |= {"difference": difference, "difference_error": its_error}
            points.append(point | more.get(x, {}))
    return points


def table(study: dict[str, Any]) -> str:
    """The temperatures of each arm, in Markdown."""
    lines = []
    for point in study["points"]:
        cells = [c for c in study["cells"] if (c["arm"], c["x"]) == (point["arm"], point["x"])]
        rhats = [c["rhat_max"] for c in cells if c["rhat_max"] is not None]
        accepted = [p for c in cells for p in c["acceptance"] or []]
        heat = [(c["kinetic"]["mean"], c["kinetic"]["hottest"]) for c in cells if c["kinetic"]]
        mean, hottest = np.mean(heat, axis=0) if heat else (0, 0)
        paired = (point["difference"], point["difference_error"]) if "difference" in point else None
        lines.append(
            (
                point["arm"],
                f"{point['x']:g}",
                plus_minus(point["nll"], point["error"]),
                plus_minus(*paired) if paired else "",
                f"{np.mean([c['accuracy'] for c in cells]):.3f}",
                f"{min(accepted):.2f}" if accepted else "",
                f"{mean:.2f}, hottest array {hottest:.1f}" if heat else "",
                f"{max(rhats):.2f}" if rhats else "",
                ", ".join(sorted({c["verdict"] for c in cells})),
            )
        )
    header = "arm, T, NLL, minus that at T = 1, accuracy, acceptance, kinetic temperature / T"
    return markdown([*header.split(", "), "largest R-hat", "verdicts"], lines)


@styled
def picture(studies: dict[str, Any]) -> Any:
    """NLL(T) of each study, side by side."""
    figure = new_figure(width=4.5 * len(studies), height=3.4)
    axes = figure.subplots(1, len(studies), squeeze=False)[0]
    for ax, (name, study) in zip(axes, studies.items(), strict=True):
        for arm in sorted({point["arm"] for point in study["points"]}):
            own = [point for point in study["points"] if point["arm"] == arm]
            x, y, error = ([point[key] for point in own] for key in ("x", "nll", "error"))
            ax.errorbar(x, y, yerr=error, marker="o", capsize=3, label=arm)
            for point in own:
                chains = point.get("chains", [])
                ax.plot([point["x"]] * len(chains), chains, "_", color="grey", zorder=1)
        ax.set(
            xscale="log",
            xlabel="temperature",
            ylabel="test NLL [nats]",
            title=f"{name}, {study['scale']}",
        )
        ax.legend()
    return figure


def main(*folders: Path, out: Path = RESULTS) -> None:
    """Record the studies given, and draw all that are recorded.

    Args:
        folders: of studies.
    """
    record = Record(out / "cold_posterior.json", part="studies")
    for folder in folders:
        stored = json.loads((folder / "study.json").read_text())
        cells = cells_of(folder)
        study = {"scale": stored["scale"], "points": points_of(cells)}
        study["cells"] = [{k: v for k, v in cell.items() if k != "run"} for cell in cells]
        record[stored["study"]] = study
    for name, study in record.rows.items():
        print(f"\n{name}, {study['scale']}\n{table(study)}")
    picture(record.rows).savefig(record.path.with_suffix(".png"))
