"""Whether targets can come from a likelihood at all, and what to do about those that cannot."""

from typing import Any

import numpy as np
from numpyro.distributions import constraints

from bayesnn_ppl.likelihoods.common.observed import CATEGORICAL, base_distribution

__all__ = ["check_support"]


def check_support(fn: Any, y: np.ndarray, name: str) -> None:
    """Raise ValueError unless every element of `y` lies in the support of `fn`.

    Bounds that depend on the model's parameters are left to the sampler.
    """
    base = base_distribution(fn)
    support = base.support
    bounds = [getattr(support, bound, 0) for bound in ("lower_bound", "upper_bound")]
    if any(not isinstance(bound, int | float) for bound in bounds):
        return
    inside = np.asarray(support(y))
    if not inside.all():
        place = tuple(int(i) for i in np.argwhere(~inside)[0][: y.ndim])
        raise ValueError(
            f"{name}[{', '.join(map(str, place))}] = {y[place]} cannot come from the model's "
            f"{type(base).__name__} likelihood: {_allowed(base)}"
        )


def _allowed(base: Any) -> str:
    """What lies in the support, and what to do about targets that do not."""
    support = base.support
    unstandardised = (
        'Load data with `standardise="inputs"` (in a shell `--standardise inputs`), or take '
        "standardised targets back: "
    )
    if support is constraints.nonnegative_integer:
        return (
            f"counts must be 0, 1, 2, … in the data's own units. {unstandardised}"
            "`np.rint(y.standardisation.undo_y(y))`. Other numbers need another likelihood."
        )
    if not support.is_discrete:
        return (
            f"its support is {support}. {unstandardised}`y.standardisation.undo_y(y)`. "
            '`standardise="positive"` divides positive targets by their geometric mean. Other '
            "numbers need another likelihood."
        )
    allowed = (
        f"labels must be 0 … {support.upper_bound}"
        if isinstance(base, CATEGORICAL)
        else f"its support is {support}"
    )
    return (
        f"{allowed}. Renumber the labels, or choose the number of classes or the likelihood to "
        "suit them."
    )
