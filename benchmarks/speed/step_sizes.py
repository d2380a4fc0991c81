"""How long `--step-size auto` takes, and whether it finds a step, on every model and bundled set.

    nice python -m benchmarks step_sizes [--out FILE]

SGHMC with minibatches of 64 rows, four chains on two devices, as the command line does it. Each
search is a process of its own; one line of JSON each is appended, and what is there is not done
again. `seconds` is wall time and `processor_seconds` that of all cores, both without the import.
"""

import time
from pathlib import Path
from typing import Any

from benchmarks.harness.records import RESULTS, Record
from benchmarks.harness.running import in_own_process
from benchmarks.harness.tables import markdown

BUNDLED = ("diabetes", "gap", "mlp_prior", "breast_cancer", "wine", "digits", "two_moons")
BATCH = 64


def search(model: str, data: str) -> dict[str, Any]:
    """One search, in this process."""
    import jax

    jax.config.update("jax_num_cpu_devices", 2)
    import bayesnn_ppl as bnn
    from bayesnn_ppl.settings.methods.kernels import find_step
    from bayesnn_ppl.settings.models import zoo

    chosen = {"kernel": "sghmc", "settings": {"batch_size": BATCH, "step_size": "auto"}}
    dataset = bnn.data.load(data)
    x, y = dataset.train
    built = zoo.build(model, {}, task=dataset.task, classes=dataset.classes)
    tried: list[str] = []
    began, processor = time.perf_counter(), time.process_time()
    try:
        step, why = find_step(built, x, y, chosen, chains=4, seed=0, report=tried.append), None
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
    from bayesnn_ppl.settings.models import zoo

    tasks = {name: bnn.data.load(name).task for name in BUNDLED}
    models = [name for name in zoo.names() if zoo.input_kind(name) == "tables"]
    return [(m, d) for m in models for d in BUNDLED if tasks[d] in zoo.tasks(m)]


def main(*, out: Path = RESULTS / "step_sizes.jsonl") -> None:
    """Do the searches that are not in the record, and print them all."""
    record = Record(out, key=("model", "data"))
    for pair in record.missing(pairs()):
        record[pair] = in_own_process(search, *pair)
    header = ("model", "data", "step size", "pilots", "seconds", "processor seconds")
    print(markdown(header, map(cells, record.rows.values())))


def cells(row: dict[str, Any]) -> list[object]:
    """A line of the table."""
    step = "none" if row["step_size"] is None else f"{row['step_size']:.1e}"
    times = (f"{row[name]:.0f}" for name in ("seconds", "processor_seconds"))
    return [row["model"], row["data"], step, len(row["tried"]), *times]
