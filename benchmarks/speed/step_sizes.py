"""How long `--step-size auto` takes, and whether it finds a step, on every model and bundled set.

    nice python -m benchmarks step_sizes [--out FILE]

SGHMC with minibatches of 64 rows, four chains on two devices, as the command line does it. Each
search is a process of its own; one line of JSON each is appended, and what is there is not done
again. `seconds` is wall time and `processor_seconds` that of all cores, both without the import.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "step_sizes.jsonl"
BUNDLED = ("diabetes", "gap", "mlp_prior", "breast_cancer", "wine", "digits", "two_moons")
BATCH = 64


def search(model: str, data: str) -> dict[str, Any]:
    """One search, in this process."""
    import jax

    jax.config.update("jax_num_cpu_devices", 2)
    import bayesnn_ppl as bnn
    from bayesnn_ppl.settings import models
    from bayesnn_ppl.settings.methods.kernels import find_step

    chosen = {"kernel": "sghmc", "settings": {"batch_size": BATCH, "step_size": "auto"}}
    dataset = bnn.data.load(data)
    x, y = dataset.train
    program = models.build(model, {}, task=dataset.task, classes=dataset.classes)
    tried: list[str] = []
    began, processor = time.perf_counter(), time.process_time()
    try:
        step, why = find_step(program, x, y, chosen, chains=4, seed=0, report=tried.append), None
    except ValueError as error:
        step, why = None, str(error)
    return {
        "model": model,
        "data": data,
        "step_size": step,
        "why": why,
        "tried": tried,
        "seconds": round(time.perf_counter() - began, 1),
        "processor_seconds": round(time.process_time() - processor, 1),
    }


def pairs() -> list[tuple[str, str]]:
    """The models for tables, each with the bundled sets that it can learn."""
    import bayesnn_ppl as bnn
    from bayesnn_ppl.settings import models

    tasks = {name: bnn.data.load(name).task for name in BUNDLED}
    models = [name for name in models.names() if models.input_kind(name) == "tables"]
    return [(m, d) for m in models for d in BUNDLED if tasks[d] in models.tasks(m)]


def main() -> None:
    """Do the searches that are not in the record, and print them all."""
    parser = argparse.ArgumentParser(description="How long --step-size auto takes.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "DATA"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(search(*options.one)))
        return
    rows = [json.loads(line) for line in options.out.open()] if options.out.exists() else []
    known = {(row["model"], row["data"]) for row in rows}
    for pair in pairs():
        if pair in known:
            continue
        command = [sys.executable, "-m", "benchmarks", "step_sizes", "--one", *pair]
        line = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows.append(json.loads(line.splitlines()[-1]))
        with options.out.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    print("| model | data | step size | pilots | seconds | processor seconds |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        step = "none" if row["step_size"] is None else f"{row['step_size']:.1e}"
        print(
            f"| {row['model']} | {row['data']} | {step} | {len(row['tried'])} | "
            f"{row['seconds']:.0f} | {row['processor_seconds']:.0f} |"
        )
