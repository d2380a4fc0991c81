"""A model whose dense and convolutional layers drop inputs, independently for each row."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.primitives import Messenger

from bayesnn_ppl.inference.approximations.trained_networks.shifted_density import MovedDistribution
from bayesnn_ppl.modeling.dropout_layers import layer_called
from bayesnn_ppl.modeling.temperature import Model

__all__ = ["RATE_SITES", "DropoutModel", "Layer", "find_layers", "mask"]

RATE_SITES = "dropout_rate/"  # prefix of the sites that concrete dropout learns
_RELAXATION = 0.1  # temperature of the concrete distribution, of Gal et al.
_FIRST_RATE = 0.1
_LEAST = 1e-6


class Layer(NamedTuple):
    """A dense or convolutional layer whose inputs are dropped.

    Attributes:
        name: path of the Flax module, such as `Dense_0`.
        site: of its kernel, whose axis -2 are the inputs.
        inputs: how many.
    """

    name: str
    site: str
    inputs: int


class _FlatRate(dist.Distribution):
    """The uniform distribution on (0, 1), which training starts at 0.1."""

    support = constraints.unit_interval

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        del key
        return jnp.full(sample_shape, _FIRST_RATE)

    def log_prob(self, value: Any) -> Any:
        return jnp.zeros(jnp.shape(value))


def mask(key: Any, rate: Any, shape: tuple[int, ...], *, relaxed: bool = False) -> Any:
    """z/(1 - p) with z = 0 for a share p and 1 for the others, so that its mean is 1.

    Args:
        key: a PRNG key.
        rate: p.
        shape: of the mask.
        relaxed: z = σ((log(1-p) - log p + logit u) / 0.1) with u uniform, between 0 and 1, which
            has a derivative by p.
    """
    if not relaxed:
        return jax.random.bernoulli(key, 1 - rate, shape) / (1 - rate)
    rate = jnp.clip(rate, _LEAST, 1 - _LEAST)
    u = jax.random.uniform(key, shape, jnp.result_type(rate), _LEAST, 1 - _LEAST)
    logit = jnp.log1p(-rate) - jnp.log(rate) + jnp.log(u) - jnp.log1p(-u)
    return jax.nn.sigmoid(logit / _RELAXATION) / (1 - rate)


@dataclass(frozen=True)
class DropoutModel:
    """`model` with dropout at the inputs of `layers`, whose density is dropout's objective.

    The likelihood of each row is that of weights M diag(z) with a mask z of its own, and the
    priors of the kernels are taken at M diag(z) with one mask more: both are unbiased for their
    means over q. With learned rates, the entropy of the masks is added. See `Dropout`.

    Attributes:
        model: the NumPyro model.
        layers: which drop inputs.
        rates: one for each layer; None to learn them, at the sites `dropout_rate/<layer>`.
    """

    model: Model
    layers: tuple[Layer, ...]
    rates: tuple[float, ...] | None

    def __call__(self, x: Any, y: Any = None, **options: Any) -> Any:
        from flax import linen

        key = numpyro.prng_key()
        keys = jax.random.split(key, (len(self.layers), 2))
        relaxed = self.rates is None
        rates = dict(zip((layer.name for layer in self.layers), self._rates(), strict=True))
        number = {layer.name: i for i, layer in enumerate(self.layers)}

        def drop(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
            name = layer_called(args, context)
            if name not in number:
                return call(*args, **kwargs)
            inputs = args[0]
            # One mask a row and layer, whatever the position: it stands for the row's own weights.
            between = (1,) * max(inputs.ndim - 2, 0)
            shape = (*inputs.shape[:1], *between, inputs.shape[-1])[-inputs.ndim :]
            z = mask(keys[number[name], 0], rates[name], shape, relaxed=relaxed)
            return call(inputs * z.astype(inputs.dtype), *args[1:], **kwargs)

        moves = {
            layer.site: partial(
                _times, mask(keys[i, 1], rates[layer.name], (layer.inputs, 1), relaxed=relaxed)
            )
            for i, layer in enumerate(self.layers)
        }
        with _Moves(moves), linen.intercept_methods(drop):
            return self.model(x, y, **options)

    def _rates(self) -> list[Any]:
        if self.rates is not None:
            return list(self.rates)
        rates, entropy = [], jnp.zeros(())
        for layer in self.layers:
            rate = numpyro.sample(RATE_SITES + layer.name, _FlatRate())
            p = jnp.clip(rate, _LEAST, 1 - _LEAST)
            entropy -= layer.inputs * (p * jnp.log(p) + (1 - p) * jnp.log1p(-p))
            rates.append(rate)
        numpyro.factor("dropout_entropy", entropy)
        return rates


def _times(factor: Any, value: Any) -> Any:
    return value * factor.astype(value.dtype)


class _Moves(Messenger):
    """Takes the densities of some sites at other values."""

    def __init__(self, moves: Mapping[str, Any]) -> None:
        self.moves = moves
        super().__init__(None)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "sample" and msg["name"] in self.moves:
            msg["fn"] = MovedDistribution(msg["fn"], self.moves[msg["name"]])


def find_layers(model: Model, shapes: Mapping[str, tuple[int, ...]], x: Any, y: Any) -> list[Layer]:
    """The dense and convolutional layers of a model's Linen networks, in the order of calls.

    Args:
        model: the NumPyro model.
        shapes: of its latent sites.
        x, y: the data.

    Raises:
        ValueError: there is none; or one whose kernel is not a site of its own, is shared by two
            networks, has groups, or has a prior that is not over all numbers.
    """
    from flax import linen

    called: dict[str, int] = {}
    supports: dict[str, Any] = {}

    def note(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        name = layer_called(args, context)
        if name is not None:
            called.setdefault(name, args[0].shape[-1])
        return call(*args, **kwargs)

    def run(x: Any, y: Any) -> None:
        with linen.intercept_methods(note):
            trace = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(x, y)
        supports.update({name: trace[name]["fn"].support for name in shapes})

    jax.eval_shape(run, x, y)
    if not called:
        raise ValueError(
            "There is no layer to work on: the model calls no `linen.Dense`, "
            "`linen.Conv` or `nn.Conv` of a Flax Linen network."
        )
    layers = []
    for name, inputs in called.items():
        own = f"{name}.kernel" if name else "kernel"
        sites = [site for site in shapes if site.rpartition("/")[2] == own]
        if len(sites) != 1:
            what = "is not a latent site of its own" if not sites else f"may be any of {sites}"
            raise ValueError(
                f"The kernel of each layer must be known by its site, but that of `{name}` {what}. "
                "Give each kernel a prior of its own, and networks different layers."
            )
        if shapes[sites[0]][-2] != inputs:
            raise ValueError(
                f"The layer `{name}` has groups: its kernel takes {shapes[sites[0]][-2]} of "
                f"{inputs} channels. It cannot be taken; use one without groups."
            )
        support = supports[sites[0]]
        if getattr(support, "base_constraint", support) is not constraints.real:
            raise ValueError(
                f"The prior of `{sites[0]}` is over {support}, and weights that are masked or "
                "scaled need one over all numbers."
            )
        layers.append(Layer(name, sites[0], inputs))
    return layers
