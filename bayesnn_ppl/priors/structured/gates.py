"""A prior for each gate of a long short-term memory."""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.priors.common.scaling import inputs_of

_GATES = ("input", "cell", "forget", "output")


class GateBlocks(dist.Distribution):
    """A vector (4 · features,) whose quarters have distributions of their own, divided by a number.

    Args:
        gates: four scalar distributions on the real line.
        features: length of a quarter.
        divisor: d > 0; the vector is a draw of the gates over d.
    """

    arg_constraints: dict[str, Any] = {}
    support = constraints.real_vector
    pytree_data_fields = ("gates",)
    pytree_aux_fields = ("features", "divisor")

    def __init__(
        self,
        gates: tuple[dist.Distribution, ...],
        features: int,
        divisor: float = 1.0,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.gates, self.features, self.divisor = gates, features, divisor
        super().__init__((), (len(gates) * features,), validate_args=validate_args)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draws of shape `sample_shape + (4 · features,)`."""
        keys = jax.random.split(key, len(self.gates))
        shape = (*sample_shape, self.features)
        quarters = [gate.sample(k, shape) for gate, k in zip(self.gates, keys, strict=True)]
        return jnp.concatenate(quarters, axis=-1) / self.divisor

    @validate_sample
    def log_prob(self, value: Any) -> Any:
        """Σ over the gates of log p(d · quarter) + features · log d."""
        quarters = jnp.split(value * self.divisor, len(self.gates), axis=-1)
        total = self.event_shape[0] * math.log(self.divisor)
        for gate, quarter in zip(self.gates, quarters, strict=True):
            total = total + jnp.sum(gate.log_prob(quarter), axis=-1)
        return total

    @property
    def mean(self) -> Any:
        """That of each gate."""
        return self._repeated([gate.mean for gate in self.gates]) / self.divisor

    @property
    def variance(self) -> Any:
        """That of each gate."""
        return self._repeated([gate.variance for gate in self.gates]) / self.divisor**2

    def _repeated(self, numbers: list[Any]) -> Any:
        return jnp.repeat(jnp.stack([jnp.asarray(n) for n in numbers]), self.features)


@dataclass(frozen=True)
class _Gates:
    gates: tuple[dist.Distribution, ...]
    fan_in: bool

    def __call__(self, name: str, shape: tuple[int, ...]) -> dist.Distribution:
        if shape[-1] % len(_GATES):
            raise ValueError(
                f"`{name}` of shape {shape} is not a parameter of an `nn.LSTM`: its last axis must "
                "be 4 · features, one block for each of the gates input, cell, forget and output."
            )
        divisor = math.sqrt(inputs_of(name, shape)) if self.fan_in and len(shape) > 1 else 1.0
        return GateBlocks(self.gates, shape[-1] // len(_GATES), divisor)


@strict_switches
def lstm_gates(
    *,
    input: dist.Distribution | None = None,
    cell: dist.Distribution | None = None,
    forget: dist.Distribution | None = None,
    output: dist.Distribution | None = None,
    fan_in: bool = False,
) -> _Gates:
    """The kernel or bias of an `nn.LSTM`: each gate's weights have a prior of their own.

    The last axis of both is [input, cell, forget, output], a block of `features` each. A bias of
    the forget gate around 1, say, remembers by default; mind that `nn.LSTM` adds its constant
    `forget_bias`, 1 unless set otherwise, to that gate already.

    Args:
        input, cell, forget, output: priors of one weight on the real line; None for Normal(0, 1).
        fan_in: divide the weights of a kernel by √fan-in, fan-in = in + features.

    Raises:
        TypeError: a prior that is not a distribution.
        ValueError: a prior that is not one of a single real number, or (when the model runs) a
            parameter whose last axis is not four gates.

    Example:
        >>> import numpyro.distributions as dist
        >>> from bayesnn_ppl import priors
        >>> prior = {
        ...     "LSTM_0.bias": priors.lstm_gates(forget=dist.Normal(1.0, 0.5)),
        ...     "LSTM_0.kernel": priors.lstm_gates(fan_in=True),
        ...     "*": priors.fan_in_normal()}

    References:
        Gers et al. (2000), Learning to forget; Jozefowicz et al. (2015).
    """
    gates = []
    for gate, prior in zip(_GATES, (input, cell, forget, output), strict=True):
        prior = dist.Normal(0.0, 1.0) if prior is None else prior
        if not isinstance(prior, dist.Distribution):
            raise TypeError(f"The prior of the {gate} gate must be a distribution, not {prior!r}.")
        if prior.batch_shape or prior.event_shape or prior.support is not constraints.real:
            raise ValueError(
                f"The prior of the {gate} gate must be one of a single real number, such as "
                f"Normal(0, 1), not {type(prior).__name__} with shape {prior.shape()} and support "
                f"{prior.support}."
            )
        gates.append(prior)
    return _Gates(tuple(gates), fan_in)
