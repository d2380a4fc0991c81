"""`python -m bayesnn_ppl.cli`, where the program `bayesnn` is not on PATH."""

import sys

from bayesnn_ppl.cli import main

if __name__ == "__main__":
    sys.exit(main())
