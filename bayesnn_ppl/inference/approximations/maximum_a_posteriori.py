"""MAP: the mode of the posterior, one set of weights."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from numpyro.infer.util import unconstrain_fn

from bayesnn_ppl.identity import describe, identity_key
from bayesnn_ppl.inference.approximations.base import Finding, Fitted, Problem
from bayesnn_ppl.inference.approximations.trained import TrainedByGradients, thinned
from bayesnn_ppl.inference.training import cosine
from bayesnn_ppl.posterior import Posterior
from bayesnn_ppl.storage import variable_names

__all__ = ["MAP", "Mode", "check_mode", "find_mode"]


class Mode(NamedTuple):
    """Where an approximation around a mode begins.

    Attributes:
        position: latent site -> unconstrained value.
        record: how it was found, JSON-ready.
        findings: what did not go well.
    """

    position: dict[str, np.ndarray]
    record: dict[str, Any]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class MAP(TrainedByGradients):
    r"""The maximum of the posterior density of the program's own sites.

        θ* = argmax_θ  log p(y | x, θ) + log p(θ)

    without the Jacobians of constrained sites (the mode as it is usually meant). The prior is the
    weight decay: a normal prior of variance s² is a decay of 1/(N s²) on the mean loss. A
    tempered likelihood counts as it stands in the program. Minibatches give unbiased gradients of
    the same objective.

    As a posterior it is a single draw: its predictions have the noise of the likelihood and no
    uncertainty of the weights. `Laplace`, `SWAG` and `LastLayer` begin at it.

    Args:
        model: a NumPyro program that keeps the model contract; None where another approximation
            has one.
        objective: "posterior", or "likelihood" for maximum likelihood, with AdamW's decoupled
            `weight_decay` in place of the prior.
        learning_rate: of AdamW, by default 3e-3.
        weight_decay: by default 0 for "posterior" and 1e-3 for "likelihood".
        optimiser: an optax transformation in its place: `optax.sgd(0.1, momentum=0.9)`, or
            `optax.lbfgs()` with `batch_size=None, schedule=None` for small networks.
        schedule: factor of the updates as a function of the fraction of training done; by default
            ½(1 + cos πt). None for a constant rate.
        batch_size: rows of a minibatch; None for all.
        epochs: passes over the data; None for as many as make 10 000 steps.
        validation_fraction, patience: with both, training stops after so many epochs without a
            lower loss of the rows held out, and the best epoch is kept.
        start: "auto", "network" or "prior", see `training.train`.
        retries: how often a training that fails is begun again, from another start.

    Raises:
        TypeError, ValueError: an argument is not what it must be.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> data = bnn.data.load("diabetes")
        >>> approximation = bnn.approximations.MAP(bnn.models.linear(), epochs=200)
        >>> mode = bnn.fit(approximation, *data.train, progress=False)
        >>> mode.draws["noise_scale"].shape
        (1, 1)
    """

    _: KW_ONLY
    schedule: Callable[[Any], Any] | None = cosine
    batch_size: int | None = 128

    def _rates(self) -> tuple[float, float]:
        learning_rate, decay = super()._rates()
        return (3e-3 if self.learning_rate is None else learning_rate), decay

    def solve(self, problem: Problem) -> Fitted:
        """Train one member; see `fit`."""
        trained = self.train_members(problem, 1)
        return Fitted(
            positions={name: value[:, None] for name, value in trained.positions.items()},
            record=self.describe_training(trained)
            | {
                "losses": thinned(trained.losses),
                "held_out_losses": thinned(trained.held_out_losses),
            },
            findings=self.findings(trained),
            interrupted=trained.interrupted,
        )

    def find(self, problem: Problem) -> Mode:
        """The mode of the problem's program, for an approximation that begins there.

        Raises:
            ValueError: this `MAP` was built from another program.
            RuntimeError: no attempt ended at finite parameters.
            KeyboardInterrupt: training was interrupted; a half-trained network is no mode.
        """
        if self.model is not None and self.model is not problem.model:
            if identity_key(self.model) != identity_key(problem.model):
                raise ValueError(
                    "The MAP that the approximation begins with was built from another model: "
                    f"{describe(self.model)} and {describe(problem.model)}. Leave its model out."
                )
        trained = self.train_members(problem, 1)
        if trained.interrupted:
            raise KeyboardInterrupt
        self.require_trained(trained)
        position = {name: value[0] for name, value in trained.positions.items()}
        return Mode(position, self.describe_training(trained), self.findings(trained))


def check_mode(mode: Any, name: str) -> None:
    """TypeError unless `mode`, of the approximation `name`, is what `find_mode` takes."""
    if mode is not None and not isinstance(mode, MAP | Posterior):
        raise TypeError(
            f"`{name}(mode=...)` is `MAP(...)` with settings of your own, the posterior of a fit "
            f"of the same model, or None for `MAP()`, not {mode!r}."
        )


def find_mode(problem: Problem, mode: MAP | Posterior | None) -> Mode:
    """The mode that an approximation begins at.

    Args:
        problem: the program and its data.
        mode: settings to find it by, None for those of `MAP()`; or the posterior of a fit of the
            same program, whose first draw it is.

    Raises:
        ValueError: the `MAP` or the posterior is of another program, or holds no weights.
        RuntimeError, KeyboardInterrupt: see `MAP.find`.
    """
    if not isinstance(mode, Posterior):
        return (MAP() if mode is None else mode).find(problem)
    if mode.model is not None and identity_key(mode.model) != identity_key(problem.model):
        raise ValueError(
            "The posterior given as `mode` is of another model: "
            f"{describe(mode.model)} and {describe(problem.model)}. Fit a `MAP` of this one."
        )
    if not mode.has_weights:
        raise ValueError(
            "The posterior given as `mode` kept no weights: fit it with `keep=None`, or give a "
            "`MAP(...)`."
        )
    draws = mode.draws
    values = {}
    for site, name in variable_names(problem.summary.latents).items():
        shape = problem.summary.latents[site]
        if name not in draws or draws[name].shape[2:] != shape:
            found = "none" if name not in draws else f"shape {draws[name].shape[2:]}"
            raise ValueError(
                f"The posterior given as `mode` is of another model: this one has `{site}` of "
                f"shape {shape}, and there it has {found}. Fit a `MAP` of this one."
            )
        values[site] = draws[name][0, 0].astype(np.float64 if problem.float64 else np.float32)
    position = unconstrain_fn(problem.model, (problem.x, problem.y), {}, values)
    run = mode.provenance
    return Mode(
        {name: np.asarray(value) for name, value in jax.device_get(position).items()},
        {"given": run.get("kernel"), "created": run.get("created")},
        (),
    )
