"""A network of Flax or Equinox whose parameters have a prior that is known to fit them."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import numpyro
from numpyro.distributions import Unit
from numpyro.primitives import _PYRO_STACK, Messenger

from bayesnn_ppl.core.arguments import natural
from bayesnn_ppl.priors.common.base import NetworkPrior, Prior
from bayesnn_ppl.priors.common.fitting import checked_prior
from bayesnn_ppl.priors.common.tables import assembled

__all__ = ["declared_parameters", "explained", "in_short", "network_advice", "random_network"]


def random_network(
    name: str, network: Any, prior: Prior, x: Any, **apply_options: Any
) -> Callable[..., Any]:
    """Sample all parameters of a network from their prior, and return the network.

    The same as `random_flax_module(name, network, prior, x)` or, for an NNX module,
    `random_nnx_module(name, network, prior)`, but with the prior checked: a parameter without a
    prior, a prior without a parameter and an event shape that does not fit are errors that
    name the parameter, where NumPyro would leave it a constant. An Equinox module is given all
    rows, and calls of itself `jax.vmap`; its weights are sampled in Flax's layout, see `network`.

    Args:
        name: prefix of the sites: parameter `Dense_0.kernel` is the site `name/Dense_0.kernel`.
        network: a Flax Linen module; an instance of a Flax NNX or Equinox module; or a function
            that builds one, `lambda rngs: Net(8, rngs=rngs)` or `lambda key: Net(8, key=key)`, so
            that its initial weights can be drawn again for each chain (`init="network"`). On a
            CPU an NNX module's `nnx.Conv` layers are computed by `nn.conv_general_dilated`. In
            Equinox a weight is (out, in, *window); it is sampled as `kernel` (*window, in, out).
        prior: a Distribution; a function `(name, shape) -> Distribution`; a table
            `{pattern: prior}` (see `priors.by_name`); or a `priors.NetworkPrior`.
        x: an input with leading axis ≥ 1, to find the parameters' shapes by.
        **apply_options: passed to a Linen module's `init` and `apply`.

    Warns:
        UserWarning: values are substituted under the names of `posterior.draws`, which are not
            those of sites, so that NumPyro draws the weights from the prior.

    Raises:
        TypeError: `network` is neither such a module nor builds one, or `prior` is not one of the
            forms above.
        ValueError: prior and parameters do not match; the network keeps state other than
            parameters (batch statistics), which MCMC would leave frozen; its dropout is live; it
            is an Equinox module built inside the model; or it fails at inputs like `x`, also later.
    """
    from flax import linen, nnx
    from flax.traverse_util import unflatten_dict
    from numpyro.contrib.module import random_flax_module, random_nnx_module

    from bayesnn_ppl.nn.equinox_modules import as_flax
    from bayesnn_ppl.nn.nnx_modules import builds_module, reads_random_keys, with_fast_layers

    _warn_of_dotted_names(name)
    prior, network = assembled(prior), as_flax(network)
    if isinstance(network, linen.Module):
        shapes = _linen_shapes(network, x, apply_options)
        if isinstance(prior, NetworkPrior):
            values = _sample_network_prior(name, prior, shapes, x)
            params = unflatten_dict(values, sep=".")
            return _narrowly(network, partial(network.apply, {"params": params}))
        prior = checked_prior(prior, shapes)
        return _narrowly(network, random_flax_module(name, network, prior, x, **apply_options))
    if builds_module(network):
        key = numpyro.prng_key()
        network = network(rngs=nnx.Rngs(jax.random.key(0) if key is None else key))
    if isinstance(network, nnx.Module):
        shapes = _nnx_shapes(network)
        with explained(network, x):
            noisy = reads_random_keys(network, x)
        if noisy:
            raise ValueError(
                f"The network {type(network).__name__} draws random numbers when it is called, by "
                "keys that would be the same ones for ever, and a log density is one number at "
                "each position. Switch its dropout off before: `network.eval()`, or "
                "`nnx.Dropout(..., deterministic=True)`."
            )
        network = with_fast_layers(network)
        if isinstance(prior, NetworkPrior):
            values = _sample_network_prior(name, prior, shapes, x)
            definition, state = nnx.split(network)
            paths = {_nnx_path(dotted): value for dotted, value in values.items()}
            nnx.replace_by_pure_dict(state, unflatten_dict(paths))
            return _explaining(network, nnx.merge(definition, state, copy=True))
        # The state of keys that nothing depends on is not for NumPyro to carry from draw to draw.
        with numpyro.handlers.block(hide_fn=lambda site: site["type"] == "mutable"):
            net = random_nnx_module(name, network, checked_prior(prior, shapes))
        return _explaining(network, net)
    raise TypeError(
        f"The network must be a module of Flax (Linen or NNX) or Equinox, not "
        f"{type(network).__name__}. A function may build one, `lambda rngs: Net(rngs=rngs)` for "
        "NNX or `lambda key: Net(key=key)` for Equinox; any other has no parameters to put a "
        "prior on: sample them in a NumPyro model of your own."
    )


def _warn_of_dotted_names(name: str) -> None:
    names = [str(key) for handler in _PYRO_STACK for key in _given_to(handler)]
    dotted = next((key for key in names if key.startswith(f"{name}.")), None)
    if dotted is not None and not any(key.startswith(f"{name}/") for key in names):
        warnings.warn(
            f"Values are given as `{dotted}`, but the sites of the network are called "
            f"`{name}/...`: NumPyro ignores them and draws the weights from the prior. "
            "`posterior.draws` has names for ArviZ; `posterior.samples()` has those of sites.",
            UserWarning,
            stacklevel=3,
        )


def _given_to(handler: Any) -> Iterator[Any]:
    """The names of what a handler of NumPyro substitutes, as far as it can be asked."""
    function = getattr(handler, "substitute_fn", None)
    # `Predictive` substitutes by a function that reads its samples from where it was made.
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    for values in (getattr(handler, "data", None), *cells):
        yield from values if isinstance(values, Mapping) else ()


def _narrowly(network: Any, apply: Callable[..., Any]) -> Callable[..., Any]:
    """The network, its narrow layers as a CPU has them fastest, and its errors explained."""
    from bayesnn_ppl.nn.narrow import narrow_layers

    def call(*args: Any, **kwargs: Any) -> Any:
        with narrow_layers():
            return apply(*args, **kwargs)

    return _explaining(network, call)


def _explaining(network: Any, apply: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with explained(network, *args):
            return apply(*args, **kwargs)

    return call


@contextmanager
def explained(network: Any, *inputs: Any) -> Iterator[None]:
    """Turns an error inside the network into a ValueError that says what to do.

    Args:
        network: a Flax module, called inside.
        *inputs: what it is called with.

    Raises:
        ValueError: for any error but one of tracing, which the contract check explains.
    """
    try:
        yield
    except jax.errors.ConcretizationTypeError:
        raise
    except Exception as error:
        shapes = ", ".join(str(tuple(jax.numpy.shape(a))) for a in jax.tree.leaves(inputs))
        raise ValueError(
            f"The network {type(network).__name__} fails at inputs of shape {shapes}. "
            f"{network_advice(error)} It says: {in_short(error)}"
        ) from error


def in_short(error: Exception) -> str:
    """The kind of an error and its first line, without Flax's address of a page."""
    return f"{type(error).__name__}: {str(error).partition(' (http')[0].partition(chr(10))[0]}"


def network_advice(error: Exception) -> str:
    """What to do about an error of Flax, in a sentence or two."""
    said = str(error)
    if "InvalidRng" in type(error).__name__ or '"deterministic" must be' in said:
        return (
            "A log density is one number at each position, so nothing in the network may be "
            "random. Build its dropout layers with `deterministic=True`; to have them live in "
            'training alone, use `likelihoods.dirty(..., dropout="network")`.'
        )
    if "Dropout requires a key" in said:
        return "Switch its dropout off before: `equinox.nn.inference_mode(network)`."
    if "use_running_average" in said:
        return "Batch statistics make rows depend on each other: use another normalisation."
    if isinstance(error, TypeError) and "argument" in said:
        return "It is called as `network(x)`: give its other arguments defaults, as `train=False`."
    return "It must map one array (rows, ...) to one array (rows, outputs)."


def _flatten(tree: Mapping[Any, Any], prefix: str = "") -> dict[str, tuple[int, ...]]:
    flat: dict[str, tuple[int, ...]] = {}
    for key, value in tree.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        flat |= _flatten(value, name) if isinstance(value, Mapping) else {name: value.shape}
    return flat


def _linen_shapes(network: Any, x: Any, options: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    with explained(network, x):
        variables = jax.eval_shape(lambda a: network.init(jax.random.key(0), a, **options), x)
    state = natural(set(variables) - {"params"})
    if state:
        raise ValueError(
            f"The network {type(network).__name__} keeps state besides its parameters: {state}. "
            "MCMC would leave it frozen at its first value. Batch statistics also break the "
            "independence of the observations: use filter or layer normalisation instead."
        )
    if not variables.get("params"):
        raise ValueError(f"The network {type(network).__name__} has no parameters.")
    return _flatten(variables["params"])


def _nnx_shapes(network: Any) -> dict[str, tuple[int, ...]]:
    from flax import nnx

    _, *states = nnx.split(network, nnx.Param, nnx.RngState, nnx.Not(nnx.Param))
    params, _, other = states
    state = natural(_flatten(nnx.to_pure_dict(other)))
    if state:
        raise ValueError(
            f"The network {type(network).__name__} keeps state besides its parameters: {state}. "
            "MCMC would leave it frozen at its first value. Batch statistics also break the "
            "independence of the observations: use layer or group normalisation instead."
        )
    shapes = _flatten(nnx.to_pure_dict(params))
    if not shapes:
        raise ValueError(f"The network {type(network).__name__} has no parameters.")
    return shapes


def _nnx_path(dotted: str) -> tuple[str | int, ...]:
    """`layers.0.kernel` as NNX has it: places in a list are integers."""
    return tuple(int(key) if key.isdigit() else key for key in dotted.split("."))


def declared_parameters(trace: Mapping[str, Any]) -> set[str]:
    """The sites that are parameters of a network declared with NumPyro's primitives.

    NumPyro leaves a parameter without a prior a constant; here that is an error.
    """
    from numpyro.contrib.module import ParamShape

    found, text, end = set(), jax.tree_util.keystr, "$params"
    declared = {n: s["value"] for n, s in trace.items() if s["type"] == "param" and n.endswith(end)}
    for site, value in declared.items():
        network, flax = site.removesuffix(end), isinstance(value, Mapping)
        leaves, _ = jax.tree_util.tree_flatten_with_path(value, lambda a: isinstance(a, ParamShape))
        names = {  # `Dense_0.kernel` of Flax's modules, `layers[0].weight` of Equinox's
            text(path, simple=True, separator=".") if flax else text(path)[1:]: leaf
            for path, leaf in leaves
        }
        given = [n for n in names if isinstance(names[n], ParamShape) or f"{network}/{n}" in trace]
        for parameter, leaf in names.items():
            if parameter not in given:
                raise ValueError(
                    f"The parameter `{parameter}` of shape {tuple(leaf.shape)} of the network "
                    f"`{network}` has no prior and would stay a constant. "
                    + (f"Those with a prior: {given}. " if given else "")
                    + "Add it to the prior, or use `random_network`, which finds misspelled names."
                )
        found |= {f"{network}/{parameter}" for parameter in names}
    return found


class _JacobianNames(Messenger):
    """Gives a prior's own Jacobians NumPyro's name `_<site>_log_det`, of the site's full name.

    By it a temperature of the whole posterior knows them; a prior does not know its scope.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        super().__init__(None)

    def process_message(self, msg: dict[str, Any]) -> None:
        inside = f"{self.prefix}/_"
        if msg["type"] == "sample" and isinstance(msg["fn"], Unit):
            if msg["name"].startswith(inside) and msg["name"].endswith("_log_det"):
                msg["name"] = f"_{self.prefix}/{msg['name'].removeprefix(inside)}"


def _sample_network_prior(
    name: str, prior: NetworkPrior, shapes: dict[str, tuple[int, ...]], x: Any
) -> dict[str, Any]:
    """The parameters by their dotted names."""

    def mark(site: dict[str, Any]) -> dict[str, bool]:
        """Tell a weight from a hyperparameter, as the site's name alone cannot.

        A prior marks a site that holds weights under another name, such as a joint vector.
        """
        marked = site["infer"].get("network_parameter", False)
        return {"network_parameter": marked or site["name"] in shapes}

    with _JacobianNames(name), numpyro.handlers.scope(prefix=name):
        sample = numpyro.handlers.infer_config(prior.sample_checked, config_fn=mark)
        return sample(shapes, x)
