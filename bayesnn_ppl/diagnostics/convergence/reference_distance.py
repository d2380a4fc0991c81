"""How far a posterior is from a reference posterior, in Monte Carlo errors and in its spread."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesnn_ppl.core.arguments import readable
from bayesnn_ppl.diagnostics.convergence.measures import convergence_summary
from bayesnn_ppl.diagnostics.convergence.moment_errors import (
    allowed_difference,
    function_moments,
    standardised_differences,
)
from bayesnn_ppl.references import ReferencePosterior, load
from bayesnn_ppl.references.stored import compared

__all__ = ["ReferenceDistance", "distance_to_reference"]

_FEWEST, _LARGEST_RHAT = 100.0, 1.05


@readable
@dataclass(frozen=True)
class ReferenceDistance:
    """What `distance_to_reference` found.

    Attributes:
        reference: its name.
        verdict: "within Monte Carlo error", "differs", or "not judged", where the run is too
            short or its chains disagree, and so its Monte Carlo errors are not known.
        largest: of all |difference of a mean or sd| / (error of both).
        allowed: what `comparisons` such numbers allow if the target is the same.
        where: the output at which it is, such as "sd of mean[3]".
        mean_difference: largest |difference of means| in standard deviations of the reference.
        spread: smallest and largest ratio of standard deviations.
        wasserstein: output -> mean 1-Wasserstein distance over rows, in the reference's standard
            deviations (numbers); its draws are 1 000, so two right posteriors are some 0.05 apart.
        total_variation: mean distance of the class probabilities over rows (labels), or None.
        rhat, ess: of the run: largest R-hat and smallest bulk or tail effective sample size.
        differences: "mean" and "sd" -> output -> z.
    """

    reference: str
    verdict: str
    largest: float
    allowed: float
    comparisons: int
    where: str
    mean_difference: float
    spread: tuple[float, float]
    wasserstein: Mapping[str, float]
    total_variation: float | None
    rhat: float
    ess: float
    differences: Mapping[str, Mapping[str, np.ndarray]]

    @property
    def agrees(self) -> bool:
        """Whether the verdict is "within Monte Carlo error"."""
        return self.verdict == "within Monte Carlo error"

    def _figures(self) -> dict[str, Any]:
        names = ("reference", "verdict", "largest", "allowed", "mean_difference", "spread")
        return {name: getattr(self, name) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """All numbers but the single differences, JSON-ready."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
            if name != "differences"
        }

    def __str__(self) -> str:
        reason = {
            "not judged": f" (R-hat {self.rhat:.3f} at most, ESS {self.ess:.0f} at least; needed "
            f"are {_LARGEST_RHAT} and {_FEWEST:.0f})"
        }.get(self.verdict, "")
        lines = [
            f"Compared with the reference posterior {self.reference}: {self.verdict}{reason}",
            f"  largest difference   {self.largest:.1f} standard errors, {self.where} "
            f"({self.comparisons} comparisons allow {self.allowed:.1f})",
            f"  means                off by {self.mean_difference:.3f} posterior sd at most",
            f"  standard deviations  {self.spread[0]:.3f} to {self.spread[1]:.3f} of the "
            "reference's",
        ]
        if self.total_variation is not None:
            lines.append(f"  total variation      {self.total_variation:.4f} (mean over rows)")
        for output, distance in self.wasserstein.items():
            lines.append(
                f"  Wasserstein          {distance:.3f} posterior sd, {output} (mean over rows)"
            )
        return "\n".join(lines)


def distance_to_reference(posterior: Any, reference: str | ReferencePosterior) -> ReferenceDistance:
    """Compare the function values of a posterior with a reference posterior.

    Means and standard deviations of all outputs (mean and noise sd, or log-odds of the classes) at
    the test rows are compared in units of the Monte Carlo errors of both sides. One z above what
    their number allows (Bonferroni, 0.1 % in all) means that the posterior is another one, by a
    sampler that is biased, a density that differs, or chains that have not reached all of it; how
    much other, `mean_difference` and `spread` say.

    Args:
        posterior: a `Posterior` of `reference.model()` on `reference.data().train`. Its probe
            inputs are used if they are `data().test`, else it predicts there. Or function values of
            another library, output -> (chain, draw, N, ...), in the units of standardised targets.
        reference: the name of a reference posterior, or one that was loaded.

    Returns:
        A `ReferenceDistance`, which prints as a table.

    Raises:
        ValueError: there is no such reference, the outputs have other names or shapes, or the
            posterior was trained on targets in other units.
        FileNotFoundError: the posterior must predict at the test rows, and the data are not at
            hand.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> reference = bnn.references.load("wine-cold")
        >>> print(bnn.diagnostics.distance_to_reference(reference.draws, "wine-cold").verdict)
        within Monte Carlo error
    """
    known = load(reference) if isinstance(reference, str) else reference
    values = _function_values(posterior, known)
    _check(values, known)
    zs: dict[str, dict[str, np.ndarray]] = {"mean": {}, "sd": {}}
    off, ratios, rhats, sizes = [], [], [], []
    for output, draws in compared(values).items():
        own, other = function_moments(draws), known.moments[output]
        measures = convergence_summary(draws)
        for name, z in standardised_differences(own, other).items():
            zs[name][output] = z
        off.append(np.abs(own.mean - other.mean) / other.sd)
        ratios.append(own.sd / other.sd)
        rhats.append(np.asarray(measures.rhat))
        sizes.append(np.minimum(measures.ess_bulk, measures.ess_tail))
    every = {
        f"{name} of {output}[{','.join(map(str, index))}]": abs(float(z[index]))
        for name, outputs in zs.items()
        for output, z in outputs.items()
        for index in np.ndindex(z.shape)
    }
    where = max(every, key=lambda name: np.nan_to_num(every[name], nan=np.inf))
    largest, allowed = every[where], allowed_difference(len(every))
    rhat, ess = _largest(rhats), min(float(np.min(a)) for a in sizes)
    judged = ess >= _FEWEST and (np.isnan(rhat) or rhat <= _LARGEST_RHAT)
    agreement = "within Monte Carlo error" if largest <= allowed else "differs"
    return ReferenceDistance(
        reference=known.name,
        verdict=agreement if judged else "not judged",
        largest=largest,
        allowed=allowed,
        comparisons=len(every),
        where=where,
        mean_difference=max(float(np.max(a)) for a in off),
        spread=(min(float(a.min()) for a in ratios), max(float(a.max()) for a in ratios)),
        wasserstein={} if "probability" in values else _wasserstein(values, known),
        total_variation=_total_variation(values, known),
        rhat=rhat,
        ess=ess,
        differences=zs,
    )


def _function_values(posterior: Any, known: ReferencePosterior) -> dict[str, np.ndarray]:
    """Output -> (chain, draw, N, ...) at the rows of the reference, in the model's units."""
    if isinstance(posterior, Mapping):
        return {name: np.asarray(a) for name, a in posterior.items()}
    units, own = known.facts["units"], posterior.standardisation
    mean, scale = (own["y_mean"], own["y_scale"]) if own else (0.0, 1.0)
    if not np.allclose([mean, scale], [units["y_mean"], units["y_scale"]], rtol=1e-4):
        raise ValueError(
            f"The posterior was trained on targets with centre {mean} and scale {scale}, and the "
            f"reference `{known.name}` on {units['y_mean']:.6g} and {units['y_scale']:.6g}. Train "
            "on `references.load(name).data().train`."
        )
    probe = posterior.probe
    if probe is not None and known.is_at(probe[0]):
        return posterior.function_values()
    return posterior.function_values(known.data().test.x)


def _check(values: Mapping[str, np.ndarray], known: ReferencePosterior) -> None:
    shapes = {name: a.shape[2:] for name, a in values.items()}
    expected = {name: a.shape[2:] for name, a in known.draws.items()}
    if shapes != expected:
        raise ValueError(
            f"The posterior has the outputs {shapes} at the test rows, and the reference "
            f"`{known.name}` has {expected}: it is of another model or of other rows. Sample "
            f'`references.load("{known.name}").model()`.'
        )
    for name, draws in values.items():
        if draws.ndim < 2 or draws.shape[1] < 4 or not np.isfinite(draws).all():
            raise ValueError(
                f"The posterior's `{name}` must be finite and of shape (chain, draw, ...) with 4 "
                f"draws at least, but has shape {draws.shape}."
            )


def _largest(arrays: list[np.ndarray]) -> float:
    joined = np.concatenate([np.ravel(a) for a in arrays])
    return float(np.nanmax(joined)) if np.isfinite(joined).any() else float("nan")


def _wasserstein(values: Mapping[str, np.ndarray], known: ReferencePosterior) -> dict[str, float]:
    """∫|F⁻¹ - G⁻¹| in the reference's standard deviations, mean over rows."""
    found = {}
    for output, draws in values.items():
        other = np.sort(known.draws[output].reshape(-1, *draws.shape[2:]), axis=0)
        levels = (np.arange(len(other)) + 0.5) / len(other)
        own = np.quantile(draws.reshape(-1, *draws.shape[2:]), levels, axis=0)
        distance = np.abs(own - other).mean(0) / known.moments[output].sd
        found[output] = float(distance.mean())
    return found


def _total_variation(values: Mapping[str, np.ndarray], known: ReferencePosterior) -> float | None:
    if "probability" not in values:
        return None
    p = values["probability"].mean((0, 1), dtype=np.float64)
    return float(np.mean(0.5 * np.abs(p - known.moments["probability"].mean).sum(-1)))
