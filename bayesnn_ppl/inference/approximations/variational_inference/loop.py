"""Many steps of a stochastic optimiser: compiled in blocks, watched, and safe to interrupt."""

import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bayesnn_ppl.identity import StaticProgram
from bayesnn_ppl.inference.kernels.minibatches import Minibatches
from bayesnn_ppl.inference.progress import ProgressBar
from bayesnn_ppl.inference.run import uninterrupted
from bayesnn_ppl.inference.training import TrainingProgress

__all__ = ["Climb", "Climbed", "GradientClimb", "climb"]

_BLOCK = 4096  # the most steps of one call
_BLOCK_SECONDS = 0.5
_LINE_SECONDS = 15.0


class Climb(Protocol):
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
class GradientClimb:
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

        loss, gradient = jax.value_and_grad(loss_of)(parameters)
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
class Climbed:
    """What a climb ended with.

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


@partial(jax.jit, static_argnames=("program", "batches"))
def _advance(
    program: StaticProgram,
    batches: Minibatches | None,
    state: LoopState,
    x: Any,
    y: Any,
    count: Any,
    total: Any,
) -> tuple[LoopState, Any]:
    """`count` ≤ block steps of `total`, or until one is not finite; and their losses."""
    method: Climb = program.model
    chunk = method.chunk

    def go_on(carry: Any) -> Any:
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
    _, state, losses = jax.lax.while_loop(go_on, body, (jnp.int32(0), state, empty))
    return state, losses


class _Bar(ProgressBar):
    """The bar of `sample`, with steps for draws and the bound for divergences."""

    def show(self, done: int, bound: float) -> None:
        """Show the bound, averaged over the last block."""
        note = f"ELBO {bound:.6g}"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, note=note)
            return
        now = time.monotonic()
        if self._shown and (done >= self._total or now - self._last_line > _LINE_SECONDS):
            self._last_line = now
            print(f"{self._name:<8} {done:>6}/{self._total} {note}", file=sys.stderr, flush=True)


def climb(
    method: Climb,
    parameters: Any,
    memory: Any,
    x: Any,
    y: Any,
    *,
    steps: int,
    batch_size: int | None,
    key: Any,
    progress: bool,
    callback: Callable[[Any], Any] | None,
) -> Climbed:
    """Make so many steps; a second call with equal parts and shapes compiles nothing.

    Args:
        method: how a step is made.
        parameters, memory: where it begins.
        x, y: the data.
        steps: how many.
        batch_size: rows of a minibatch, or None for all. An epoch goes through all rows once, in
            a random order; a minibatch may end one and begin the next.
        key: of minibatches and noise.
        progress: whether to show a bar.
        callback: called with a `TrainingProgress` after each block; ends it when it returns true.

    Raises:
        KeyboardInterrupt: before any step was made.
    """
    began = time.perf_counter()
    program = StaticProgram(method)
    batches: Minibatches | None = None
    order: Any = ()
    order_key, key = jax.random.split(key)
    if batch_size is not None:
        batches = Minibatches(x.shape[0], batch_size, 1, "epoch")
        order = batches.start(jax.random.bits(order_key, (2,), jnp.uint32))
    state = LoopState(parameters, memory, key, order, jnp.int32(0), jnp.bool_(False))
    x, y = jnp.asarray(x), jnp.asarray(y)
    losses = np.full(steps, np.nan)
    done, interrupted, rate = 0, False, None
    with _Bar(shown=progress, chains=1) as bar:
        bar.phase("climb", steps)
        try:
            while done < steps and not bool(state.failed):
                count = method.chunk
                if rate is not None:
                    chunks = np.clip(_BLOCK_SECONDS * rate, 1, _BLOCK) // method.chunk
                    count = method.chunk * max(1, int(chunks))
                count = min(count, steps - done)
                start = time.perf_counter()
                after, block = _advance(
                    program, batches, state, x, y, np.int32(count), np.int32(steps)
                )
                block = np.asarray(block)[:count]
                if done:  # the first block compiles
                    rate = count / (time.perf_counter() - start)
                with uninterrupted():
                    state = after
                    losses[done : done + count] = block
                    done += count
                bar.show(done, -float(np.nanmean(block)) * x.shape[0])
                if callback is not None:
                    seconds = time.perf_counter() - began
                    seen = losses[None, :done].copy()
                    held = np.full_like(seen, np.nan)
                    try:
                        over = callback(TrainingProgress(done, steps, seconds, seen, held))
                    except Exception:  # the user's metric must not cost the fit
                        bar.say("The callback failed and is not called again; the fit goes on.")
                        bar.say(traceback.format_exc())
                        callback, over = None, False
                    if over and done < steps:
                        interrupted = True
                        break
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
            bar.say(f"Interrupted: the fit ends after {done} steps.")
    return Climbed(
        state.parameters,
        state.memory,
        losses[:done],
        bool(state.failed),
        interrupted,
        time.perf_counter() - began,
    )
