"""The settings that all stochastic-gradient kernels share, checked and put into words."""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ClassVar, Literal, Self, cast

import jax.numpy as jnp
import numpy as np
from numpyro.infer import init_to_uniform

from bayesnn_ppl.core.arguments import integer, near_misses, series
from bayesnn_ppl.core.identity import describe
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.common.minibatch_density import MinibatchDensity
from bayesnn_ppl.inference.kernels.common.minibatches import Minibatches, data_shards
from bayesnn_ppl.inference.kernels.common.model_kernel import ModelKernel
from bayesnn_ppl.inference.kernels.stochastic_gradient.gradient_estimators import check_estimator
from bayesnn_ppl.inference.kernels.stochastic_gradient.preconditioner_base import Preconditioner
from bayesnn_ppl.inference.kernels.stochastic_gradient.preconditioners import (
    Identity,
    check_preconditioner,
)
from bayesnn_ppl.inference.kernels.stochastic_gradient.state import StepSettings, WholeData
from bayesnn_ppl.inference.schedules.base import Schedule, arrival
from bayesnn_ppl.inference.schedules.cyclical import check_delay
from bayesnn_ppl.inference.schedules.simple import check_schedule, evaluate, reference
from bayesnn_ppl.modeling.temperature import ColdModel

__all__ = ["StochasticGradientSettings"]


def _by_name[F: Callable[..., None]](init: F) -> F:
    """Decorate the base class's `__init__`: a wrong argument is told with the kernel's own name.

    Kernels hand on what they do not know, so Python would name the base class.
    """
    known = inspect.signature(init).parameters
    needed = {n for n, p in known.items() if p.kind is p.KEYWORD_ONLY and p.default is p.empty}

    @wraps(init)
    def call(self: Any, *args: Any, **given: Any) -> None:
        kernel = type(self)
        for name in given:
            if name not in known:
                raise TypeError(
                    f"{kernel.__name__} has no argument `{name}`. "
                    + near_misses(name, _arguments(kernel))
                )
        if missing := sorted(needed - set(given)):
            raise TypeError(f"{kernel.__name__} needs {series(f'`{name}`' for name in missing)}.")
        init(self, *args, **given)

    return cast(F, call)


def _arguments(kernel: type) -> list[str]:
    """What a kernel is made of, by name: its own arguments, and those that it hands on."""
    found: list[str] = []
    for base in kernel.__mro__:
        if "__init__" in vars(base):
            parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
            found += [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
            if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                break
    return list(dict.fromkeys(found))


class StochasticGradientSettings(ModelKernel):
    """The arguments of `StochasticGradientKernel`, which says what they are."""

    _normals: int = 1  # standard normal vectors of a step
    _gradients_per_step: int = 1
    _takes_drift: ClassVar[bool] = False  # whether a step adds Γ; methods without momenta can
    recorded: tuple[str, ...] = (
        "num_steps",
        "step_size",
        "temperature",
        "stopped",
        "kinetic_temperature",
    )

    @_by_name
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
        self.step_size = check_schedule(step_size, f"`step_size` of {name}")
        reference(self.step_size)  # refuses one that grows without end
        self.batch_size = integer(batch_size, f"`batch_size` of {name}", at_least=1)
        self.steps_per_draw = _steps(steps_per_draw, f"`steps_per_draw` of {name}")
        check_delay(self.step_size, self.steps_per_draw, name)
        self.temperature = check_schedule(temperature, f"`temperature` of {name}", zero=True)
        self.noise = check_schedule(noise, f"`noise` of {name}", zero=True)
        self.preconditioner = check_preconditioner(preconditioner, f"`preconditioner` of {name}")
        if self.preconditioner.corrected and not self._takes_drift:
            raise ValueError(
                f"{name} cannot take the drift Γ of {self.preconditioner}: SGLD does. Use the "
                "preconditioner frozen, which leaves the posterior as it is."
            )
        self.gradient = check_estimator(gradient, f"`gradient` of {name}")
        if self.gradient.full and callable(self.temperature):
            raise ValueError(
                f"`temperature` of {name} is a schedule, and {self.gradient} keeps the gradient "
                "at an anchor, in which the Jacobians of constrained sites have the weight of the "
                'temperature at that time. Give one number, or `gradient="minibatch"`.'
            )
        if minibatches not in ("random", "epoch"):
            raise ValueError(
                f'`minibatches` of {name} must be "random" or "epoch", not {minibatches!r}. '
                + near_misses(str(minibatches), ("random", "epoch"))
            )
        self.minibatches = minibatches
        self.sub_batches = integer(sub_batches, f"`sub_batches` of {name}", at_least=1)
        if self.batch_size % self.sub_batches:
            raise ValueError(
                f"`batch_size` of {name} is {self.batch_size}, which does not divide into "
                f"{self.sub_batches} sub-batches of equal size."
            )
        if isinstance(model, ColdModel) and self.temperature != 1:
            raise ValueError(
                f"The model is `cold` with T = {model.temperature} and {name} has a temperature "
                "of its own: two whole-posterior temperatures multiply without a trace. Give the "
                f"kernel the temperature: `{name}(model, temperature=...)`, without `cold`."
            )
        self._given: int | None = None  # N, where the caller gives each draw its rows

    @property
    def needs_all_rows(self) -> str | None:
        """Why a draw needs the exact density or gradient of all rows; None: it does not."""
        if self.accept_step:
            return "accepts or rejects by the log density of all rows"
        if self.gradient.full:
            return f"needs gradients of all rows for `gradient={self.gradient}`"
        return None

    def with_step_size(self, step_size: float) -> Self:
        """A copy that has never run, at a step size ε on the summed loss."""
        fresh: Self = self.wrap_model(lambda model: model)
        fresh.step_size = step_size
        return fresh

    @property
    def _reference_step_size(self) -> float | None:
        """ε at which a momentum decay is stated; None where it depends on the data."""
        return reference(self.step_size)

    @property
    def posterior_temperature(self) -> float:
        """T of the whole posterior; of a schedule, the one it arrives at."""
        return arrival(self.temperature)

    @property
    def recorded_settings(self) -> dict[str, Any]:
        """What of the settings is not a plain number, in words, for the provenance of a run."""
        values = {
            "step_size": self.step_size,
            "learning_rate": getattr(self, "learning_rate", None),
            "temperature": self.temperature,
            "noise": self.noise,
            "preconditioner": self.preconditioner,
            "gradient": self.gradient,
        }
        words = {
            name: describe(value)
            for name, value in values.items()
            if value is not None and not isinstance(value, int | float)
        }
        return words | {
            "reference_step_size": self._reference_step_size,
            "kinetic_law": self.kinetic_distribution,
        }

    def _check_warmup(self) -> None:
        """ValueError where the warm-up is too short for an estimate of M."""
        method, name = self.preconditioner, type(self).__name__
        steps = self._counts(int(self._num_warmup or 0))[2]
        if method.estimated and not method.always and steps < method.least_steps:
            raise ValueError(
                f"{method} of {name} is estimated in the warm-up, by step {method.least_steps} at "
                f"the earliest, and the warm-up has {steps} steps (`warmup` draws of "
                "`steps_per_draw`): it would change nothing. Give a longer warm-up"
                + (", or a smaller `every`," if method.least_steps > 2 else "")
                + " or leave `preconditioner` out."
            )

    def given_rows(self, rows: int, steps: int) -> Self:
        """A copy that is handed the rows of each draw in the order in which it takes them.

        Args:
            rows: N, of all the data.
            steps: steps of a draw. The copy's data have steps·B rows, and step i takes, of each
                data shard, the i-th part.

        Raises:
            ValueError: the kernel needs all rows at once, or draws differ in length.
        """
        if self.needs_all_rows is not None:
            raise ValueError(
                f"{type(self).__name__} {self.needs_all_rows}, but here rows come a few at a time. "
                "Use a kernel without an accept step, such as `Langevin`, with "
                '`gradient="minibatch"`.'
            )
        if isinstance(self.steps_per_draw, tuple):
            raise ValueError(
                "Draws of unequal length, `steps_per_draw` with several numbers, cannot be made "
                "from rows that come a few at a time."
            )
        fresh: Self = self.wrap_model(lambda model: model)
        fresh._given, fresh.steps_per_draw = rows, steps
        return fresh

    def _data(self, density: Density) -> tuple[WholeData, Minibatches]:
        """The data in the model's arguments, and how minibatches are taken of them."""
        name = type(self).__name__
        known = dict(zip(("x", "y"), density.args, strict=False)) | dict(density.kwargs)
        if set(known) != {"x", "y"} or known["y"] is None:
            raise ValueError(
                f"{name} runs models of the arguments `(x, y)`, both given, but this one is run "
                f"with {sorted(known)}. The size of the minibatches is an argument of the kernel."
            )
        x, y = jnp.asarray(known["x"]), jnp.asarray(known["y"])
        rows = x.shape[0] if self._given is None else self._given
        shards = data_shards()
        parts = shards * self.sub_batches
        if self.batch_size > rows or self.batch_size % parts:
            raise ValueError(
                f"`batch_size` of {name} is {self.batch_size}; it must be at most the {rows} rows "
                f"of the data, and a multiple of {parts}, the number of data shards ({shards}) "
                f"times `sub_batches` ({self.sub_batches})."
            )
        order = self.minibatches if self._given is None else "given"
        batches = Minibatches(rows, self.batch_size, shards, order)
        return WholeData(MinibatchDensity.of(density, rows), x, y), batches

    def _counts(self, iteration: Any) -> tuple[int, Any, Any]:
        """The most steps a draw can have, those of this one, and those before it."""
        steps = self.steps_per_draw
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
            evaluate(self.temperature, index).astype(dtype),
            evaluate(self.noise, index).astype(dtype),
            mass,
            jnp.zeros((), dtype),
            index,
        )

    def _step_size_at(self, index: Any, rows: int) -> Any:
        """ε of a step, for data of N = `rows` rows."""
        return evaluate(self.step_size, index)

    def _weight_of_jacobians(self, settings: StepSettings) -> Any:
        return settings.temperature if callable(self.temperature) else float(self.temperature)


def _steps(value: Any, what: str) -> int | tuple[int, ...]:
    if not isinstance(value, tuple | list):
        return integer(value, what, at_least=1)
    steps = tuple(integer(number, what, at_least=1) for number in value)
    if not steps:
        raise ValueError(f"{what} is empty: give the steps of at least one draw.")
    return steps[0] if len(set(steps)) == 1 else steps
