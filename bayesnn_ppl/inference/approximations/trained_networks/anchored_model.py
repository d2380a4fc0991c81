"""A model in which each member has a prior centred elsewhere, and noise of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.primitives import Messenger

from bayesnn_ppl.inference.approximations.trained_networks.shifted_density import MovedDistribution
from bayesnn_ppl.modeling.temperature import Model
from bayesnn_ppl.modeling.training_noise import clean

__all__ = ["AnchoredModel", "with_anchors"]


@dataclass(frozen=True)
class AnchoredModel:
    """`model` with standard normals ξ of each member's own, which move normal distributions.

    log N(v; μ, s²) becomes log N(v; μ + √T s ξ, s²) at the sites named, where T is the temperature
    that the model gives the site: with a scale that is learned, the anchor moves along.

    Attributes:
        model: the NumPyro model, which is what a call runs: `with_own` chooses a member.
        sites: name -> shape of ξ; of "y", the rows that are trained on.
    """

    model: Model
    sites: tuple[tuple[str, tuple[int, ...]], ...]

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.model(*args, **options)

    def draw_own(self, key: Any, x: Any, y: Any) -> dict[str, Any]:
        """ξ of a member."""
        del x, y
        keys = jax.random.split(key, len(self.sites))
        return {
            name: jax.random.normal(key, shape, jnp.result_type(float))
            for key, (name, shape) in zip(keys, self.sites, strict=True)
        }

    def with_own(self, own: Mapping[str, Any]) -> Callable[..., Any]:
        """The model of a member."""

        def anchored(*args: Any, **options: Any) -> Any:
            with _Anchors(own):
                return self.model(*args, **options)

        return anchored


class _Anchors(Messenger):
    """Moves normal distributions by ξ of their standard deviations."""

    def __init__(self, own: Mapping[str, Any]) -> None:
        self.own, self._rows = own, None
        super().__init__(None)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample" or msg["name"] not in self.own:
            return
        xi, normal = self.own[msg["name"]], msg["fn"]
        if msg["is_observed"] and self._rows is not None:
            xi = xi[self._rows]
        temperature = msg["infer"].get("likelihood_temperature", 1.0)
        temperature *= msg["infer"].get("posterior_temperature", 1.0)
        step = temperature**0.5 * _normal_scale(normal) * xi
        msg["fn"] = MovedDistribution(normal, lambda value: value - step)

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "plate" and msg["name"] == "data":
            self._rows = msg["value"]


def _normal_scale(fn: Any) -> Any:
    """The standard deviations of independent normals, or None of others."""
    shape = fn.shape()
    while isinstance(fn, dist.Independent | dist.ExpandedDistribution):
        fn = fn.base_dist
    return jnp.broadcast_to(fn.scale, shape) if type(fn) is dist.Normal else None


def with_anchors(
    model: Model, parameters: frozenset[str], x: Any, y: Any, *, targets: bool
) -> AnchoredModel:
    """The model whose network parameters are anchored.

    Args:
        model: the NumPyro model.
        parameters: the latent sites that are network parameters.
        x, y: the data.
        targets: whether the targets are moved, too.

    Raises:
        ValueError: there are no network parameters, or a prior (or the noise) is not normal.
    """
    if not parameters:
        raise ValueError(
            "An anchored ensemble centres the priors of network parameters elsewhere, and the "
            "model marks no site as one: declare the network with `random_network` or "
            "`random_flax_module`."
        )
    wanted = [*sorted(parameters), *(["y"] if targets else [])]
    shapes: dict[str, tuple[int, ...]] = {}
    other: dict[str, str] = {}

    def run(x: Any, y: Any) -> None:
        trace = handlers.trace(handlers.seed(clean(model), jax.random.key(0))).get_trace(x, y)
        for name in wanted:
            fn = trace[name]["fn"]
            shapes[name] = tuple(fn.shape())
            if _normal_scale(fn) is None:
                other[name] = type(fn).__name__

    jax.eval_shape(run, x, y)
    for name, kind in other.items():
        what = "The noise" if name == "y" else f"The prior of `{name}`"
        do = "leave out `randomised_targets`" if name == "y" else "leave out `anchored`"
        raise ValueError(
            f"{what} is not normal ({kind}), and an anchor is a draw of a normal distribution that "
            f"another of the same width is centred at. Use a normal one, or {do}."
        )
    return AnchoredModel(model, tuple(shapes.items()))
