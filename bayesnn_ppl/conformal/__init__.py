"""Intervals and sets of classes that hold their coverage whether the model is right or not.

`split` calibrates a posterior on rows that it has not seen, `cross` refits where rows are few.

MAPIE 1.6 was judged before this was written, and is not a dependency. It adds no package to those
of this library, but wraps estimators of scikit-learn: each prediction would need an estimator, and
quantile regression a list of three of them; the level is fixed before the calibration, tables have
one output, and the import takes 1.9 s. What is left is the rank of one score among n.
"""

from bayesnn_ppl.conformal.calibrated import Calibrated
from bayesnn_ppl.conformal.calibrating import cross, split
from bayesnn_ppl.conformal.scores import AdaptiveSets, Quantile, Residual

__all__ = ["AdaptiveSets", "Calibrated", "Quantile", "Residual", "cross", "split"]
