"""All benchmarks, one after another: `python -m benchmarks`, or `make bench`."""

import subprocess
import sys

for name in ("startup", "overhead", "arrangement", "convolutions", "memory"):
    print(f"\n{name}\n", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
