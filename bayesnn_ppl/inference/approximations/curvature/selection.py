"""Which parameters an approximation around a mode is about, and the model as their function."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.distributions.transforms import IdentityTransform, IndependentTransform

from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.inference.approximations.curvature.fisher import moved_parameters, refuse_unknown
from bayesnn_ppl.inference.approximations.curvature.kronecker import KroneckerLayer
from bayesnn_ppl.inference.approximations.curvature.layers import NetworkCalls, network_calls
from bayesnn_ppl.inference.approximations.curvature.local import LocalModel, in_layers, layer_of
from bayesnn_ppl.inference.fitting.approximation import Finding
from bayesnn_ppl.inference.training.problem import Problem

__all__ = ["Selection", "check_layers", "kronecker_layers", "rows_at_once", "select"]

type Layers = str | Sequence[str] | None


class Selection(NamedTuple):
    """What was chosen, known before anything is trained or compiled.

    Attributes:
        local: the model as a function of the chosen sites.
        calls: the networks and layers that it calls.
        findings: sites that were left out.
    """

    local: LocalModel
    calls: NetworkCalls
    findings: tuple[Finding, ...]


def check_layers(layers: Any, name: str) -> Layers:
    """`layers` as "last", a tuple of patterns, or None.

    Raises:
        TypeError, ValueError: it is not one of these.
    """
    if layers is None or layers == "last":
        return layers
    patterns = (layers,) if isinstance(layers, str) else layers
    if not isinstance(patterns, Sequence) or not all(isinstance(p, str) for p in patterns):
        raise TypeError(
            f'`{name}(layers=...)` is "last", patterns of parameter names such as '
            f'("Dense_1.*",), or None for all, not {layers!r}.'
        )
    if not patterns:
        raise ValueError(f"`{name}(layers=())` chooses no parameter. Leave it out for all.")
    return tuple(patterns)


def select(problem: Problem, layers: Layers) -> Selection:
    """The sites that `layers` asks for, in the order of the vector.

    Without patterns these are the network's parameters, or all latent sites of a model without
    a network. Other sites, such as a noise scale, stay at the mode.

    Raises:
        ValueError: latent sites of single rows, observed sites or factors of rows other than `y`,
            an observed distribution whose Fisher information is not known, no site that is
            meant, or one that is not a real number.
    """
    if problem.summary.local:
        raise ValueError(
            f"The model has latent sites of single rows, {list(problem.summary.local)}: "
            "one value for each row, and no curvature that adds up over rows. Use `sample`."
        )
    others = [*problem.summary.row_terms, *problem.summary.other_observed]
    if others:
        raise ValueError(
            f"The model observes more than `y`: {others}. The curvature is the Fisher information "
            "of the site `y`, and would leave them out. Use `sample`, or `Variational`, which "
            "needs densities only."
        )
    trace = _traced(problem)
    refuse_unknown(trace["y"]["fn"])
    values = {
        name: jax.ShapeDtypeStruct(shape, jnp.result_type(float))
        for name, shape in problem.summary.latents.items()
    }
    calls = network_calls(lambda: _run(problem.model, values, problem.x[:1]))
    all_sites = [n for n in problem.summary.latents if n in problem.summary.parameters]
    all_sites = all_sites or list(problem.summary.latents)
    chosen = _chosen(all_sites, layers, calls)
    real = [name for name in chosen if _is_real(trace[name]["fn"].support)]
    findings: tuple[Finding, ...] = ()
    if len(real) < len(chosen):
        others = [name for name in chosen if name not in real]
        if layers is not None or not real:
            raise ValueError(
                f"The sites {others[:4]} are not free to take any real value, and a Gaussian "
                "around the mode does not fit them. Leave them out of `layers`."
            )
        findings = (
            Finding(
                "remark",
                f"The sites {others[:4]} are not free to take any real value, and stay at their "
                "mode: their uncertainty is not in the predictions.",
            ),
        )
    sites = in_layers(real)
    shapes = tuple(problem.summary.latents[name] for name in sites)
    target, discrete = problem.y.shape[1:], problem.summary.discrete
    local = LocalModel(StaticValue(problem.model), sites, shapes, target, discrete)
    which = _moved(local, values, problem.x[:1])
    return Selection(replace(local, parameters=which), calls, findings)


# What is said of `Laplace`: who reads layers, and what to do where that has no network, or layer.
_LAPLACE = (
    'The structure "kfac"',
    'Use structure="full", "diagonal", "block" or "low_rank".',
    'Choose the layers by `layers=("Dense_*",)`, or another structure: "diagonal", "block", '
    '"low_rank".',
)


def kronecker_layers(
    selection: Selection, said: tuple[str, str, str] = _LAPLACE
) -> tuple[KroneckerLayer, ...]:
    """The chosen layers as `kronecker_curvature` takes them.

    Args:
        selection: the parameters, and the layers that the model calls.
        said: in errors, who reads layers, and what to use where there is no network, or where a
            layer is another one.

    Raises:
        ValueError: there is no network to read, or a layer is neither dense nor a convolution, or
            is called more than once; the sentence names it.
    """
    local, calls = selection.local, selection.calls
    if not calls.readable:
        raise ValueError(
            f"{said[0]} reads the inputs of the layers of one Flax Linen network, but this model "
            f"calls {calls.networks} of them"
            + (", inside another transformation of JAX" if calls.hidden else "")
            + f". {said[1]}"
        )
    found = []
    for layer in local.layers:
        path = layer.name.rpartition("/")[2]
        of_layer = [call for call in calls.calls if call.path == path]
        names = [site.rpartition(".")[2] for site in layer.sites]
        what = None
        if not of_layer:
            what = "is not called by it"
        elif len(of_layer) > 1:
            what = f"is called {len(of_layer)} times, with shared weights"
        elif of_layer[0].kind not in ("dense", "conv") or set(names) - {"kernel", "bias"}:
            what = f"is a {of_layer[0].kind}"
        if what is not None:
            raise ValueError(
                f"{said[0]} knows dense layers and convolutions without groups and dilation, each "
                f"called once, but `{layer.name}` {what}. {said[2]}"
            )
        shape = dict(zip(local.sites, local.shapes, strict=True))[layer.sites[0]]
        found.append(
            KroneckerLayer(
                of_layer[0], layer.begin, layer.end, shape[-1], "kernel" in names, "bias" in names
            )
        )
    return tuple(found)


def _run(model: Any, values: Any, x: Any) -> dict[str, Any]:
    """The model's trace on shapes: all values are traced ones."""
    trace: dict[str, Any] = {}

    def run(values: Any, x: Any) -> None:
        substituted = handlers.substitute(model, data=dict(values))
        seeded = handlers.seed(substituted, jax.random.key(0))
        trace.update(handlers.trace(seeded).get_trace(x))

    run({k: jnp.zeros(v.shape, v.dtype) for k, v in values.items()}, x)
    return trace


def _traced(problem: Problem) -> dict[str, Any]:
    trace: dict[str, Any] = {}

    def run(x: Any, y: Any) -> None:
        seeded = handlers.seed(problem.model, jax.random.key(0))
        trace.update(handlers.trace(seeded).get_trace(x, y))

    jax.eval_shape(run, problem.x, problem.y)
    return trace


def _moved(local: LocalModel, values: Any, x: Any) -> tuple[int, ...]:
    fixed = {n: jnp.ones(v.shape, v.dtype) for n, v in values.items() if n not in local.sites}

    def observed(vector: Any) -> Any:
        return local.trace(vector, fixed, x)["y"]["fn"]

    vector = jax.ShapeDtypeStruct((local.dimension,), jnp.result_type(float))
    return moved_parameters(observed, vector)


def _chosen(sites: Sequence[str], layers: Layers, calls: NetworkCalls) -> list[str]:
    if layers is None:
        return list(sites)
    if layers == "last":
        owners = [layer_of(name).rpartition("/")[2] for name in sites]
        if not calls.readable or not calls.calls or calls.calls[-1].path not in owners:
            raise ValueError(
                'layers="last" is the last layer that one Flax Linen network calls, and this '
                "model has no such network or no sites of that layer. Name the parameters: "
                f"{near_misses('layers', [str(s) for s in sites])}"
            )
        last = calls.calls[-1].path
        return [name for name, owner in zip(sites, owners, strict=True) if owner == last]
    found: list[str] = []
    for pattern in layers:
        matches: Callable[[str], bool] = partial(_matches, pattern)
        new = [name for name in sites if matches(name)]
        if not new:
            raise ValueError(
                f"`layers` has the pattern `{pattern}`, which no parameter matches. "
                + near_misses(pattern, [name.rpartition("/")[2] for name in sites])
            )
        found += new
    return [name for name in sites if name in found]


def _matches(pattern: str, site: str) -> bool:
    """A pattern is of the parameter's name, its layer's, or either with the network's name."""
    short = site.rpartition("/")[2]
    return any(
        fnmatchcase(name, pattern) for name in (site, short, layer_of(site), layer_of(short))
    )


def _is_real(support: Any) -> bool:
    transform = biject_to(support)
    while isinstance(transform, IndependentTransform):
        transform = transform.base_transform
    return isinstance(transform, IdentityTransform)


def rows_at_once(local: LocalModel, x: np.ndarray, columns: int, structure: str) -> int:
    """Rows of a chunk, such that what is held of them stays below about 256 MB."""
    size = x.dtype.itemsize if x.dtype.kind == "f" else 4
    if structure in ("kfac", "low_rank"):
        # Activations, of which little is known but that they are some times the inputs' size.
        numbers = columns * max(16 * int(np.prod(x.shape[1:])), 2048)
    else:
        numbers = 2 * columns * local.dimension
    return int(np.clip(2**28 // (size * numbers), 1, 512))
