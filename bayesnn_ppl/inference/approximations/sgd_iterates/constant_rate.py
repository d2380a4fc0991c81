"""The constant rate at which SGD looks like the posterior: minibatch noise against curvature."""

from functools import partial
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.inference.approximations.sgd_iterates.sgd_loop import SGDResult
from bayesnn_ppl.inference.approximations.trained_networks.flat_loss import Layout, minibatch_loss
from bayesnn_ppl.inference.fitting.approximation import Finding
from bayesnn_ppl.inference.training.problem import Problem

__all__ = [
    "Rates",
    "best_rates",
    "drift_findings",
    "reduced_finding",
    "refuse_burn_in",
    "stability",
    "stability_findings",
]

_ROWS = 2048  # whose gradients tell the noise
_CURVED_ROWS = 512  # whose curvature tells whether a rate is stable
_AT_ONCE = 64
_ROUNDS = 30  # of the power iteration
_STABLE = 0.5  # of ε λ: beyond it the theory of small steps is off by a quarter and more
_LEAST_NOISE = 1e-2  # of the mean noise: a direction that no row moves would have no bound
# A loss has moved between the first third of the iterates and the last, when its mean did by this
# many nats per observation, and by so many standard errors, or the thirds do not overlap, which is
# chance once in 500 times for six iterates each.
_SETTLED_NATS, _SETTLED_ERRORS, _ENOUGH = 0.01, 5.0, 6


class Rates(NamedTuple):
    """Rates that the theory asks for.

    Attributes:
        rate: (members, 1), (members, d) or (members, d, d), ε times the preconditioner.
        stability: (members,), the largest eigenvalue of it times the Hessian; 2 is unstable.
        reduced: (members,), whether it was scaled down to be stable.
    """

    rate: np.ndarray
    stability: np.ndarray
    reduced: np.ndarray


def best_rates(
    problem: Problem, layout: Layout, modes: np.ndarray, batch_size: int, preconditioner: str
) -> Rates:
    r"""The rate whose stationary distribution has the least KL divergence from the posterior.

    Near a mode with the Hessian A of the loss per observation, and gradients of minibatches of B
    rows with covariance C/B, small constant steps have the stationary covariance Σ of
    PAΣ + ΣAP = PCP/B, and the posterior has A⁻¹/N. KL(SGD || posterior) is least at

        P = ε I,       ε = 2 B d / (N tr C)          "none"
        P = diag(ε_k),  ε_k = 2 B / (N C_kk)          "diagonal"
        P = (2B/N) C⁻¹                               "full"

    the second taking log det Σ for a function of det P alone, as the paper does; the third has
    Σ = A⁻¹/N exactly. C is that of single rows' gradients at the mode, of at most 2 048 rows; a
    direction with less than a hundredth of the mean noise is taken to have that much. Where PA has
    an eigenvalue above 1/2, steps are not small and P is scaled down to it.

    Args:
        problem: the model and its data.
        layout: of the vectors.
        modes: (members, d).
        batch_size: B.
        preconditioner: "none", "diagonal" or "full".

    References:
        Mandt, Hoffman and Blei (2017), arXiv:1704.04289, theorem 1 and corollaries.
    """
    x, y = _some_rows(problem, _ROWS)
    total = len(problem.x)
    model = StaticValue(problem.model)
    rates = []
    for mode in modes:
        noise = np.asarray(
            _noise(model, layout, total, preconditioner == "full", jnp.asarray(mode), x, y), float
        )
        rates.append(_rate(noise, 2 * batch_size / total, preconditioner).astype(mode.dtype))
    rate = np.stack(rates)
    known = stability(problem, layout, modes, rate)
    reduced = known > _STABLE
    factor = np.where(reduced, _STABLE / np.maximum(known, 1e-30), 1.0)
    rate = rate * factor.reshape(-1, *[1] * (rate.ndim - 1)).astype(rate.dtype)
    return Rates(rate, known * factor, reduced)


def stability(problem: Problem, layout: Layout, modes: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """The largest |eigenvalue| of rate times Hessian of the loss at each mode, (members,)."""
    x, y = _some_rows(problem, _CURVED_ROWS)
    model, total = StaticValue(problem.model), len(problem.x)
    return np.array(
        [
            float(_largest(model, layout, total, jnp.asarray(m), jnp.asarray(r), x, y))
            for m, r in zip(modes, rate, strict=True)
        ]
    )


def _some_rows(problem: Problem, most: int) -> tuple[np.ndarray, np.ndarray]:
    rows = len(problem.x)
    chosen = np.arange(rows)
    if rows > most:
        chosen = np.random.default_rng(problem.seed).permutation(rows)[:most]
    return problem.x[chosen], problem.y[chosen]


def _rate(noise: np.ndarray, scale: float, preconditioner: str) -> np.ndarray:
    if preconditioner == "none":
        return np.array([scale * len(noise) / max(noise.sum(), 1e-30)])
    if preconditioner == "diagonal":
        return scale / np.maximum(noise, max(_LEAST_NOISE * noise.mean(), 1e-30))
    values, vectors = np.linalg.eigh(noise)
    values = np.maximum(values, max(_LEAST_NOISE * values.mean(), 1e-30))
    return (vectors * (scale / values)) @ vectors.T


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _noise(
    model: StaticValue, layout: Layout, total: int, full: bool, vector: Any, x: Any, y: Any
) -> Any:
    """The covariance of the gradients of minibatches of one row, (d, d), or its diagonal."""
    gradient = jax.grad(minibatch_loss(model, layout, total))
    mean = gradient(vector, x, y)
    rows = x.shape[0]
    parts = -(-rows // _AT_ONCE)

    def part(number: Any, sums: Any) -> Any:
        index = number * _AT_ONCE + jnp.arange(_AT_ONCE)
        chosen = jnp.minimum(index, rows - 1)
        off = jax.vmap(lambda i: gradient(vector, x[i][None], y[i][None]))(chosen) - mean
        off = jnp.where((index < rows)[:, None], off, 0.0)
        return sums + (off.T @ off if full else jnp.square(off).sum(0))

    d = layout.dimension
    empty = jnp.zeros((d, d) if full else (d,), vector.dtype)
    return jax.lax.fori_loop(0, parts, part, empty) / rows


@partial(jax.jit, static_argnums=(0, 1, 2))
def _largest(
    model: StaticValue, layout: Layout, total: int, vector: Any, rate: Any, x: Any, y: Any
) -> Any:
    gradient = jax.grad(lambda v: minibatch_loss(model, layout, total)(v, x, y))
    # Where rounding and the third derivative err alike.
    step = jnp.finfo(vector.dtype).eps ** (1 / 3) * jnp.maximum(1.0, jnp.abs(vector).max())

    def product(v: Any) -> Any:
        # By differences of gradients: a convolution of `nn` has no forward mode, and backward twice
        # through an LSTM took more than a hundred gradients.
        curved = (gradient(vector + step * v) - gradient(vector - step * v)) / (2 * step)
        return rate @ curved if rate.ndim == 2 else rate * curved

    def turn(_: Any, carry: Any) -> Any:
        v, _ = carry
        new = product(v)
        size = jnp.linalg.norm(new)
        return new / jnp.maximum(size, 1e-30), size

    start = jax.random.normal(jax.random.key(0), vector.shape, vector.dtype)
    start = start / jnp.linalg.norm(start)
    return jax.lax.fori_loop(0, _ROUNDS, turn, (start, jnp.zeros((), vector.dtype)))[1]


def reduced_finding(what: str, reduced: np.ndarray, batch: int) -> Finding:
    """That the best rate was too large to be used."""
    return Finding(
        "doubt",
        f"The rate at which {what} would have the posterior's width is too large for the curvature "
        f"at the modes of {int(reduced.sum())} of {len(reduced)} members, and was reduced: their "
        f"draws are too narrow. Minibatches of fewer than {batch} rows have more noise and need a "
        "smaller rate.",
    )


def stability_findings(stable: np.ndarray, what: str) -> tuple[Finding, ...]:
    """A rate that was given and is too large."""
    if np.max(stable) <= 1:
        return ()
    return (
        Finding(
            "doubt",
            f"The rate of {what} times the largest curvature at a mode is {np.max(stable):.3g}. "
            "Beyond 1 steps overshoot, and from 2 on they lead away from the mode: lower "
            "`learning_rate`, or leave it out.",
        ),
    )


def refuse_burn_in(result: SGDResult, what: str) -> NoReturn:
    """Raise what there is to raise where a run ended before there was anything to keep.

    Raises:
        RuntimeError: the callback ended it.
        KeyboardInterrupt: Ctrl-C did.
    """
    if not result.asked:
        raise KeyboardInterrupt
    raise RuntimeError(
        f"The callback ended {what} in its burn-in, before there was an iterate to keep. With "
        "`out=FOLDER` all is saved there, and `resume` continues; or let it run longer."
    )


def drift_findings(result: SGDResult, what: str) -> tuple[Finding, ...]:
    """Members that failed, a run cut short, and a loss that had not settled.

    Args:
        result: that of the iterates that count, those of the burn-in left out.
        what: the approximation's name.
    """
    found = []
    failed = np.flatnonzero(result.failed).tolist()
    if failed:
        found.append(
            Finding(
                "failure",
                f"Members {failed} of {what} became infinite or not a number, and their later "
                "draws repeat the last good position. Lower `learning_rate`, or leave it out.",
            )
        )
    made = int(np.isfinite(result.losses).any(axis=0).sum())
    if result.interrupted:
        found.append(
            Finding("doubt", f"{what} was interrupted after {made} iterates, burn-in left out.")
        )
    moved: dict[str, list[int]] = {"falling": [], "rising": []}
    for member, row in enumerate(result.losses):
        row = row[np.isfinite(row)]
        third = len(row) // 3
        if member in failed or third < 3:
            continue
        begin, end = row[:third], row[-third:]
        change = end.mean() - begin.mean()
        error = np.sqrt((begin.var(ddof=1) + end.var(ddof=1)) / third)
        apart = third >= _ENOUGH and (end.min() > begin.max() or end.max() < begin.min())
        if abs(change) > _SETTLED_NATS and (apart or abs(change) > _SETTLED_ERRORS * error):
            moved["falling" if change < 0 else "rising"].append(member)
    for direction, members in moved.items():
        if members:
            do = (
                "Train the mode for longer, or lengthen `burn_in`."
                if direction == "falling"
                else "The rate takes them away from the mode: lower `learning_rate`."
            )
            found.append(
                Finding(
                    "doubt",
                    f"The loss of {len(members)} of {len(result.losses)} members was still "
                    f"{direction} while {what} looked at the iterates, so they are not of one "
                    f"distribution. {do}",
                )
            )
    return tuple(found)
