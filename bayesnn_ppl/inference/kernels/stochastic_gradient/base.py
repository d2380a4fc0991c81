"""What all stochastic-gradient kernels share: minibatches, noise, schedules, preconditioning."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from bayesnn_ppl.core.derivatives import derivatives_along
from bayesnn_ppl.core.fast_normals import standard_normal, steps_at_once
from bayesnn_ppl.inference.kernels.common.acceptance import select
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.common.minibatch_density import (
    MinibatchGradient,
    full_gradient,
)
from bayesnn_ppl.inference.kernels.common.minibatches import Minibatches, data_shards, take_rows
from bayesnn_ppl.inference.kernels.common.row_independence import check_rows_independent
from bayesnn_ppl.inference.kernels.stochastic_gradient.settings import StochasticGradientSettings
from bayesnn_ppl.inference.kernels.stochastic_gradient.state import (
    StepGradient,
    StepSettings,
    StochasticGradientState,
    WholeData,
    draw_statistics,
)

__all__ = ["StepSettings", "StochasticGradientKernel", "StochasticGradientState", "WholeData"]

_AT_ONCE = 1024  # rows of a full gradient
_NOISE = 0x6E6F6973  # stream of what a model draws in training


def step_key(key: Any, number: Any) -> Any:
    """The key of a model's noise in one step, of a draw's own key and the step's number in it."""
    return jax.random.fold_in(jax.random.fold_in(key, _NOISE), number)


class StochasticGradientKernel(StochasticGradientSettings):
    """A kernel whose draw is `steps_per_draw` steps, each on a minibatch.

    A subclass gives `_begin` and `_step`. A momentum is the field `momentum` of its variables, and
    a gradient that it keeps from step to step the field `gradient`.

    Args:
        model: a NumPyro model of `(x, y)`. It is run on the minibatch as its data, with the
            likelihood times N/B.
        step_size: ε > 0, a number or a schedule `step -> ε`.
        batch_size: B rows a step. With B = N every step has the gradient of all the data.
        steps_per_draw: steps of a draw; or several numbers, for draws of unequal length, which
            are gone through again and again.
        temperature: T of the target exp(-U/T), a number or a schedule. The Jacobians of
            constrained sites count once, whatever T is.
        noise: a factor on the noise, a number or a schedule.
        preconditioner: of `bayesnn_ppl.preconditioners`.
        gradient: "minibatch", or an estimator of `bayesnn_ppl.gradients`.
        minibatches: "random", or "epoch": one permutation of the rows an epoch.
        sub_batches: the gradient is added up over so many parts of a minibatch, in the memory of
            one.
        init_strategy: NumPyro's, where `MCMC` of NumPyro starts the chain.

    Raises:
        TypeError, ValueError: an argument is out of range, or, when the model first runs, it is
            not one that minibatches can be taken of.
    """

    @abstractmethod
    def _begin(self, position: Any, normal: Any, settings: StepSettings, gradient: Any) -> Any:
        """The method's own variables at a chain's start, a NamedTuple of arrays.

        Args:
            position: θ, shape (d,).
            normal: standard normals, shape (d,).
            settings: of the first step.
            gradient: θ -> ∇Û(θ) on a minibatch; costs nothing unless called.
        """

    @abstractmethod
    def _step(
        self,
        position: Any,
        variables: Any,
        gradient: Any,
        normals: tuple[Any, ...],
        settings: StepSettings,
    ) -> tuple[Any, Any]:
        """`(position, variables)` after one step.

        Args:
            position, variables: before.
            gradient: θ -> ∇Û(θ), shape (d,), full scale, on the step's minibatch; `gradient(
                position)` is free where the preconditioner needed it before. `gradient.potential`
                is Û.
            normals: `_normals` vectors of standard normals.
            settings: of this step.
        """

    def _rescale(self, variables: Any, ratio: Any) -> Any:
        """The variables when M has changed: momenta times `ratio` = √(M_new/M_old)."""
        momentum = getattr(variables, "momentum", None)
        return variables if momentum is None else variables._replace(momentum=ratio * momentum)

    def _finish(
        self,
        before: StochasticGradientState,
        after: StochasticGradientState,
        data: WholeData,
        key: Any,
    ) -> StochasticGradientState:
        """The state at the end of a draw's steps; a method with an accept step decides here."""
        return after

    def _start(self, key: Any, z: Any, density: Density) -> StochasticGradientState:
        self._check_warmup()
        position = ravel_pytree(z)[0]
        sizes = tuple(leaf.size for leaf in jax.tree.leaves(z))
        data, batches = self._data(density)
        few = self.batch_size // self.sub_batches
        check_rows_independent(data.density, data.x, data.y, few)
        key, batch_key, seed_key = jax.random.split(key, 3)
        bits = jax.random.bits(seed_key, (2, 2), jnp.uint32)
        minibatches = batches.start(bits[0])
        rows = batches.indices(minibatches, batch_key, 1)[1][0]
        preconditioner = self.preconditioner.start(position.shape[0], sizes)
        mass = jnp.asarray(self.preconditioner.mass(preconditioner), position.dtype)
        index = jnp.zeros((), jnp.int32)
        settings = self._settings(index, data.density.rows, mass, position.dtype)
        gradient = self._minibatch_gradient(data, rows, settings, step_key(batch_key, 0))
        normal = standard_normal(bits[1], position.shape[0], position.dtype)
        variables = self._begin(position, normal, settings, gradient)
        return StochasticGradientState(
            z=z,
            variables=variables,
            preconditioner=preconditioner,
            estimator=self.gradient.start(position, self._full_gradient(data, settings)),
            minibatches=minibatches,
            stopped=jnp.zeros((), bool),
            iteration=index,
            rng_key=key,
            statistics=draw_statistics(self.recorded, variables, settings, sizes, index),
        )

    def _draw(self, state: StochasticGradientState, density: Density) -> StochasticGradientState:
        data, batches = self._data(density)
        key, move_key, finish_key = jax.random.split(state.rng_key, 3)
        after = self._inner(state, data, batches, move_key)
        after = self._finish(state, after, data, finish_key)
        finite = [
            jnp.isfinite(leaf).all()
            for leaf in jax.tree.leaves((after.z, after.variables, after.preconditioner))
            if jnp.issubdtype(leaf.dtype, jnp.floating)
        ]
        stopped = state.stopped | ~jnp.stack(finite).all()
        kept = select(stopped, state, after)
        steps = jnp.where(state.stopped, 0, after.statistics["num_steps"])
        return kept._replace(
            stopped=stopped,
            iteration=after.iteration,
            rng_key=key,
            statistics={**kept.statistics, "stopped": stopped, "num_steps": steps},
        )

    def _inner(
        self, state: StochasticGradientState, data: WholeData, batches: Minibatches, key: Any
    ) -> StochasticGradientState:
        """The state after the steps of a draw, whether finite or not."""
        position, unravel = ravel_pytree(state.z)
        dimension, dtype = position.shape[0], position.dtype
        most, count, first = self._counts(state.iteration)
        batch_key, seed_key = jax.random.split(key)
        minibatches, rows = batches.indices(state.minibatches, batch_key, most, count)
        size = steps_at_once(most, dimension * self._normals)
        blocks = -(-most // size)
        seeds = jax.random.bits(seed_key, (blocks * size, 2), jnp.uint32)
        adapts = self.preconditioner.estimated and (
            self.preconditioner.always or state.iteration < self._num_warmup
        )
        warmup_steps = self._counts(int(self._num_warmup or 0))[2]

        def step(number: Any, normals: Any, carry: Any) -> Any:
            position, variables, preconditioner, estimator = carry
            index = first + number
            mass = jnp.asarray(self.preconditioner.mass(preconditioner), dtype)
            settings = self._settings(index, data.density.rows, mass, dtype)
            minibatch = self._minibatch_gradient(
                data, rows[number], settings, step_key(key, number)
            )
            estimator = self.gradient.refresh(
                estimator,
                position,
                self._full_gradient(data, settings),
                index=index,
                warmup_steps=warmup_steps,
            )
            gradient = StepGradient(minibatch, partial(self.gradient.estimate, estimator))
            if adapts is not False:
                preconditioner, variables, settings = self._adapt(
                    adapts, preconditioner, position, variables, gradient, normals[0], settings
                )
            position, variables = self._step(position, variables, gradient, normals, settings)
            return position, variables, preconditioner, estimator

        def block(start: Any, carry: Any) -> Any:
            """A few steps, whose noise is made in one go."""
            some = jax.lax.dynamic_slice_in_dim(seeds, start * size, size)
            normals = tuple(
                jax.vmap(lambda seed, k=k: standard_normal(seed, dimension, dtype, k))(some)
                for k in range(self._normals)
            )
            # Fused into the steps it would be made as slowly as they are, one number at a time.
            normals = jax.lax.optimization_barrier(normals)

            def one(number: Any, carry: Any) -> Any:
                return step(start * size + number, tuple(n[number] for n in normals), carry)

            whole = isinstance(count, int) and count % size == 0
            steps = size if whole else jnp.minimum(size, count - start * size)
            return jax.lax.fori_loop(0, steps, one, carry)

        position, variables, preconditioner, estimator = jax.lax.fori_loop(
            0,
            blocks if isinstance(count, int) else -(-count // size),
            block,
            (position, state.variables, state.preconditioner, state.estimator),
        )
        mass = jnp.asarray(self.preconditioner.mass(preconditioner), dtype)
        last = self._settings(first + count - 1, data.density.rows, mass, dtype)
        sizes = tuple(leaf.size for leaf in jax.tree.leaves(state.z))
        gradients = count * self._gradients_per_step * self.gradient.gradients_per_step
        gradients = jnp.asarray(gradients, jnp.int32)
        return state._replace(
            z=unravel(position),
            variables=variables,
            preconditioner=preconditioner,
            estimator=estimator,
            minibatches=minibatches,
            iteration=state.iteration + 1,
            statistics=draw_statistics(self.recorded, variables, last, sizes, gradients),
        )

    def _adapt(
        self,
        adapts: Any,
        preconditioner: Any,
        position: Any,
        variables: Any,
        gradient: StepGradient,
        normal: Any,
        settings: StepSettings,
    ) -> tuple[Any, Any, StepSettings]:
        """The preconditioner after this step's gradient, if it is still learning."""
        method, old = self.preconditioner, settings.mass
        curvature = None
        if method.corrected:
            signs = jnp.sign(normal)
            value, products = derivatives_along(gradient, position, signs[None])
            curvature = signs * products[0]
        else:
            value = getattr(variables, "gradient", None)
            value = gradient(position) if value is None else value
        gradient.known.append((position, value))
        updated = method.update(preconditioner, value, settings.index, curvature)
        preconditioner = select(adapts, updated, preconditioner)
        mass = jnp.asarray(method.mass(preconditioner), old.dtype)
        settings = settings._replace(
            mass=mass, drift=jnp.asarray(method.drift(preconditioner), old.dtype)
        )
        return preconditioner, self._rescale(variables, jnp.sqrt(mass / old)), settings

    def _minibatch_gradient(
        self, data: WholeData, rows: Any, settings: StepSettings, key: Any
    ) -> MinibatchGradient:
        """∇Û on the rows, shape (shards, B/shards), with any noise of the model by `key`."""
        parts = rows.reshape(rows.shape[0], self.sub_batches, -1)
        # Every row once, in the order of the data: nothing to gather.
        whole = self._given is None and parts.shape[1] == 1 and rows.size == data.x.shape[0]

        def fetch(number: Any) -> tuple[Any, Any]:
            if whole:
                return data.x, data.y
            part = parts[:, number]
            return take_rows(data.x, part), take_rows(data.y, part)

        temperature = self._weight_of_jacobians(settings)
        share = 1 / self.sub_batches
        return MinibatchGradient(data.density, fetch, self.sub_batches, share, temperature, key)

    def _full_gradient(self, data: WholeData, settings: StepSettings) -> Callable[[Any], Any]:
        at_once = max(_AT_ONCE, self.batch_size) if data_shards() == 1 else data.x.shape[0]
        temperature = self._weight_of_jacobians(settings)
        return full_gradient(data.density, data.x, data.y, at_once, temperature)
