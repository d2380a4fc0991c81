"""A family of q that is a guide of NumPyro: a second model, over the same latent sites."""

import copy
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to
from numpyro.infer import autoguide

from bayesnn_ppl.core.arguments import natural
from bayesnn_ppl.core.identity import StaticValue, identity_key
from bayesnn_ppl.inference.approximations.variational.bounds import variational_bound
from bayesnn_ppl.inference.approximations.variational.guides.choices import (
    build_guide,
    place_guide,
)
from bayesnn_ppl.inference.approximations.variational.target import (
    Target,
    on_rows,
    over_blocks,
    site_log_density,
)

__all__ = ["Guided", "GuideValues", "make_guide"]

_CHUNK = 16
_KEPT_GUIDES = 8
_guides: OrderedDict[Hashable, autoguide.AutoGuide] = OrderedDict()


class GuideValues(NamedTuple):
    """What is fitted, unconstrained: parameters of the guide, and of the model itself."""

    q: Mapping[str, Any]
    psi: Mapping[str, Any]


def make_guide(
    guide: Any,
    target: Target,
    z: Mapping[str, Any],
    x: Any,
    y: Any,
    sigma_init: float | None,
    rank: int | None,
) -> autoguide.AutoGuide:
    """The guide that was asked for, run once, its locations at z.

    One that was made before for the same model and shapes is taken again, so that what was
    compiled with it serves again too. A guide of the caller's own keeps its own start.

    Raises:
        ValueError: a guide of the caller's own that has other sites than the model's.
    """
    if isinstance(guide, autoguide.AutoGuide):
        _check_sites(guide, _run_once(guide, x, y), target)
        return guide
    key = (
        identity_key((guide, target.model, sigma_init, rank)),
        target.sites,
        x.shape,
        y.shape,
        str(jnp.result_type(float)),
    )
    if key not in _guides:
        made = build_guide(guide, target.model, dict(target.sites), sigma_init, rank)
        # On shapes alone, and without NumPyro's checks: compiling the pieces of its first run one
        # by one takes seconds, and the values it would keep are replaced below.
        with numpyro.validation_enabled(False):
            jax.eval_shape(partial(_run_once, made), x, y)
        _guides[key] = made
        if len(_guides) > _KEPT_GUIDES:
            _guides.popitem(last=False)
    _guides.move_to_end(key)
    place_guide(_guides[key], z)
    return _guides[key]


def _run_once(guide: autoguide.AutoGuide, x: Any, y: Any) -> dict[str, Any]:
    """Let the guide look at the model; the values of the sites that it samples."""
    with handlers.block(), handlers.seed(rng_seed=jax.random.key(0)):
        trace = handlers.trace(guide).get_trace(x, y)
    return {
        name: site["value"]
        for name, site in trace.items()
        if site["type"] == "sample" and not site["infer"].get("is_auxiliary")
    }


def _check_sites(guide: autoguide.AutoGuide, sampled: Mapping[str, Any], target: Target) -> None:
    """ValueError unless a guide samples the latent sites of the model, and no others.

    A site that it leaves out would be drawn from the prior, and nothing would say so.
    """
    sites, name = dict(target.sites), type(guide).__name__
    advice = f"Build the guide from the whole model that you fit: `{name}(model)`."
    if missing := natural(set(sites) - set(sampled)):
        raise ValueError(
            f"The guide {name} does not sample the latent sites {missing} of the model: they would "
            f"be draws of the prior, whatever the data say. {advice}"
        )
    if more := natural(set(sampled) - set(sites)):
        raise ValueError(
            f"The guide {name} samples {more}, which the model does not have. {advice}"
        )
    for site, shape in sites.items():
        support = guide.prototype_trace[site]["fn"].support  # flows sample points, of any support
        found = jnp.shape(biject_to(support).inv(sampled[site]))
        if found != shape:
            raise ValueError(
                f"The guide {name} samples `{site}` with the unconstrained shape {found}, and in "
                f"the model it has {shape}. {advice}"
            )


@dataclass(frozen=True)
class Guided:
    """q as a guide says it.

    Attributes:
        target: log p̃.
        guide: has been run once.
        rows: N.
        batch_size: B, or None for all rows.
        particles: K, draws of q for a step.
        renyi_alpha: α of Rényi's bound, or None for the ELBO.
        placed: whether its locations are ours to set.
        parameters: names of the guide's parameters and their constraints.
    """

    target: Target
    guide: autoguide.AutoGuide
    rows: int
    batch_size: int | None
    particles: int
    renyi_alpha: float | None
    placed: bool
    parameters: tuple[tuple[str, Any], ...] = ()

    @property
    def chunk(self) -> int:
        """For how many steps keys are made at a time."""
        return _CHUNK

    def constraints(self, x: Any, y: Any) -> tuple[tuple[str, Any], ...]:
        """The guide's parameters and their constraints; by shapes alone."""
        found: dict[str, Any] = {}

        def run(x: Any, y: Any) -> None:
            for name, site in self._parameters(x, y).items():
                found[name] = site["kwargs"].get("constraint", constraints.real)

        jax.eval_shape(run, x, y)
        return tuple(found.items())

    def begin(self, z: Mapping[str, Any], psi: Mapping[str, Any], x: Any, y: Any) -> GuideValues:
        """Where the guide begins: around z, or where a guide of the caller's own says."""
        first = _first_values(StaticValue(self), z if self.placed else None, x, y)
        if self.placed:  # tracing has left its own values there
            place_guide(self.guide, z)
        return GuideValues(first, dict(psi))

    def _parameters(self, x: Any, y: Any) -> dict[str, Any]:
        with numpyro.validation_enabled(False), handlers.seed(rng_seed=jax.random.key(1)):
            trace = handlers.trace(self._given(x, y)).get_trace(x, y)
        return {name: site for name, site in trace.items() if site["type"] == "param"}

    def noise(self, key: Any) -> Any:
        """Keys of `chunk` steps."""
        return jax.random.split(key, self.chunk)

    def loss(self, values: GuideValues, noise: Any, x: Any, y: Any, index: Any) -> Any:
        """Minus the bound, per observation; unbiased on a minibatch for the ELBO."""
        guide = self._given(x, y)

        def one(key: Any) -> Any:
            return self._weight(guide, values, key, x, y, index)[1]

        if self.particles == 1:
            weights = one(noise)[None]
        else:
            weights = jax.vmap(one)(jax.random.split(noise, self.particles))
        return -variational_bound(weights, self.renyi_alpha) / self.rows

    def _given(self, x: Any, y: Any) -> autoguide.AutoGuide:
        """A copy of the guide; where it follows the density, that of the data at hand."""
        guide = copy.copy(self.guide)
        if isinstance(guide, autoguide.AutoDAIS):
            guide._potential_fn = guide._potential_fn_gen(x, y)
        return guide

    def _guide_parameters(self, q: Mapping[str, Any]) -> dict[str, Any]:
        known = dict(self.parameters)
        return {name: jax.tree.map(biject_to(known[name]), value) for name, value in q.items()}

    def _weight(
        self, guide: Any, values: GuideValues, key: Any, x: Any, y: Any, index: Any
    ) -> tuple[dict[str, Any], Any]:
        """A draw of q, site -> unconstrained value, and its log p̃ - log q."""
        model_key, guide_key = jax.random.split(key)
        seeded = handlers.seed(guide, guide_key)
        seeded = handlers.substitute(seeded, data=self._guide_parameters(values.q))
        with numpyro.validation_enabled(False):  # of parameters that are valid by their constraints
            drawn = handlers.trace(seeded).get_trace(x, y)
        model, options = on_rows(self.target.model, index)
        model = handlers.substitute(model, data=self.target.learned_values(values.psi))
        replayed = handlers.replay(handlers.seed(model, model_key), drawn)
        seen = handlers.trace(replayed).get_trace(x, y, **options)
        log_weight = _total(seen) - _total(drawn)
        z = {
            name: biject_to(seen[name]["fn"].support).inv(seen[name]["value"])
            for name, _ in self.target.sites
        }
        return z, log_weight

    def importance(self, values: GuideValues, key: Any, x: Any, y: Any) -> tuple[Any, Any]:
        """A draw of q, site -> unconstrained value, and its log p̃ - log q on all rows."""
        guide = self._given(x, y)
        # The draw alone: the compiler drops what is not asked for.
        z, _ = self._weight(guide, values, key, x, y, self._one_row())
        weight = over_blocks(
            lambda index: self._weight(guide, values, key, x, y, index)[1],
            self.rows,
            self.batch_size,
        )
        return z, weight

    def _one_row(self) -> Any:
        return None if self.batch_size is None else jnp.arange(1)

    @property
    def is_laplace(self) -> bool:
        """Whether the guide is a point until its curvature is taken."""
        return isinstance(self.guide, autoguide.AutoLaplaceApproximation)


@partial(jax.jit, static_argnames="static")
def _first_values(static: StaticValue, z: Any, x: Any, y: Any) -> dict[str, Any]:
    """Parameter of a guide -> its first value, unconstrained; around z unless that is None."""
    family: Guided = static.value
    if z is not None:
        place_guide(family.guide, z)
    known = dict(family.parameters)

    def unconstrained(name: str, leaf: Any) -> Any:
        return biject_to(known[name]).inv(_decimal(leaf))

    # The flows of NumPyro keep their networks' weights as trees.
    return {
        name: jax.tree.map(partial(unconstrained, name), site["value"])
        for name, site in family._parameters(x, y).items()
    }


def _decimal(leaf: Any) -> Any:
    return jnp.asarray(leaf, jnp.result_type(float))


def _total(trace: Mapping[str, Any]) -> Any:
    return sum(
        (site_log_density(site) for site in trace.values() if site["type"] == "sample"),
        start=jnp.zeros(()),
    )
