"""What q approximates: the density of a model given its data, in unconstrained coordinates."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to
from numpyro.infer.util import _unconstrain_reparam

from bayesnn_ppl.modeling.temperature import Model

__all__ = ["Target", "learned_sites", "on_rows", "over_blocks", "site_log_density"]

_ROWS = 1024  # of a block of the data, at least, where minibatches are trained on

type Trace = dict[str, Any]


@dataclass(frozen=True)
class Target:
    r"""log p̃(z), the log density of a model with the Jacobian of z -> θ.

        log p̃(z) = Σ_sites scale · log p(site | θ(z)) + log |dθ/dz|

    `scale` holds N/B of a minibatch and the 1/T of a temperature; the Jacobian has neither.

    Attributes:
        model: the NumPyro model.
        sites: its latent sites and the shapes of their unconstrained values, in its order.
        learned: `numpyro.param` sites ψ of the model that are fitted together with q, and their
            constraints.
    """

    model: Model
    sites: tuple[tuple[str, tuple[int, ...]], ...]
    learned: tuple[tuple[str, Any], ...] = ()

    @property
    def dimension(self) -> int:
        """d, the number of coordinates."""
        return sum(math.prod(shape) for _, shape in self.sites)

    def flatten(self, z: Mapping[str, Any]) -> Any:
        """Site -> value, as one vector (d,)."""
        return jnp.concatenate([jnp.ravel(z[name]) for name, _ in self.sites])

    def unflatten(self, vector: Any) -> dict[str, Any]:
        """A vector (d,) as site -> value."""
        values = _split(tuple(shape for _, shape in self.sites), vector)
        return {name: value for (name, _), value in zip(self.sites, values, strict=True)}

    def learned_values(self, psi: Mapping[str, Any]) -> dict[str, Any]:
        """ψ in the model's own space, of unconstrained values."""
        return {name: biject_to(constraint)(psi[name]) for name, constraint in self.learned}

    def trace(
        self, z: Mapping[str, Any], psi: Mapping[str, Any], key: Any, x: Any, y: Any, index: Any
    ) -> Trace:
        """The model at z, on all rows (`index` None) or those of `index`, Jacobians included."""
        model, options = on_rows(self.model, index)
        if self.learned:
            model = handlers.substitute(model, data=self.learned_values(psi))
        model = handlers.substitute(model, substitute_fn=partial(_unconstrain_reparam, z))
        return handlers.trace(handlers.seed(model, key)).get_trace(x, y, **options)

    def log_density(
        self, z: Mapping[str, Any], psi: Mapping[str, Any], key: Any, x: Any, y: Any, index: Any
    ) -> Any:
        """log p̃(z), a scalar; on a minibatch an unbiased estimate of it."""
        return sum(
            (
                site_log_density(site)
                for site in self.trace(z, psi, key, x, y, index).values()
                if site["type"] == "sample"
            ),
            start=jnp.zeros(()),
        )


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _split(shapes: tuple[tuple[int, ...], ...], vector: Any) -> tuple[Any, ...]:
    """Arrays of these shapes from one vector; its gradient is one concatenation.

    JAX's own would pad the gradient of each part to the whole vector and add them all up.
    """
    parts, begin = [], 0
    for shape in shapes:
        size = math.prod(shape)
        parts.append(jax.lax.slice(vector, (begin,), (begin + size,)).reshape(shape))
        begin += size
    return tuple(parts)


def _split_forward(shapes: Any, vector: Any) -> tuple[Any, None]:
    return _split(shapes, vector), None


def _split_backward(shapes: Any, saved: None, gradients: Any) -> tuple[Any]:
    return (jnp.concatenate([jnp.ravel(gradient) for gradient in gradients]),)


_split.defvjp(_split_forward, _split_backward)


def on_rows(model: Model, index: Any) -> tuple[Model, dict[str, int]]:
    """The model with the rows of `index` in its plate "data", and what it is called with."""
    if index is None:
        return model, {}
    return handlers.substitute(model, data={"data": index}), {"batch_size": index.shape[0]}


def site_log_density(site: Mapping[str, Any]) -> Any:
    """A site's log density as it counts, summed."""
    if site["intermediates"]:
        log_p = site["fn"].log_prob(site["value"], site["intermediates"])
    else:
        log_p = site["fn"].log_prob(site["value"])
    return jnp.sum(log_p if site["scale"] is None else site["scale"] * log_p)


def over_blocks(function: Any, rows: int, batch_size: int | None) -> Any:
    """The value on all rows of a `function(index)` that is unbiased on a minibatch.

    Where minibatches were asked for, the rows come in blocks of no more than memory was meant to
    hold: Σ b/N · f(block) is what f says of all rows, since log p̃ is linear in the rows' sum.
    """
    block = rows if batch_size is None else max(batch_size, _ROWS)
    if block >= rows:
        return function(None)
    number, rest = divmod(rows, block)

    def part(begin: Any) -> Any:
        return block / rows * function(begin + jnp.arange(block))

    total = jnp.sum(jax.lax.map(part, block * jnp.arange(number)))
    if rest:
        total += rest / rows * function(jnp.arange(rows - rest, rows))
    return total


def learned_sites(model: Model, x: Any, y: Any) -> dict[str, tuple[Any, Any]]:
    """`numpyro.param` sites of a model -> (first value, constraint); networks' own left out."""
    found: dict[str, tuple[Any, Any]] = {}

    def run(x: Any, y: Any) -> None:
        trace = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(x, y)
        for name, site in trace.items():
            if site["type"] == "param" and not name.endswith("$params"):
                found[name] = (site["value"], site["kwargs"].get("constraint", constraints.real))

    jax.eval_shape(run, x, y)  # a first real run compiles piece by piece, and few need it
    if found:
        run(x, y)
    return found
