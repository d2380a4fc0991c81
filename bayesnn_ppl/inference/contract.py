"""The model contract and the data, checked by shapes alone: nothing is compiled here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.contrib.module import ParamShape

from bayesnn_ppl.temperature import Model

__all__ = ["ModelSummary", "check_array", "inspect_model"]


@dataclass(frozen=True)
class ModelSummary:
    """What one abstract run of a program on its data shows.

    Attributes:
        latents: shapes of the latent sites, by NumPyro's names.
        parameters: the names among them that are network parameters.
        likelihood_temperature, posterior_temperature: 1 where the program sets none.
        observed: the distribution class of the site `"y"`, by name.
    """

    latents: Mapping[str, tuple[int, ...]]
    parameters: frozenset[str]
    likelihood_temperature: float
    posterior_temperature: float
    observed: str


def check_array(values: Any, name: str) -> np.ndarray:
    """`values` as a NumPy array of numbers, all finite, with a leading axis of rows.

    Raises:
        TypeError: not numbers.
        ValueError: a scalar, no rows, or a value that is not finite; the sentence says where.
    """
    if values is None:
        raise TypeError(f"`{name}` is None: `sample` needs inputs and targets.")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise TypeError(f"`{name}` is not a rectangular array: {error}.") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"`{name}` must hold numbers, but its dtype is {array.dtype}. Encode text and "
            "categories as numbers first."
        )
    if array.ndim == 0 or array.shape[0] == 0:
        raise ValueError(f"`{name}` must have at least one row, but its shape is {array.shape}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))
        place = ", ".join(str(int(i)) for i in bad[0])
        raise ValueError(
            f"`{name}` has {len(bad)} values that are not finite; the first is {name}[{place}] = "
            f"{array[tuple(bad[0])]}. Drop or impute these rows first."
        )
    return array


def inspect_model(model: Model, x: np.ndarray, y: np.ndarray) -> ModelSummary:
    """Run the program once on shapes, and hold it against the model contract.

    Args:
        model: the NumPyro program.
        x: inputs (N, ...), finite.
        y: targets (N, ...), finite.

    Raises:
        ValueError: rows of x and y differ in number, no plate `"data"` of size N, no observed
            site `"y"`, a `y` that does not have the shape or lies outside the support of its
            distribution, a network parameter without a prior, or no latent site at all.
    """
    if x.shape[0] != y.shape[0]:
        raise ValueError(f"`x` has {x.shape[0]} rows and `y` has {y.shape[0]}: they must be equal.")
    trace = _abstract_trace(model, x, y)
    _check_plate(trace, x.shape[0])
    _check_observed(trace, y)
    parameters = _network_parameters(trace)
    latents = {
        name: site
        for name, site in trace.items()
        if site["type"] == "sample" and not site["is_observed"]
    }
    if not latents:
        raise ValueError("The model has no latent site: there is nothing to sample.")
    observed = trace["y"]
    return ModelSummary(
        latents={name: tuple(site["fn"].shape()) for name, site in latents.items()},
        parameters=frozenset(
            name
            for name, site in latents.items()
            if name in parameters or site["infer"].get("network_parameter")
        ),
        likelihood_temperature=observed["infer"].get("likelihood_temperature", 1.0),
        posterior_temperature=observed["infer"].get("posterior_temperature", 1.0),
        observed=type(_base(observed["fn"])).__name__,
    )


def _abstract_trace(model: Model, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    trace: dict[str, Any] = {}

    def run(x: Any, y: Any) -> None:
        seeded = handlers.seed(model, jax.random.key(0))
        trace.update(handlers.trace(seeded).get_trace(x, y))

    jax.eval_shape(run, x, y)
    return trace


def _check_plate(trace: dict[str, Any], rows: int) -> None:
    plates = {name: site for name, site in trace.items() if site["type"] == "plate"}
    if "data" not in plates:
        raise ValueError(
            'The model has no plate "data". Put the observed site inside '
            '`with numpyro.plate("data", x.shape[0], subsample_size=batch_size):` and take the '
            "rows with `minibatch(x, y)`, so that predictions and minibatches know the rows."
            + (f" Its plates are {sorted(plates)}." if plates else "")
        )
    size = plates["data"]["args"][0]
    if size != rows:
        raise ValueError(f'The plate "data" has size {size}, but `x` has {rows} rows.')


def _check_observed(trace: dict[str, Any], y: np.ndarray) -> None:
    observed = [n for n, s in trace.items() if s["type"] == "sample" and s["is_observed"]]
    if "y" not in observed:
        raise ValueError(
            'The model has no observed site "y": end it with '
            '`numpyro.sample("y", distribution, obs=y)`.'
            + (f" Its observed sites are {observed}." if observed else "")
        )
    site = trace["y"]
    if "data" not in [frame.name for frame in site["cond_indep_stack"]]:
        raise ValueError('The observed site "y" must be inside the plate "data".')
    fn = site["fn"]
    if tuple(fn.shape()) != y.shape:
        raise ValueError(
            f'The site "y" has shape {tuple(fn.shape())}, but the data `y` have shape {y.shape}: '
            "NumPyro would broadcast one against the other without a word. "
            + (
                "Flatten the targets: `y[:, 0]`."
                if y.ndim == 2 and y.shape[1] == 1
                else "Check the network's number of outputs and the likelihood."
            )
        )
    _check_support(fn, y)


def _base(fn: Any) -> Any:
    while hasattr(fn, "base_dist"):
        fn = fn.base_dist
    return fn


def _check_support(fn: Any, y: np.ndarray) -> None:
    base = _base(fn)
    support = base.support
    bounds = [getattr(support, name, 0) for name in ("lower_bound", "upper_bound")]
    if any(not isinstance(bound, int | float) for bound in bounds):
        return  # the bounds depend on the parameters; only the sampler can tell
    inside = np.asarray(support(y))
    if not inside.all():
        place = tuple(int(i) for i in np.argwhere(~inside)[0][: y.ndim])
        allowed = (
            f"labels must be 0 … {bounds[1]}"
            if support.is_discrete and isinstance(base, _CATEGORICAL)
            else f"its support is {support}"
        )
        raise ValueError(
            f"y[{', '.join(map(str, place))}] = {y[place]} cannot come from the model's "
            f"{type(base).__name__} likelihood: {allowed}. Renumber the labels, or choose the "
            "number of classes or the likelihood to suit them."
        )
    if isinstance(base, _CATEGORICAL):
        classes = int(bounds[1]) + 1
        missing = sorted(set(range(classes)) - set(np.unique(y).tolist()))
        if missing:
            raise ValueError(
                f"The model has {classes} classes, but the labels {missing} never occur in `y`: "
                "nothing could be learned about them. Renumber the labels without gaps, or set "
                "the number of classes to what there is."
            )


_CATEGORICAL = (dist.CategoricalLogits, dist.CategoricalProbs)


def _network_parameters(trace: dict[str, Any]) -> set[str]:
    """The sites that are parameters of a network declared with NumPyro's primitives.

    NumPyro leaves a parameter without a prior a constant; here that is an error.
    """
    found = set()
    for name, site in trace.items():
        if site["type"] != "param" or not name.endswith("$params"):
            continue
        network = name.removesuffix("$params")
        leaves = jax.tree_util.tree_flatten_with_path(
            site["value"], is_leaf=lambda leaf: isinstance(leaf, ParamShape)
        )[0]
        names = {".".join(str(_key(k)) for k in path): leaf for path, leaf in leaves}
        given = [n for n, leaf in names.items() if isinstance(leaf, ParamShape)]
        for parameter, leaf in names.items():
            if not isinstance(leaf, ParamShape):
                raise ValueError(
                    f"The parameter `{parameter}` of shape {tuple(leaf.shape)} of the network "
                    f"`{network}` has no prior and would stay a constant. "
                    + (f"Those with a prior: {given}. " if given else "")
                    + "Add it to the prior, or use `random_network`, which finds misspelled names."
                )
        found |= {f"{network}/{parameter}" for parameter in names}
    return found


def _key(entry: Any) -> Any:
    return getattr(entry, "key", getattr(entry, "idx", entry))
