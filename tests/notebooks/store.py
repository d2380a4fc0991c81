"""`python -m tests.notebooks.store [NN ...]`: execute notebooks and store their outputs."""

import sys

from tests.notebooks.execution import paths, store
from tests.notebooks.form import faults


def main(wanted: list[str]) -> int:
    """Store the notebooks whose names begin with one of `wanted`, or all; 1 if one has a fault."""
    failed = False
    for path in paths():
        if wanted and not path.name.startswith(tuple(wanted)):
            continue
        run = store(path)
        found = faults(path)
        if run.failure is not None:
            found = [f"{run.failure.cell.id}: {run.failure.name}: {run.failure.message}"]
        kilobytes = path.stat().st_size / 1000
        print(f"{path.name}: {run.processor:.0f} s of processor time, {kilobytes:.0f} kB")
        for fault in found:
            print(f"  {fault}")
        failed = failed or bool(found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
