"""Do draws keep their bits through a change of the code?

    python -m benchmarks same_draws record FILE     # before the change
    python -m benchmarks same_draws check FILE      # after it; exit status 1 where a bit differs

Every kernel and approximation that the library offers runs on a small problem, in float64 with
fixed seeds, in the variants that take other ways through the code: on one device, kernels on two
as well. FILE holds a hash of each array, and its mean, by which the size of a difference is told.
Bits are comparable on one machine with the same versions only; another machine is told so.
"""

import hashlib
import importlib.metadata
import json
import platform
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bayesnn_ppl.core.wording import plain
from benchmarks.faults.same_draw_problems import Arrays, problems, uncovered
from benchmarks.harness.records import write_result
from benchmarks.harness.running import in_own_process

_PACKAGES = ("jax", "jaxlib", "numpyro", "flax", "numpy")


def here() -> dict[str, str]:
    """What bits depend on besides the code: versions, and the processor's instructions."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    flags = sorted(set(" ".join(line for line in lines if line.startswith("flags")).split()))
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    processor = hashlib.sha256(" ".join(flags).encode()).hexdigest()[:12]
    return found | {"python": platform.python_version(), "processor": processor}


def outcome(problem: Callable[[], Arrays]) -> dict[str, Any]:
    """Array name -> hash and mean; where it fails, the error."""
    try:
        arrays = problem()
    except Exception as error:  # a record of all others is worth more
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}
    return {
        name: [
            hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()[:16],
            float(np.mean(np.asarray(a, float))),
        ]
        for name, a in sorted(arrays.items())
    }


def run(devices: int, only: str) -> dict[str, Any]:
    """Outcomes of all problems on so many devices, in this process."""
    import jax

    warnings.simplefilter("ignore")
    jax.config.update("jax_num_cpu_devices", devices)
    found = {}
    for name, problem in problems(devices).items():
        if only in name:
            found[name] = outcome(problem)
            print(name, found[name].get("error", ""), file=sys.stderr, flush=True)
    return found


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A line for each problem whose arrays are others."""
    lines = [f"{name}: there is none any more" for name in before if name not in after]
    for name, arrays in after.items():
        old = before.get(name, {})
        for array in {**old, **arrays}:
            if old.get(array) != arrays.get(array):
                lines.append(f"{name}, {array}: {old.get(array)} became {arrays.get(array)}")
                break
    return lines


def main(action: Literal["record", "check"], file: Path, /, *, only: str = "") -> int:
    """Record or check.

    Args:
        only: problems whose names hold this.
    """
    if missing := uncovered():
        print(f"No problem covers {', '.join(missing)}. Add them to same_draw_problems.py.")
        return 1
    found: dict[str, Any] = {}
    for devices in (1, 2):
        found |= plain(in_own_process(run, devices, only))
    if action == "record":
        write_result(file, {"here": here(), "found": found})
        failed = [name for name, arrays in found.items() if "error" in arrays]
        print(f"{len(found)} problems recorded, of which {len(failed)} failed: {failed}")
        return 1 if failed else 0
    before = plain(json.loads(file.read_text()))
    if before["here"] != here():
        print("Recorded with other versions or on another processor: bits are not comparable.")
        return 1
    was = {name: a for name, a in before["found"].items() if only in name}
    lines = differences(was, found)
    print("\n".join(lines) or f"{len(found)} problems: every bit is as it was.")
    return 1 if lines else 0
