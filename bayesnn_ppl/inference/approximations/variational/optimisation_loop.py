"""Many steps of a stochastic optimiser: compiled in blocks, watched, and safe to interrupt."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.inference.fitting.stages import Block, in_blocks
from bayesnn_ppl.inference.kernels.common.minibatches import Minibatches
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.nn.rows_last import with_rows_last

__all__ = ["OptimisationMethod", "OptimisationResult", "GradientMethod", "optimise"]

_BLOCK = 4096  # the most steps of one call


class OptimisationMethod(Protocol):
    """A method of optimisation; a value, which the compiled loop is kept for.

    `chunk` is the number of steps whose noise is made at a time; `noise(key)` makes it, with that
    leading axis; `step(parameters, memory, noise, index, fraction, x, y)` returns parameters,
    memory and the loss before the step. `fraction` of all steps has been done.
    """

    @property
    def chunk(self) -> int: ...

    def noise(self, key: Any) -> Any: ...

    def step(
        self, parameters: Any, memory: Any, noise: Any, index: Any, fraction: Any, x: Any, y: Any
    ) -> tuple[Any, Any, Any]: ...


@dataclass(frozen=True)
class GradientMethod:
    """Steps of an optax optimiser along the gradient of a family's loss.

    Attributes:
        family: has `chunk`, `noise` and `loss`.
        optimiser: an optax transformation.
        schedule: factor of the updates as a function of the fraction done, or None.
    """

    family: Any
    optimiser: Any
    schedule: Callable[[Any], Any] | None

    @property
    def chunk(self) -> int:
        """That of the family."""
        return self.family.chunk

    def noise(self, key: Any) -> Any:
        """That of the family."""
        return self.family.noise(key)

    def step(
        self, parameters: Any, memory: Any, noise: Any, index: Any, fraction: Any, x: Any, y: Any
    ) -> tuple[Any, Any, Any]:
        """One update."""

        def loss_of(parameters: Any) -> Any:
            return self.family.loss(parameters, noise, x, y, index)

        rows = len(x if index is None else index)
        loss, gradient = with_rows_last(jax.value_and_grad(loss_of), rows)(parameters)
        optimiser = optax.with_extra_args_support(self.optimiser)
        updates, memory = optimiser.update(
            gradient, memory, parameters, value=loss, grad=gradient, value_fn=loss_of
        )
        if self.schedule is not None:
            factor = self.schedule(fraction)
            updates = jax.tree.map(lambda update: factor * update, updates)
        return optax.apply_updates(parameters, updates), memory, loss


class LoopState(NamedTuple):
    """Where the loop is; after a failure, where it was before the chunk that failed."""

    parameters: Any
    memory: Any
    key: Any
    order: Any
    step: Any
    failed: Any


@dataclass(frozen=True)
class OptimisationResult:
    """The result of an optimisation.

    Attributes:
        parameters, memory: after the last step, or before the first that was not finite.
        losses: (steps made,), each before its step.
        failed: whether a loss or parameter was not finite.
        interrupted: whether Ctrl-C or the callback ended it.
        seconds: compilation included.
    """

    parameters: Any
    memory: Any
    losses: np.ndarray
    failed: bool
    interrupted: bool
    seconds: float


@partial(jax.jit, static_argnames=("static", "batches"))
def _advance(
    static: StaticValue,
    batches: Minibatches | None,
    state: LoopState,
    x: Any,
    y: Any,
    count: Any,
    total: Any,
) -> tuple[LoopState, Any]:
    """`count` ≤ block steps of `total`, or until one is not finite; and their losses."""
    method: OptimisationMethod = static.value
    chunk = method.chunk

    def unfinished(carry: Any) -> Any:
        return (carry[0] < count) & ~carry[1].failed

    def body(carry: Any) -> Any:
        done, state, losses = carry
        # Keys follow from the step alone, so that it does not matter how steps fall into blocks.
        noise_key, batch_key = jax.random.split(jax.random.fold_in(state.key, state.step))
        used = jnp.minimum(chunk, count - done)
        noise = method.noise(noise_key)
        order, index = state.order, None
        if batches is not None:
            order, index = batches.indices(order, batch_key, chunk, used)

        def step(number: Any, inner: Any) -> Any:
            parameters, memory, losses, finite = inner
            parameters, memory, loss = method.step(
                parameters,
                memory,
                jax.tree.map(lambda leaf: leaf[number], noise),
                None if index is None else index[number, 0],
                (state.step + number) / total,
                x,
                y,
            )
            losses = losses.at[done + number].set(loss.astype(losses.dtype))
            return parameters, memory, losses, finite & jnp.isfinite(loss)

        parameters, memory, losses, finite = jax.lax.fori_loop(
            0, used, step, (state.parameters, state.memory, losses, jnp.bool_(True))
        )
        for leaf in jax.tree.leaves(parameters):
            finite &= jnp.isfinite(leaf).all()
        keep = partial(jnp.where, finite)
        state = LoopState(
            jax.tree.map(keep, parameters, state.parameters),
            jax.tree.map(keep, memory, state.memory),
            state.key,
            order,
            state.step + used,
            ~finite,
        )
        return done + used, state, losses

    empty = jnp.full((_BLOCK,), jnp.nan)
    _, state, losses = jax.lax.while_loop(unfinished, body, (jnp.int32(0), state, empty))
    return state, losses


def optimise(
    method: OptimisationMethod,
    parameters: Any,
    memory: Any,
    problem: Problem,
    *,
    steps: int,
    batch_size: int | None,
    key: Any,
) -> OptimisationResult:
    """Make so many steps; a second call with equal parts and shapes compiles nothing.

    Args:
        method: how a step is made.
        parameters, memory: where it begins.
        problem: the data, and its bar, callback and record.
        steps: how many.
        batch_size: rows of a minibatch, or None for all. An epoch goes through all rows once, in
            a random order; a minibatch may end one and begin the next.
        key: of minibatches and noise.

    Raises:
        KeyboardInterrupt: before any step was made.
    """
    static, rows = StaticValue(method), len(problem.x)
    batches: Minibatches | None = None
    order: Any = ()
    order_key, key = jax.random.split(key)
    if batch_size is not None:
        batches = Minibatches(rows, batch_size, 1, "epoch")
        order = batches.start(jax.random.bits(order_key, (2,), jnp.uint32))
    x, y = jnp.asarray(problem.x), jnp.asarray(problem.y)

    def advance(state: LoopState, count: int) -> Block:
        after, losses = _advance(static, batches, state, x, y, np.int32(count), np.int32(steps))
        return Block(after, np.asarray(losses)[None, :count])

    done = in_blocks(
        problem,
        LoopState(parameters, memory, key, order, jnp.int32(0), jnp.bool_(False)),
        advance,
        total=steps,
        members=1,
        most=_BLOCK,
        name="climb",
        step=method.chunk,
        over=lambda state: bool(state.failed),
        said=partial(_bound, rows),
    )
    state = done.state
    return OptimisationResult(
        state.parameters,
        state.memory,
        done.losses[0, : done.made],
        bool(state.failed),
        done.interrupted,
        done.seconds,
    )


def _bound(rows: int, losses: np.ndarray) -> str:
    """The bound, averaged over a block."""
    known = losses[np.isfinite(losses)]
    return f"ELBO {-known.mean() * rows:.6g}" if known.size else "ELBO not finite"
