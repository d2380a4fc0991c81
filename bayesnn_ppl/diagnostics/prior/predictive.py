"""What a prior over weights means in function space, before any data."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesnn_ppl.diagnostics.prior import report
from bayesnn_ppl.diagnostics.prior.class_collapse import collapse_of
from bayesnn_ppl.diagnostics.prior.function_variation import function_scale, length_scale
from bayesnn_ppl.diagnostics.prior.functions import PriorDraws, draw_functions
from bayesnn_ppl.diagnostics.prior.report import PriorPredictive, PriorStatus

__all__ = ["PriorPredictive", "prior_predictive"]


def prior_predictive(
    model: Any, x: ArrayLike, *, draws: int = 200, seed: int = 0
) -> PriorPredictive:
    """Draw functions from the prior of a model, and say in words what they are like.

    The prior is that of the model, unchanged. A temperature, of `tempered` or `cold`, scales
    log densities, which no draw is made from, and so does not enter.

    Args:
        model: a NumPyro model of the model contract; its `y` is not needed.
        x: inputs (N, ...), two at least, best real ones: rows of the training data.
        draws: functions to draw, two at least.
        seed: of all randomness. Two priors are compared at the same lines between inputs.

    Returns:
        A `PriorPredictive`.

    Raises:
        TypeError: inputs that are not numbers, or a number of draws or a seed that is not whole.
        ValueError: fewer than two inputs or draws, inputs that are not finite, a model without
            a latent site or a site "y", or one whose prior has no draws: an improper
            distribution, a factor, a network parameter without a prior.

    References:
        Wenzel et al. (2020), arXiv:2002.02405; Gabry et al. (2019), Visualization in Bayesian
        workflow, section 3 (prior predictive checks).
    """
    if np.shape(x)[:1] == (1,):
        raise ValueError(
            "`x` has a single row, but how functions vary shows between two inputs or more. "
            "`function_draws` takes a single one."
        )
    return _judged(draw_functions(model, x, draws=draws, seed=seed))


def _judged(drawn: PriorDraws) -> PriorPredictive:
    every = drawn.functions
    axes = tuple(range(1, every.ndim))
    good = np.isfinite(every).all(axis=axes)
    if drawn.ends is not None:
        good &= np.isfinite(drawn.ends).all(axis=tuple(range(1, drawn.ends.ndim)))
    found = PriorPredictive(
        status="not finite",
        verdict="",
        draws=len(every),
        rows=every.shape[1],
        broken=int((~good).sum()),
        classes=None,
        scale=None,
        length=None,
        noise_sd=None,
        layers=drawn.layers,
        no_layers=drawn.no_layers,
        functions=every,
    )
    if good.any():
        found = _measured(found, drawn, good)
        found = replace(found, status=_status(found))
    return replace(found, verdict=" ".join(report.sentences(found)))


def _measured(found: PriorPredictive, drawn: PriorDraws, good: np.ndarray) -> PriorPredictive:
    functions = drawn.functions[good]
    ends = None if drawn.ends is None else drawn.ends[good]
    classes = None
    if drawn.kind == "bernoulli":
        classes = collapse_of(np.stack([np.zeros_like(functions), functions], axis=-1))
    elif drawn.kind == "categorical":
        classes = collapse_of(functions)
        functions = functions - functions.mean(axis=-1, keepdims=True)
        ends = None if ends is None else ends - ends.mean(axis=-1, keepdims=True)
    length = None
    if ends is not None and drawn.distances is not None:
        length = length_scale(ends, drawn.distances[good], step=drawn.step)
    return replace(
        found,
        classes=classes,
        scale=function_scale(functions),
        length=length,
        noise_sd=None if drawn.noise is None else float(np.median(drawn.noise[good])),
    )


def _status(found: PriorPredictive) -> PriorStatus:
    if found.classes is not None:
        share, even = float(np.median(found.classes.largest)), 1 / found.classes.classes
        if share >= report.COLLAPSED:
            return "collapsed"
        return "leaning" if share > (1 + even) / 2 else "spread"
    assert found.scale is not None
    if found.scale.constant_share >= report.CONSTANT:
        return "flat"
    crossings = 0.0 if found.length is None else found.length.crossings
    return "rough" if crossings >= report.ROUGH else "varied"
