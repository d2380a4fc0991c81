"""What a reader must know of a variational fit: is the bound still rising, is q near the target?"""

import numpy as np

from bayesnn_ppl.inference.fitting.approximation import Finding

__all__ = ["judge_bound", "judge_weights", "pareto_k", "still_rising", "thinned_losses"]

_FEWEST = 100  # steps, below which a trend cannot be told from noise
_PARTS = 10  # of a window, by whose means its error is known
_ERRORS = 3.0  # of the difference of two windows, which a trend must exceed
# And it must matter: nats per observation, and the share of what the loss fell by in all.
_SETTLED_NATS, _SETTLED_SHARE = 0.01, 0.02
_RELIABLE = 0.7  # of Vehtari et al.: above it, smoothed importance sampling cannot mend q
_FEWEST_WEIGHTS = 25
_MOST_KEPT = 200


def still_rising(losses: np.ndarray) -> tuple[bool, float, float]:
    """Whether the bound rose notably from the middle of an optimisation to its end.

    The window around the middle is compared with the last, each a tenth of all steps. A schedule
    that lowers the rate flattens the end of any curve, so that the last steps alone would always
    look settled. Each loss is of one minibatch and a few draws of q: the error of a window's mean
    is that of the means of its ten parts, which the correlation of neighbouring steps is within.

    Args:
        losses: minus the bound per observation, one for each step.

    Returns:
        Whether it rose, by how much per observation, and the standard error of that.
    """
    part = max(1, len(losses) // 10)
    half = len(losses) // 2
    middle, end = losses[half - part // 2 : half - part // 2 + part], losses[-part:]
    rise = float(middle.mean() - end.mean())
    error = float(np.hypot(_error(middle), _error(end)))
    fallen = float(losses[: max(1, part // 10)].mean() - end.mean())
    notable = rise > max(_SETTLED_NATS, _SETTLED_SHARE * fallen)
    return bool(notable and rise > _ERRORS * error), rise, error


def _error(window: np.ndarray) -> float:
    means = [part.mean() for part in np.array_split(window, min(_PARTS, len(window)))]
    return float(np.std(means, ddof=1) / np.sqrt(len(means))) if len(means) > 1 else np.inf


def judge_bound(
    losses: np.ndarray, steps: int, *, failed: bool, interrupted: bool
) -> list[Finding]:
    """Findings about the optimisation of the bound."""
    made = len(losses)
    if failed:
        finite = int(np.isfinite(losses).sum())
        return [
            Finding(
                "failure",
                f"The ELBO or a parameter of q was not finite in step {finite + 1} of {steps}: q "
                "is kept from a few steps before that. Lower the learning rate, begin "
                "narrower (`sigma_init`) or at a mode (`mode=MAP()`), standardise inputs and "
                "targets, or narrow the prior.",
            )
        ]
    if interrupted:
        return [Finding("doubt", f"The fit was interrupted after {made} of {steps} steps.")]
    if made < _FEWEST:
        return [
            Finding(
                "doubt",
                f"{made} steps are too few to tell whether the ELBO has stopped rising. Make some "
                "thousands.",
            )
        ]
    rising, rise, error = still_rising(losses)
    if not rising:
        return []
    return [
        Finding(
            "doubt",
            f"The ELBO was still rising at the end: from the middle of the fit on by {rise:.3g} "
            f"(standard error {error:.1g}) nats per observation. Make more steps, or use a higher "
            "learning rate.",
        )
    ]


def pareto_k(log_weights: np.ndarray) -> float | None:
    """The shape k̂ of the tail of importance ratios; None where there are too few.

    Equal ratios, of an exact q, have no tail: -∞ by name, given as 0.

    References:
        Vehtari et al. (2024), arXiv:1507.02646; Yao et al. (2018), arXiv:1802.02538.
    """
    finite = log_weights[np.isfinite(log_weights)]
    if len(finite) < _FEWEST_WEIGHTS:
        return None
    spread = float(np.ptp(finite))
    if spread < 1e-6 * max(1.0, float(np.abs(finite).max())):
        return 0.0
    from arviz_stats.base import array_stats

    # It takes the logarithms of what is divided by, as in leave-one-out.
    return float(array_stats.psislw(-(finite - finite.max()))[1])


def judge_weights(log_weights: np.ndarray, k: float | None) -> list[Finding]:
    """Findings about the distance from q to its target."""
    bad = int((~np.isfinite(log_weights)).sum())
    if bad:
        return [
            Finding(
                "failure",
                f"The log density is not finite at {bad} of {len(log_weights)} draws of q: they "
                "lie where the model overflows. Begin narrower (`sigma_init`), lower the "
                "learning rate, or narrow the prior.",
            )
        ]
    if k is None or k <= _RELIABLE:
        return []
    return [
        Finding(
            "doubt",
            f"Pareto k of the importance ratios is {k:.2f}, above 0.7: q is far from the "
            "posterior, and its draws cannot be reweighted to it. That is usual for a mean field "
            "of a network and need not spoil predictions. Try a richer guide "
            '("multivariate_normal", "low_rank", "iaf"), and compare predictions with those of '
            "`sample` or of an `Ensemble`.",
        )
    ]


def thinned_losses(losses: np.ndarray) -> list[list[float | None]]:
    """The losses per observation, averaged over at most 200 stretches; one list, of one member."""
    parts = np.array_split(losses, min(len(losses), _MOST_KEPT))
    means = [float(np.mean(part)) for part in parts]
    return [[round(mean, 6) if np.isfinite(mean) else None for mean in means]]
