"""Orbits of the No-U-Turn Sampler: steps to both sides until the ends turn to each other."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesnn_ppl.inference.kernels.common.acceptance import select
from bayesnn_ppl.inference.kernels.full_batch.macro_steps import MacroStep, Place

__all__ = ["Orbit", "Tally", "orbit"]

type Step = Callable[[Place, Any, Any], MacroStep]


class Tally(NamedTuple):
    """What an orbit took; each of shape ().

    Attributes:
        gradients, macro_steps: how many.
        accept: the sum of min(1, weight) over the macro steps.
        unhalved: the same over those of a single leapfrog.
        failed: whether a macro step did not hold the energy after all halvings.
    """

    gradients: Any
    macro_steps: Any
    accept: Any
    unhalved: Any
    failed: Any


class Branch(NamedTuple):
    """Steps from one end of an orbit, made to become half of one twice as long.

    Attributes:
        end, chosen: where it is now, and the place chosen among its own.
        log_weight: log of the sum of its weights.
        count: macro steps made.
        joining, leapfrogs: leapfrogs of the first one, which joins the orbit, and of the others.
        stop: whether it turned or became too long, or a step could not be used.
        vectors, momenta: where its parts of 2, 4, 8 ... places begin, (doubling, d).
        tally: of the whole orbit.
    """

    end: Place
    chosen: Place
    log_weight: Any
    count: Any
    joining: Any
    leapfrogs: Any
    stop: Any
    vectors: Any
    momenta: Any
    tally: Tally


class Orbit(NamedTuple):
    """An orbit between two places.

    Attributes:
        left, right: its ends, backward and forward in time.
        chosen: the next draw.
        log_weight: log of the sum of all weights.
        doublings, leapfrogs: how often it was doubled, and how many leapfrogs lie between its ends.
        stop: whether it is not to be doubled again.
        tally: what it took.
    """

    left: Place
    right: Place
    chosen: Place
    log_weight: Any
    doublings: Any
    leapfrogs: Any
    stop: Any
    tally: Tally


def orbit(start: Place, key: Any, step: Step, *, max_leapfrogs: int) -> Orbit:
    r"""A draw of the No-U-Turn Sampler, whose steps may refuse to be used.

    The orbit is doubled, to the left or the right with equal chance, until its ends turn to each
    other, (θ₊ - θ₋)·p₊ ≤ 0 or (θ₊ - θ₋)·p₋ ≤ 0, or `max_leapfrogs` lie between them. A doubling of
    which a half, quarter, ... does so, or a step is not reversible, is not used. Places have the
    weights exp(H_start - H); the draw is chosen within a doubling by its weight, and between the
    old orbit and the doubling in favour of the latter, with probability min(1, w_new/w_old).
    From each of its places an orbit has the same probability, so positions and momenta stay
    distributed as exp(-H).

    Args:
        start: with loss 0.
        key: random key.
        step: (place, direction ±1, whether it is wanted) -> a step of fixed time, of a map that
            conserves volume.
        max_leapfrogs: with so many an orbit is not doubled again.

    References:
        Hoffman and Gelman (2014), JMLR 15; Betancourt (2017), arXiv:1701.02434, appendix A.
    """
    zero, dtype = jnp.zeros((), jnp.int32), start.vector.dtype
    # A macro step has a leapfrog at least.
    max_doublings = max(1, math.ceil(math.log2(max_leapfrogs)))
    none = jnp.zeros((), dtype)
    nothing = Tally(zero, zero, none, none, jnp.zeros((), bool))

    def double(made: Orbit) -> Orbit:
        side_key, branch_key, choice_key = jax.random.split(
            jax.random.fold_in(key, made.doublings), 3
        )
        forward = jax.random.bernoulli(side_key)
        branch = _branch(
            select(forward, made.right, made.left),
            jnp.where(forward, 1, -1).astype(dtype),
            # Batched with chains that go on, one that has stopped must not take their time.
            jnp.where(made.stop, 0, 2**made.doublings),
            branch_key,
            step,
            max_doublings,
            max_leapfrogs,
            made.tally,
        )
        uniform = jax.random.uniform(choice_key, (), dtype)
        taken = ~branch.stop & (jnp.log(uniform) < branch.log_weight - made.log_weight)
        leapfrogs = made.leapfrogs + branch.joining + branch.leapfrogs
        left, right = select(forward, (made.left, branch.end), (branch.end, made.right))
        return Orbit(
            left,
            right,
            select(taken, branch.chosen, made.chosen),
            jnp.logaddexp(made.log_weight, branch.log_weight),
            made.doublings + 1,
            leapfrogs,
            branch.stop | _turned(left, right) | (leapfrogs >= max_leapfrogs),
            branch.tally,
        )

    return jax.lax.while_loop(
        lambda made: ~made.stop,
        double,
        Orbit(start, start, start, start.loss, zero, zero, jnp.zeros((), bool), nothing),
    )


def _branch(
    start: Place,
    direction: Any,
    length: Any,
    key: Any,
    step: Step,
    max_doublings: int,
    max_leapfrogs: int,
    tally: Tally,
) -> Branch:
    """`length` steps from one end of an orbit, or fewer where a part of them turns."""
    dtype, slots = start.vector.dtype, jnp.arange(max_doublings)

    def going(branch: Branch) -> Any:
        return ~branch.stop & (branch.count < length)

    def extend(branch: Branch) -> Branch:
        made = step(branch.end, direction, going(branch))
        weight = jnp.where(made.reversible, -made.end.loss, -jnp.inf)
        log_weight = jnp.logaddexp(branch.log_weight, weight)
        uniform = jax.random.uniform(jax.random.fold_in(key, branch.count), (), dtype)
        taken = jnp.log(uniform) < weight - log_weight  # never where both are -inf: NaN
        first, last = _parts(branch.count)
        begins = branch.count % 2 == 0
        vectors, momenta = (
            jnp.where(begins, kept.at[last].set(new), kept)
            for kept, new in (
                (branch.vectors, made.end.vector),
                (branch.momenta, made.end.momentum),
            )
        )
        turned = jax.vmap(_turned_from, in_axes=(0, 0, None, None))(
            vectors, momenta, made.end, direction
        )
        turned = ~begins & jnp.any(turned & (slots >= first) & (slots <= last))
        # The first step lies between the halves of the new orbit, and counts for neither: else what
        # is too long would depend on the half in which the orbit began.
        count = 2**made.halvings
        joins = branch.count == 0
        leapfrogs = branch.leapfrogs + jnp.where(joins, 0, count)
        tally, accept = branch.tally, jnp.exp(jnp.minimum(weight, 0.0))
        return Branch(
            made.end,
            select(taken, made.end, branch.chosen),
            log_weight,
            branch.count + 1,
            jnp.where(joins, count, branch.joining),
            leapfrogs,
            turned | ~made.reversible | (leapfrogs >= max_leapfrogs),
            vectors,
            momenta,
            Tally(
                tally.gradients + made.gradients,
                tally.macro_steps + 1,
                tally.accept + accept,
                tally.unhalved + jnp.where(made.halvings == 0, accept, 0.0),
                tally.failed | ~made.held,
            ),
        )

    empty = jnp.zeros((max_doublings, *start.vector.shape), dtype)
    begun = Branch(
        start,
        start,
        jnp.asarray(-jnp.inf, dtype),
        jnp.zeros((), jnp.int32),
        jnp.zeros((), jnp.int32),
        jnp.zeros((), jnp.int32),
        jnp.zeros((), bool),
        empty,
        empty,
        tally,
    )
    return jax.lax.while_loop(going, extend, begun)


def _parts(index: Any) -> tuple[Any, Any]:
    """The slots of the parts that the place of an odd index ends, first and last.

    Places are numbered from 0 in the order they are made. The parts of 2, 4, 8 ... that are open
    are as many as index >> 1 has ones; those that end here as many as `index` has ones at its end.
    A place of an even index begins parts, at the last slot.
    """
    last = jax.lax.population_count(index >> 1)
    ending = jax.lax.population_count(index ^ (index + 1)) - 1
    return last - ending + 1, last


def _turned(left: Place, right: Place) -> Any:
    return _turned_from(left.vector, left.momentum, right, 1.0)


def _turned_from(vector: Any, momentum: Any, end: Place, direction: Any) -> Any:
    """Whether two places, of which `end` is reached in this direction, move to each other."""
    between = direction * (end.vector - vector)
    return (between @ momentum <= 0) | (between @ end.momentum <= 0)
