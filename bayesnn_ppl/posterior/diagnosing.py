"""What a posterior gives the diagnostics to judge it by."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesnn_ppl import storage
from bayesnn_ppl.diagnostics import Diagnosis, FitDiagnosis, diagnose, diagnose_fit
from bayesnn_ppl.diagnostics.temperature.posterior_temperature import temperatures_for_diagnosis
from bayesnn_ppl.posterior.draws_with_model import (
    DrawsWithModel,
    as_inputs,
    components_at,
    spread_rows,
)
from bayesnn_ppl.posterior.prediction import function_values

__all__ = ["diagnose_posterior"]

_BFLOAT16 = 2.0**-7
_MOST_PROBES = 20_000  # function values per draw; more say nothing more about convergence


def diagnose_posterior(
    posterior: DrawsWithModel,
    x: Any,
    data: tuple[Any, Any] | None,
    gradients: int | None,
    memory: int,
    settings: Mapping[str, Any],
) -> Diagnosis | FitDiagnosis:
    """See `Posterior.diagnose`."""
    run = posterior.provenance
    if chosen := run.get("selection"):
        raise ValueError(
            f"These {run['draws']} draws were chosen from {chosen['of']} and say nothing of "
            "convergence: R-hat and effective sample sizes are of draws as a chain made them. "
            "Diagnose the posterior that they were chosen from."
        )
    if run.get("approximation") is not None:
        if settings or gradients is not None:
            given = sorted(settings) or ["gradients"]
            raise ValueError(
                f"{given} are settings for chains of a sampler, and this posterior was "
                "fitted. Leave them out."
            )
        return diagnose_fit(run)
    functions = {}
    if x is not None:
        x = spread_rows(posterior, as_inputs(posterior, x), _MOST_PROBES, memory)
        functions = posterior.function_values(x, memory=memory)
    elif posterior.probe is not None:
        functions = posterior.function_values()
    draws = posterior.draws
    if not functions and not draws:
        raise ValueError(
            "The run kept no draws of its weights and nothing to judge convergence by: it kept "
            "their moments, or ended before the first draw of `Keep(every=...)`. Sample with "
            "probe inputs, `Keep(probe=(x, y))`."
        )
    kernel = run.get("kernel_settings", {})
    kernel = kernel.get("inner_kernel", {}) | kernel
    has_trees = "tree_depth" in posterior.tree["sample_stats"]
    known = {
        # NumPyro's HMC has the attribute too, but no trees.
        "max_tree_depth": kernel.get("max_tree_depth") if has_trees else None,
        "target_acceptance": kernel.get("target_accept_prob"),
        "starts": _starting_functions(posterior, x, functions, memory),
        "accept_step": run.get("accept_step"),
        "superchains": run.get("superchains"),
        "every": _every(posterior, functions, draws),
        "resolution": _BFLOAT16 if run.get("keep", {}).get("bfloat16") else None,
        "kernel": run.get("kernel", "the sampler"),
    }
    if not known["accept_step"] and "temperatures" not in settings:
        probe = x if x is not None or posterior.probe is None else posterior.probe[0]
        known["temperatures"], known["no_temperatures"] = temperatures_for_diagnosis(
            posterior, posterior.data if data is None else data, probe, gradients
        )
    return diagnose(functions, draws, posterior.statistics, **{**known, **settings})


def _starting_functions(
    posterior: DrawsWithModel, x: Any, functions: Mapping[str, np.ndarray], memory: int
) -> dict[str, np.ndarray]:
    """What the networks said where the chains started, (chain, N, ...); empty if not known."""
    kept, at_probe = storage.STARTS
    if not functions or kept not in posterior.tree.children:
        return {}
    if x is None and at_probe in posterior.tree.children:
        found = {str(n): a.values for n, a in posterior.tree[at_probe].data_vars.items()}
    elif x is None and (posterior.model is None or not posterior.has_weights):
        return {}
    else:
        starts = posterior.tree[kept].data_vars
        sites = {site: name for name, site in posterior.provenance["site_names"].items()}
        latents = {site: starts[sites[site]].values for site in posterior.provenance["latents"]}
        x = posterior.probe[0] if x is None and posterior.probe is not None else x
        found = function_values(components_at(posterior, x, memory, latents))
    return {name: a for name, a in found.items() if name in functions and name != "sd"}


def _every(posterior: DrawsWithModel, *groups: Mapping[str, np.ndarray]) -> int:
    """Draws that were made for each of the largest group; 1 where their numbers are not known."""
    recorded = max(array.shape[1] for group in groups for array in group.values())
    numbers = [
        data.coords["draw"].values
        for name in ("posterior", "predictions")
        if (data := posterior.tree.children.get(name)) is not None and "draw" in data.coords
    ]
    # The last of every k draws is kept, and draws are counted from 0.
    made = max((int(each[-1]) + 1 for each in numbers if len(each) == recorded), default=recorded)
    return max(1, made // recorded)
