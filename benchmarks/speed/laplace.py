"""KFAC and last-layer Laplace approximations of one network, ours and those of `laplace-torch`.

    python -m benchmarks laplace --torch PYTHON [--rows 10000] [--test 1000] [--draws 100]
        [--epochs 10] [--repeats 3] [--out FILE.json]

A 784-256-256-10 relu network is trained on MNIST by `MAP`, and both libraries start from its
weights, with the same prior, N(0, 1/`PRECISION`), on the same rows:

* fit: curvature and log evidence at the given weights, nothing trained. Ours makes its draws as
  well, which laplace-torch does when it predicts: so "fit" is one with a single draw, and what the
  others add is counted with the predictions;
* predict: class probabilities of the test rows under the linearised network. Ours are means over
  draws of the weights; those of laplace-torch are means over as many draws of normal logits
  ("glm", "mc"), and MacKay's formula ("glm", "probit"), which needs no draws.

The peer runs in an environment of its own, by the interpreter `--torch`, on as many threads as
this process has cores. Ratios are ours over theirs, of medians of the repeats; the first call of
each, which compiles, is told apart. Evidences are to agree to 1 %.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from benchmarks.harness.records import write_result
from benchmarks.harness.running import run_peer

PRECISION = 10.0


def trained(rows: int, test: int, epochs: int) -> Any:
    """The model, its mode, and the rows of both parts."""
    data = bnn.data.load("mnist")
    train = tuple(np.asarray(a)[:rows] for a in data.train)
    held = tuple(np.asarray(a)[:test] for a in data.test)
    model = bnn.bayesian_network(
        bnn.nn.MLP((256, 256), outputs=10, activation="relu"),
        bnn.priors.normal(variance=1 / PRECISION),
        bnn.likelihoods.categorical(10),
    )
    settings = bnn.approximations.MAP(model, epochs=epochs, learning_rate=1e-3)
    return model, bnn.fit(settings, *train, progress=False), train, held


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what the function returned."""
    began = time.perf_counter()
    result = function()
    return time.perf_counter() - began, result


def ours(
    model: Any, mode: Any, train: Any, held: Any, *, draws: int, repeats: int
) -> dict[str, dict[str, Any]]:
    """Case -> seconds of each repeat, evidence and scores."""
    laplace, last_layer = bnn.approximations.Laplace, bnn.approximations.LastLayer
    cases: dict[str, Callable[[int], Any]] = {
        "kfac": lambda count: laplace(model, structure="kfac", mode=mode, draws=count),
        "last layer": lambda count: last_layer(model, mode=mode, draws=count),
    }

    def fit(case: str, count: int) -> tuple[float, Any]:
        return timed(lambda: bnn.fit(cases[case](count), *train, progress=False))

    found = {}
    for name in cases:
        fits, predictions = [], []
        for _ in range(repeats + 1):
            alone, _ = fit(name, 1)
            drawn, posterior = fit(name, draws)
            seconds, p = timed(lambda q=posterior: q.predict(held[0]).probabilities)
            fits.append(alone)
            predictions.append(seconds + max(drawn - alone, 0.0))
        found[name] = {
            "fit": fits,
            "predict": predictions,
            "log_evidence": posterior.provenance["approximation"]["log_evidence"],
            "nll": float(-np.log(p[np.arange(len(p)), held[1].astype(int)]).mean()),
        }
    return found


def peer(
    python: str, mode: Any, train: Any, held: Any, *, draws: int, repeats: int
) -> dict[str, dict[str, Any]]:
    """The same of laplace-torch, from the same weights."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.npz"
        weights = {n.partition(".")[2]: a[0, 0] for n, a in mode.draws.items()}
        np.savez(
            path,
            x=train[0].reshape(len(train[0]), -1),
            y=train[1],
            x_test=held[0].reshape(len(held[0]), -1),
            y_test=held[1],
            **weights,
        )
        threads = len(os.sched_getaffinity(0))
        said = run_peer(python, "laplace_peer.py", path, PRECISION, draws, repeats, threads)
    found: dict[str, dict[str, Any]] = json.loads(said.splitlines()[-1])
    return found


def main(
    *,
    torch: str,
    rows: int = 10_000,
    test: int = 1_000,
    draws: int = 100,
    epochs: int = 10,
    repeats: int = 3,
    out: Path | None = None,
) -> None:
    """Print one line for each case and quantity.

    Args:
        torch: an interpreter that has `laplace-torch`.
        out: a JSON file for the figures.
    """
    model, mode, train, held = trained(rows, test, epochs)
    own = ours(model, mode, train, held, draws=draws, repeats=repeats)
    theirs = peer(torch, mode, train, held, draws=draws, repeats=repeats)
    for case, mine in own.items():
        other = theirs[case]
        gap = mine["log_evidence"] / other["log_evidence"] - 1
        print(
            f"{case:<10} log evidence {mine['log_evidence']:.1f} and {other['log_evidence']:.1f} "
            f"({100 * gap:+.2f} %), NLL {mine['nll']:.4f} and {other['nll']:.4f} (mc)"
        )
        pairs = (("fit", "fit"), ("predict", "predict"), ("predict", "predict probit"))
        for part, against in pairs:
            a, b = statistics.median(mine[part][1:]), statistics.median(other[against][1:])
            print(
                f"{case:<10} {against:<15} {a:8.2f} s, laplace-torch {b:8.2f} s, ratio {a / b:.2f}"
                f" (first call {mine[part][0]:.2f} s and {other[against][0]:.2f} s)"
            )
    if out is not None:
        write_result(out, {"ours": own, "peer": theirs})
