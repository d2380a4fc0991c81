"""The settings that all stochastic-gradient kernels share, checked and put into words."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Self

import jax.numpy as jnp
import numpy as np
from numpyro.infer import init_to_uniform

from bayesnn_ppl.core.arguments import near_misses, whole_number
from bayesnn_ppl.core.identity import describe
from bayesnn_ppl.inference.kernels.common.model_kernel import ModelKernel
from bayesnn_ppl.inference.kernels.stochastic_gradient.gradient_estimators import check_estimator
from bayesnn_ppl.inference.kernels.stochastic_gradient.preconditioner_base import Preconditioner
from bayesnn_ppl.inference.kernels.stochastic_gradient.preconditioners import (
    Identity,
    check_preconditioner,
)
from bayesnn_ppl.inference.kernels.stochastic_gradient.state import StepSettings
from bayesnn_ppl.inference.schedules.base import Schedule
from bayesnn_ppl.inference.schedules.simple import check_schedule, evaluate, reference
from bayesnn_ppl.modeling.temperature import ColdModel

__all__ = ["StochasticGradientSettings"]


class StochasticGradientSettings(ModelKernel):
    """The arguments of `StochasticGradientKernel`, which says what they are."""

    _normals: int = 1  # standard normal vectors of a step
    _gradients_per_step: int = 1
    _takes_drift: ClassVar[bool] = False  # whether a step adds Γ; methods without momenta can
    _kinetic_law: str = "none"  # by which the kinetic temperature is judged

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        step_size: float | Schedule,
        batch_size: int,
        steps_per_draw: int | Sequence[int] = 100,
        temperature: Any = 1.0,
        noise: Any = 1.0,
        preconditioner: Preconditioner = Identity(),  # noqa: B008 - a value
        gradient: Any = "minibatch",
        minibatches: Literal["random", "epoch"] = "random",
        sub_batches: int = 1,
        init_strategy: Any = init_to_uniform,
    ) -> None:
        super().__init__(model, init_strategy=init_strategy)
        name = type(self).__name__
        self._step_size = check_schedule(step_size, f"`step_size` of {name}")
        self._batch_size = whole_number(batch_size, f"`batch_size` of {name}", at_least=1)
        self._steps_per_draw = _steps(steps_per_draw, f"`steps_per_draw` of {name}")
        self._temperature = check_schedule(temperature, f"`temperature` of {name}", zero=True)
        self._noise = check_schedule(noise, f"`noise` of {name}", zero=True)
        self._preconditioner = check_preconditioner(preconditioner, f"`preconditioner` of {name}")
        if self._preconditioner.corrected and not self._takes_drift:
            raise ValueError(
                f"{name} cannot take the drift Γ of {self._preconditioner}: SGLD does. Use the "
                "preconditioner frozen, which leaves the posterior as it is."
            )
        self._gradient = check_estimator(gradient, f"`gradient` of {name}")
        if self._gradient.full and callable(self._temperature):
            raise ValueError(
                f"`temperature` of {name} is a schedule, and {self._gradient} keeps the gradient "
                "at an anchor, in which the Jacobians of constrained sites have the weight of the "
                'temperature at that time. Give one number, or `gradient="minibatch"`.'
            )
        if minibatches not in ("random", "epoch"):
            raise ValueError(
                f'`minibatches` of {name} must be "random" or "epoch", not {minibatches!r}. '
                + near_misses(str(minibatches), ("random", "epoch"))
            )
        self._minibatches = minibatches
        self._sub_batches = whole_number(sub_batches, f"`sub_batches` of {name}", at_least=1)
        if self._batch_size % self._sub_batches:
            raise ValueError(
                f"`batch_size` of {name} is {self._batch_size}, which does not divide into "
                f"{self._sub_batches} sub-batches of equal size."
            )
        if isinstance(model, ColdModel) and self._temperature != 1:
            raise ValueError(
                f"The model is `cold` with T = {model.temperature} and {name} has a temperature "
                "of its own: two whole-posterior temperatures multiply without a trace. Give the "
                f"kernel the temperature: `{name}(model, temperature=...)`, without `cold`."
            )
        self._given: int | None = None  # N, where the caller gives each draw its rows
        self._kinetic_law = type(self)._kinetic_law  # an instance's attributes are recorded

    @property
    def batch_size(self) -> int:
        """B."""
        return self._batch_size

    @property
    def steps_per_draw(self) -> int | tuple[int, ...]:
        """Steps of a draw, or of several draws in turn."""
        return self._steps_per_draw

    @property
    def minibatches(self) -> str:
        """How rows are taken where a minibatch is not all of them: `random` or `epoch`."""
        return self._minibatches

    @property
    def _reference_step_size(self) -> float | None:
        """ε at which a momentum decay is stated; None where it depends on the data."""
        return reference(self._step_size)

    @property
    def posterior_temperature(self) -> float:
        """T of the whole posterior; of a schedule, the one it arrives at."""
        return reference(self._temperature)

    @property
    def recorded_settings(self) -> dict[str, Any]:
        """What of the settings is no plain number, in words, for the provenance of a run."""
        values = {
            "step_size": self._step_size,
            "learning_rate": getattr(self, "_learning_rate", None),
            "temperature": self._temperature,
            "noise": self._noise,
            "preconditioner": self._preconditioner,
            "gradient": self._gradient,
        }
        words = {
            name: describe(value)
            for name, value in values.items()
            if value is not None and not isinstance(value, int | float)
        }
        return words | {"reference_step_size": self._reference_step_size}

    def given_rows(self, rows: int, steps: int) -> Self:
        """A copy that is handed the rows of each draw in the order in which it takes them.

        Args:
            rows: N, of all the data.
            steps: steps of a draw. The copy's data have steps·B rows, and step i takes, of each
                data shard, the i-th part.

        Raises:
            ValueError: the gradient needs all rows at once, or draws differ in length.
        """
        if self._gradient.full:
            raise ValueError(
                f"{type(self).__name__} needs gradients of all rows for "
                f"`gradient={self._gradient}`, but here rows come a few at a time. Use "
                '`gradient="minibatch"`.'
            )
        if isinstance(self._steps_per_draw, tuple):
            raise ValueError(
                "Draws of unequal length, `steps_per_draw` with several numbers, cannot be made "
                "from rows that come a few at a time."
            )
        fresh: Self = self.wrap_model(lambda model: model)
        fresh._given, fresh._steps_per_draw = rows, steps
        return fresh

    def _counts(self, iteration: Any) -> tuple[int, Any, Any]:
        """The most steps a draw can have, those of this one, and those before it."""
        steps = self._steps_per_draw
        if isinstance(steps, int):
            return steps, steps, iteration * steps
        before = np.concatenate([[0], np.cumsum(steps)]).astype(np.int32)
        turns, place = iteration // len(steps), iteration % len(steps)
        if isinstance(iteration, int):
            return max(steps), steps[place], int(turns * before[-1] + before[place])
        lengths = jnp.asarray(steps, jnp.int32)
        # `most` need not equal any of them: it is only how many minibatches are made.
        return max(steps), lengths[place], turns * before[-1] + jnp.asarray(before)[place]

    def _settings(self, index: Any, rows: int, mass: Any, dtype: Any) -> StepSettings:
        return StepSettings(
            self._step_size_at(index, rows).astype(dtype),
            evaluate(self._temperature, index).astype(dtype),
            evaluate(self._noise, index).astype(dtype),
            mass,
            jnp.zeros((), dtype),
            index,
        )

    def _step_size_at(self, index: Any, rows: int) -> Any:
        """ε of a step, for data of N = `rows` rows."""
        return evaluate(self._step_size, index)

    def _weight_of_jacobians(self, settings: StepSettings) -> Any:
        return settings.temperature if callable(self._temperature) else float(self._temperature)


def _steps(value: Any, what: str) -> int | tuple[int, ...]:
    if not isinstance(value, tuple | list):
        return whole_number(value, what, at_least=1)
    steps = tuple(whole_number(number, what, at_least=1) for number in value)
    if not steps:
        raise ValueError(f"{what} is empty: give the steps of at least one draw.")
    return steps[0] if len(set(steps)) == 1 else steps
