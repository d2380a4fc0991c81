"""The temperatures of a posterior: what its run recorded, and gradients at its draws."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesnn_ppl.core.arguments import natural
from bayesnn_ppl.diagnostics.posterior_protocol import PosteriorDraws
from bayesnn_ppl.diagnostics.potential_energy.potential import (
    WrongDataError,
    affordable_gradients,
    energies_at_draws,
    run_temperature,
)
from bayesnn_ppl.diagnostics.temperature.estimators import configurational_series, measure
from bayesnn_ppl.diagnostics.temperature.function_temperature import function_series
from bayesnn_ppl.diagnostics.temperature.readings import Dynamics, Reading, Thermometry
from bayesnn_ppl.diagnostics.temperature.verdict import judge_temperatures

__all__ = [
    "configurational_temperature",
    "has_kinetic_temperature",
    "read_temperatures",
    "recorded_temperatures",
    "temperatures_for_diagnosis",
]

_FEWEST_DRAWS = 4


def has_kinetic_temperature(posterior: PosteriorDraws) -> bool:
    """Whether the run recorded kinetic temperatures, which cost nothing to judge."""
    return "kinetic_temperature" in posterior.statistics


def configurational_temperature(
    posterior: PosteriorDraws,
    x: Any,
    y: Any,
    *,
    gradients: int = 400,
    rows: int | None = None,
    centre: str = "others",
    level: float = 0.99,
    parts: int = 8,
    seed: int = 0,
) -> dict[str, Reading]:
    """T_C = ⟨θ - c, ∇U⟩/d of each parameter array; its expectation is T at any stationary draw.

    Args:
        posterior: with its model and its weights, of any sampler.
        x, y: the data of the run, as `sample` was given them.
        gradients: at how many draws, evenly spaced; each passes over the data once.
        rows: rows drawn again for each gradient, instead of all.
        centre: c, see `configurational_series`.
        level: probability that the intervals of all arrays hold.
        parts: of the run, for the temperature over time.
        seed: of the rows and of the bootstrap.

    Returns:
        Variable name -> `Reading`, with a block-bootstrap interval.

    Raises:
        ValueError, TypeError: as `energies_at_draws`.
    """
    found = energies_at_draws(posterior, x, y, gradients=gradients, rows=rows, seed=seed)
    series = [
        configurational_series(theta, found.gradients[name], centre=centre)
        for name, theta in found.positions.items()
    ]
    measured = measure(
        np.stack(series, axis=-1), level=level, parts=parts, bootstrap=True, seed=seed
    )
    return {name: Reading.of(measured, i) for i, name in enumerate(found.positions)}


def read_temperatures(
    posterior: PosteriorDraws,
    x: Any = None,
    y: Any = None,
    *,
    gradients: int = 400,
    rows: int | None = None,
    centre: str = "others",
    seed: int = 0,
    probe: Any = None,
    **settings: Any,
) -> Thermometry:
    """Both temperatures and their verdict: too hot, too cold or right, and what to change.

    The kinetic one is read from the statistics of the run; the configurational one needs `x` and
    `y`. Chains that stopped at a draw that was not finite are left out.

    Args:
        posterior: of a stochastic-gradient sampler, or with `x` and `y` of any sampler.
        x, y: the data of the run; None to read the kinetic temperature alone.
        gradients, rows, centre, seed: see `configurational_temperature`.
        probe: inputs (N, ...) at which the temperatures of the function outputs are read too, see
            `function_temperature`; needs `x` and `y`. A reason why they cannot be is added to the
            verdict.
        **settings: `tolerance`, `resolution`, `level`, `parts`; see `judge_temperatures`.

    Raises:
        ValueError: there is nothing to read, or every chain stopped, or the temperature was not
            constant over the kept draws; and as `energies_at_draws`.
    """
    if (x is None) != (y is None):
        raise ValueError("The gradient of U needs both `x` and `y`: give both, or neither.")
    run, statistics = posterior.provenance, posterior.statistics
    notes: list[str] = []
    chains = _going(statistics, run["chains"], notes)
    sites = {site: name for name, site in run["site_names"].items()}
    recorded = [sites[site] for site in sorted(run["latents"])]  # the order of the statistics
    names = natural(recorded)
    kinetic, decay = _kinetic_distribution(run, statistics)
    dynamics: Dynamics = "unadjusted"
    if run.get("accept_step"):
        dynamics = "accept step"
    elif "kinetic_law" in run.get("kernel_settings", {}):
        dynamics = "noise"
    series: dict[str, Any] = {"kinetic": None, "configurational": None}
    if has_kinetic_temperature(posterior) and kinetic not in ("none", "unknown"):
        order = [recorded.index(name) for name in names]
        series["kinetic"] = statistics["kinetic_temperature"][chains][..., order]
        decay = decay[chains] if np.ndim(decay) else decay
    elif has_kinetic_temperature(posterior) and kinetic == "unknown":
        notes.append(
            f"The distribution of {run.get('kernel')}'s momenta is not known, so its kinetic "
            "temperature was not judged."
        )
    if x is None and series["kinetic"] is None:
        raise ValueError(
            f"{run.get('kernel')} recorded no kinetic temperature that could be judged"
            + (": it has no momenta. " if kinetic == "none" and dynamics == "noise" else ". ")
            + "Give the data of the run, `temperatures(x, y)`, for the configurational one."
        )
    draws = posterior.draws
    sizes = [int(np.prod(draws[name].shape[2:])) if name in draws else 0 for name in names]
    frozen = {name for name in names if name in draws and _constant(draws[name][chains])}
    if x is None:
        notes.append(
            "The positions were not looked at: `posterior.temperatures(x, y)`, with the data of "
            "the run, distinguishes a wrong force from wrong noise."
        )
        temperature = run_temperature(posterior)
    else:
        found = energies_at_draws(
            posterior, x, y, gradients=gradients, rows=rows, chains=chains, seed=seed
        )
        temperature = found.temperature
        sizes = [int(np.prod(found.positions[name].shape[2:])) for name in names]
        series["configurational"] = np.stack(
            [
                configurational_series(found.positions[n], found.gradients[n], centre=centre)
                for n in names
            ],
            axis=-1,
        )
        if probe is not None:
            try:
                series["functions"], series["shifts"] = function_series(
                    posterior, found, chains, x, y, probe
                )
            except ValueError as error:
                notes.append(f"Function outputs were not looked at: {error}")
    return judge_temperatures(
        names,
        sizes,
        temperature=temperature,
        kinetic_distribution=kinetic,
        momentum_decay=decay,
        frozen=frozen,
        kernel=run.get("kernel", "the sampler"),
        dynamics=dynamics,
        notes=notes,
        **series,
        **settings,
    )


def recorded_temperatures(posterior: PosteriorDraws) -> Thermometry | None:
    """The kinetic temperature as `diagnose` reads it; None where the run has none to judge."""
    recorded = posterior.statistics.get("kinetic_temperature")
    kinetic = _kinetic_distribution(posterior.provenance, posterior.statistics)[0]
    # What is amiss with such runs is said elsewhere: too few draws, a chain that stopped.
    stopped = posterior.statistics.get("stopped")
    if (
        recorded is None
        or recorded.shape[1] < _FEWEST_DRAWS
        or kinetic in ("none", "unknown", "thermostat")
        or (stopped is not None and np.asarray(stopped).any(axis=1).all())
    ):
        return None
    try:
        return read_temperatures(posterior)
    except ValueError:
        return None


def temperatures_for_diagnosis(
    posterior: PosteriorDraws, data: tuple[Any, Any] | None, probe: Any, gradients: int | None
) -> tuple[Thermometry | None, str | None]:
    """What `diagnose` can read of temperatures, and why it is not all, in a sentence.

    Args:
        posterior: of a kernel without an accept step.
        data: of the run; None where they are not at hand.
        probe: inputs whose outputs are looked at, or None.
        gradients: how many, as `Posterior.diagnose` takes it.

    Raises:
        ValueError: `data` are not those of the run.
    """
    reason = None
    if posterior.model is None or not posterior.has_weights:
        reason = (
            "Temperatures at the draws would show it, but they need the draws of the weights and "
            "the model."
        )
    elif data is None:
        reason = (
            "Temperatures at the draws show it: `posterior.diagnose(x, data=(x_train, y_train))`, "
            "with the training data as they were given to `sample`."
        )
    if reason is None and data is not None:
        try:
            wanted = gradients if gradients is not None else affordable_gradients(posterior, *data)
            if wanted >= _FEWEST_DRAWS * posterior.provenance["chains"]:
                found = read_temperatures(posterior, *data, gradients=wanted, probe=probe)
                return found, None
            reason = (
                "Gradients over all the data at the draws, which would show it, were not computed"
                + (": they would take long. " if gradients is None else ". ")
                + "`posterior.diagnose(x, gradients=400)` computes them."
            )
        except WrongDataError as error:
            if data is not posterior.data:
                raise
            reason = str(error)
        except ValueError as error:
            reason = str(error)
    return recorded_temperatures(posterior), reason


def _going(statistics: Mapping[str, np.ndarray], chains: int, notes: list[str]) -> np.ndarray:
    """Indices of the chains that did not stop, of so many."""
    if "stopped" not in statistics:
        return np.arange(chains)
    stopped = np.asarray(statistics["stopped"]).astype(bool).any(axis=1)
    if stopped.all():
        raise ValueError(
            "Every chain stopped at a draw that was not finite, so no temperature can be read. "
            "Lower the step size; `find_step_size` (`--step-size auto`) finds the largest step "
            "size that works."
        )
    if stopped.any():
        listed = ", ".join(str(i) for i in np.flatnonzero(stopped))
        notes.append(
            f"Left out because they stopped at a draw that was not finite: chain {listed}."
        )
    return np.flatnonzero(~stopped)


def _kinetic_distribution(
    run: Mapping[str, Any], statistics: Mapping[str, np.ndarray]
) -> tuple[str, Any]:
    """The distribution of the run's momenta, and its β, per draw where the step size changed."""
    settings = run.get("kernel_settings", {})
    recorded = "kinetic_temperature" in statistics
    kinetic = settings.get("kinetic_law") or ("unknown" if recorded else "none")
    decay = float(settings.get("momentum_decay") or 0.0)
    reference = settings.get("reference_step_size")
    steps = statistics.get("step_size")
    # A plain learning rate has no reference here, and a constant step, at which β holds.
    if decay and kinetic == "symplectic Euler" and steps is not None and reference:
        # The friction is constant, so β follows the step: β' = 1 - √(ε'/ε)(1 - β).
        decay_of_draw = np.maximum(1 - np.sqrt(np.asarray(steps) / reference) * (1 - decay), 0.0)
        if not np.allclose(decay_of_draw, decay, atol=1e-6):
            return kinetic, decay_of_draw
    return kinetic, decay


def _constant(draws: np.ndarray) -> bool:
    """Whether no element moves within any chain."""
    return draws.shape[1] > 1 and bool((draws == draws[:, :1]).all())
