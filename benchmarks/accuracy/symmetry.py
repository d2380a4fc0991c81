"""R-hat of functions, and of weights as drawn, canonical and aligned, of real chains.

    python -m benchmarks symmetry [--cases tanh-2 tanh-10 ...] [--warmup 500] [--draws 1000]
        [--out benchmarks/results]

NUTS, four chains from draws of the prior, on scikit-learn's diabetes data (397 training rows, ten
inputs); `models.mlp` with its default prior, `fan_in_normal`, and learned noise. Function values at
the test rows. Prints each report and writes `symmetry.json`, whatever the figures are.

`moved` is a check on a real chain: the first chain, dealt out to four in turn, each of which gets
units in an order, with scales and signs of its own. R-hat of the weights as the chain had them,
moved, canonical and aligned; were the chain converged, the last two would be below 1.01.
"""

import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import align, canonical_form, find_hidden_layers, rhat, symmetry_report
from benchmarks.harness.records import Record
from tests.diagnostics.symmetry.symmetric_draws import moved_at_random

CASES: dict[str, dict[str, Any]] = {
    "tanh-2": {"hidden": (2,), "activation": "tanh"},
    "tanh-10": {"hidden": (10,), "activation": "tanh"},
    "relu-10": {"hidden": (10,), "activation": "relu"},
    "tanh-10-10": {"hidden": (10, 10), "activation": "tanh"},
    "relu-50": {"hidden": (50,), "activation": "relu"},
}


def difference(posterior: Any, draws: dict[str, np.ndarray], x: Any) -> float:
    """The largest change of a function value under moved weights, of their standard deviation."""
    sites = posterior.provenance["site_names"]
    moved = {site: draws.get(name, posterior.draws[name]) for name, site in sites.items()}
    other = bnn.Posterior.from_arrays(moved, {}, posterior.provenance, model=posterior.model)
    before, after = (p.function_values(x)["mean"] for p in (posterior, other))
    return float(np.abs(after - before).max() / before.std())


def moved(posterior: Any) -> dict[str, float]:
    """The largest R-hat of one chain dealt out to four and moved."""
    network = posterior.model.network
    shape = posterior.provenance["input_shape"]
    layers = find_hidden_layers(network, shape)
    names = {parameter for layer in layers for parameter in (*layer.incoming, layer.outgoing)}
    last = layers[-1].outgoing.replace("kernel", "bias")
    dealt = {
        name: np.stack([posterior.draws[f"net.{name}"][0, k::4].astype(float) for k in range(4)])
        for name in sorted(names | {last})
    }
    other = moved_at_random(dealt, layers, each_draw=False)
    other = {f"net.{name}": array for name, array in other.items()}
    settings = {"network": network, "input_shape": shape}
    forms = {
        "as_drawn": dealt,
        "moved": other,
        "canonical": canonical_form(other, **settings),
        "aligned": align(other, **settings),
    }
    return {
        form: max(float(np.max(rhat(array))) for array in draws.values())
        for form, draws in forms.items()
    }


def measure(case: str, *, warmup: int, draws: int) -> dict[str, Any]:
    """One run and its report."""
    data = bnn.data.load("diabetes")
    model = bnn.models.mlp(**CASES[case])
    posterior = bnn.sample(
        NUTS(model, max_tree_depth=8),
        *data.train,
        warmup=warmup,
        draws=draws,
        chains=4,
        progress=False,
    )
    began = time.perf_counter()
    report = symmetry_report(posterior, data.test.x)
    seconds = time.perf_counter() - began
    print(f"\n{case}\n{report}", flush=True)
    return {
        "case": case,
        "warmup": warmup,
        "draws": draws,
        "spaces": {
            space: getattr(report, space)._asdict()
            for space in ("functions", "raw", "canonical", "aligned")
        },
        "modes": report.modes,
        "largest_distance": float(report.distances.max()),
        "function_change": {
            "canonical": difference(posterior, canonical_form(posterior), data.test.x),
            "aligned": difference(posterior, align(posterior), data.test.x),
        },
        "moved": moved(posterior),
        "seconds_of_report": round(seconds, 1),
    }


def main(
    *,
    cases: tuple[Literal[*CASES], ...] = tuple(CASES),
    warmup: int = 500,
    draws: int = 1000,
    out: Path | None = None,
) -> None:
    """Run the cases.

    Args:
        out: a folder for `symmetry.json`, where other cases stay.
    """
    record = Record(out and out / "symmetry.json", key=("case",))
    for case in cases:
        record[case] = measure(case, warmup=warmup, draws=draws)
