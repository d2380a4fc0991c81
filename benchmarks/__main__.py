"""One study: `python -m benchmarks NAME [options]`; without a name, a list of all."""

import sys

from benchmarks.harness.running import run

sys.exit(run(sys.argv[1:]))
