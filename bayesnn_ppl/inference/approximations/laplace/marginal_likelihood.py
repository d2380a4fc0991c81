"""Training a network and its hyperparameters in turns, by the Laplace evidence."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bayesnn_ppl.core.arguments import integer, positive, readable
from bayesnn_ppl.inference.approximations.curvature.evidence import ascend
from bayesnn_ppl.inference.approximations.curvature.gaussian import Noise, likelihood_terms
from bayesnn_ppl.inference.approximations.curvature.local import LocalModel, Point
from bayesnn_ppl.inference.approximations.curvature.prior import PriorCurvature
from bayesnn_ppl.inference.fitting.approximation import Finding
from bayesnn_ppl.inference.fitting.stages import Block, in_blocks
from bayesnn_ppl.inference.training.problem import Problem

__all__ = ["DuringTraining", "Hyperparameters", "train_by_evidence"]

_TRAINING = 2  # stream of randomness
_MOST = 100  # rounds of a block


class Hyperparameters(NamedTuple):
    """Logarithms of the factors of the prior's precisions, by group, and of the likelihood's."""

    log_factors: Any
    log_noise: Any


@readable
@dataclass(frozen=True)
class DuringTraining:
    """Tune by the evidence while the network is trained, in rounds, from the mode on.

    A round is `epochs` passes of Adam over minibatches, on the log posterior with the tuned prior
    and noise, and then `steps` of Adam on their logarithms, on the Laplace evidence with the
    curvature at the weights that these epochs found. Where a round changes nothing more, weights
    are the mode of the tuned posterior, and the evidence is greatest with its mode following.

    Args:
        rounds: how many.
        epochs: passes over the data in a round.
        steps: steps on the hyperparameters in a round.
        learning_rate: of the weights; it falls to 0 along a half cosine over all rounds.
        evidence_rate: of the hyperparameters.
        batch_size: rows of a minibatch; None for all.

    Raises:
        TypeError, ValueError: a setting is not what it must be.

    References:
        Immer et al. (2021), arXiv:2104.04975, algorithm 1.
    """

    rounds: int = 20
    epochs: int = 5
    steps: int = 50
    learning_rate: float = 1e-3
    evidence_rate: float = 0.1
    batch_size: int | None = 128

    def __post_init__(self) -> None:
        for name in ("rounds", "epochs", "steps"):
            integer(getattr(self, name), f"`{name}`", at_least=1)
        for name in ("learning_rate", "evidence_rate"):
            positive(getattr(self, name), f"`{name}`")
        if self.batch_size is not None:
            integer(self.batch_size, "`batch_size`", at_least=1)


def train_by_evidence(
    problem: Problem,
    local: LocalModel,
    point: Point,
    prior: PriorCurvature,
    settings: DuringTraining,
    *,
    groups: np.ndarray,
    noise: Noise | None,
    curvature: Callable[[Point], Any],
    tune_prior: bool,
    tune_noise: bool,
) -> tuple[Point, Hyperparameters, dict[str, Any], tuple[Finding, ...]]:
    """Rounds of training and tuning; see `DuringTraining`.

    Args:
        problem: the model and its data.
        local: the model as a function of the weights that are trained.
        point: where they begin.
        prior: its curvature, of a normal prior.
        settings: of the rounds.
        groups: (d,), the group of each parameter.
        noise: the site of the Gaussian noise, where that is tuned.
        curvature: M at a point.
        tune_prior, tune_noise: what is tuned.

    Returns:
        The point at the last weights, the hyperparameters, the evidence of every round, and a
        finding where Ctrl-C or the callback ended it early. The callback's losses are -log Z / N.
    """
    dtype, total = point.centre.dtype, len(problem.x)
    hyper = (jnp.zeros(int(groups.max()) + 1, dtype), jnp.zeros((), dtype))
    weights = jnp.asarray(point.centre)
    batch = total if settings.batch_size is None else min(settings.batch_size, total)

    def one_round(state: Any, number: int) -> tuple[Any, float]:
        weights, optimiser, (log_factors, log_noise), memory = state
        fixed = dict(point.fixed)
        if noise is not None and tune_noise:
            fixed[noise.site] = (noise.scale * jnp.exp(-0.5 * log_noise)).astype(dtype)
        weights, optimiser = _train(
            local,
            weights,
            optimiser,
            fixed,
            jnp.exp(log_factors)[groups] * prior.precision,
            prior.mean,
            problem.x,
            problem.y,
            jax.random.fold_in(problem.key(_TRAINING), number),
            number / settings.rounds,
            1 / settings.rounds,
            epochs=settings.epochs,
            batch=batch,
            rate=settings.learning_rate,
        )
        at = point._replace(centre=weights)
        here = prior.moved_to(np.asarray(weights))
        hyper, memory, value = ascend(
            (log_factors, log_noise),
            memory,
            curvature(at),
            likelihood_terms(problem, local, at, here, gaussian=tune_noise),
            groups,
            tune_prior=tune_prior,
            tune_noise=tune_noise,
            steps=settings.steps,
            rate=settings.evidence_rate,
        )
        return (weights, optimiser, tuple(hyper), memory), float(value)

    def advance(state: Any, count: int) -> Block:
        made, values = int(state[-1]), []
        inner = state[:-1]
        for number in range(made, made + count):
            inner, value = one_round(inner, number)
            values.append(-value / total)
        return Block((*inner, np.int32(made + count)), np.array([values]))

    begin = (
        weights,
        optax.adam(settings.learning_rate).init(weights),
        hyper,
        optax.adam(settings.evidence_rate).init(hyper),
        np.int32(0),
    )
    done = in_blocks(
        problem, begin, advance, total=settings.rounds, members=1, most=_MOST, name="tuning"
    )
    findings = []
    if done.interrupted:
        findings.append(
            Finding(
                "doubt", f"Tuning was interrupted after {done.made} of {settings.rounds} rounds."
            )
        )
    evidences = [round(-value * total, 4) for value in done.losses[0, : done.made].tolist()]
    point = point._replace(centre=np.asarray(done.state[0]))
    found = Hyperparameters(*(np.asarray(part) for part in done.state[2]))
    return point, found, {"log_evidences": evidences}, tuple(findings)


@partial(jax.jit, static_argnames=("local", "epochs", "batch", "rate"))
def _train(
    local: LocalModel,
    weights: Any,
    memory: Any,
    fixed: Any,
    precision: Any,
    mean: Any,
    x: Any,
    y: Any,
    key: Any,
    begin: Any,
    share: Any,
    *,
    epochs: int,
    batch: int,
    rate: float,
) -> Any:
    """`epochs` passes of Adam on -[N/B Σ log p(y_n|x_n, θ) + log p(θ)] / N."""
    rows = x.shape[0]
    steps = rows // batch
    optimiser = optax.adam(rate)
    still = Point(jnp.zeros_like(weights), jnp.ones_like(weights), fixed)

    def loss(weights: Any, index: Any) -> Any:
        log_p = local.row_log_likelihood(weights, still, x[index], y[index]).sum()
        prior = -0.5 * jnp.sum(precision * jnp.square(weights - mean))
        return -(rows / batch * log_p + prior) / rows

    def step(carry: Any, now: Any) -> Any:
        weights, memory = carry
        index, number = now
        updates, memory = optimiser.update(jax.grad(loss)(weights, index), memory, weights)
        done = begin + share * number / (epochs * steps)
        factor = 0.5 * (1 + jnp.cos(jnp.pi * done))
        weights = weights + (factor * updates).astype(weights.dtype)
        return (weights, memory), None

    orders = jax.vmap(lambda k: jax.random.permutation(k, rows)[: steps * batch])(
        jax.random.split(key, epochs)
    )
    index = orders.reshape(epochs * steps, batch)
    return jax.lax.scan(step, (weights, memory), (index, jnp.arange(epochs * steps)))[0]
