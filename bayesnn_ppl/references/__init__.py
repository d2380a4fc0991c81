"""Reference posteriors of Bayesian neural networks, from two exact samplers that agree.

`names()` lists them, `load(name)` reads one, `diagnostics.distance_to_reference` says how far a
posterior is from one, and `export_posteriordb` writes them in posteriordb's format.
"""

from bayesnn_ppl.references.posteriordb import export_posteriordb
from bayesnn_ppl.references.problems import Problem
from bayesnn_ppl.references.stored import Moments, ReferencePosterior, load, names

__all__ = ["Moments", "Problem", "ReferencePosterior", "export_posteriordb", "load", "names"]
