"""The model contract and the data, checked by shapes alone: nothing is compiled here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from flax.errors import FlaxError
from numpyro import handlers

from bayesnn_ppl.data.common.target import Labels
from bayesnn_ppl.likelihoods.common.observed import (
    CATEGORICAL,
    base_distribution,
    likelihood_name,
    undrawn,
)
from bayesnn_ppl.modeling.bayesian_networks import check_inputs
from bayesnn_ppl.modeling.discrete_latents import check_discrete
from bayesnn_ppl.modeling.random_networks import declared_parameters, in_short, network_advice
from bayesnn_ppl.modeling.row_terms import beyond_targets, is_by_row
from bayesnn_ppl.modeling.target_support import check_support
from bayesnn_ppl.modeling.temperature import Model
from bayesnn_ppl.modeling.training_noise import KeyedModel
from bayesnn_ppl.modeling.unfitted_parameters import FirstValues

__all__ = [
    "RANDOM_DENSITY",
    "WITHOUT_NOISE",
    "ModelSummary",
    "check_task",
    "inspect_model",
    "observed_distribution",
]

# Parts of errors of methods that need the density itself.
RANDOM_DENSITY = "The model's log density is random in training (augmented inputs, or live dropout)"
WITHOUT_NOISE = "or the likelihood without augmentation and dropout."


@dataclass(frozen=True)
class ModelSummary:
    """What one abstract run of a model on its data shows.

    Attributes:
        latents: shapes of the latent sites, by NumPyro's names.
        parameters: the names among them that are network parameters.
        likelihood_temperature, posterior_temperature: 1 where the model sets none.
        observed: the distribution class of the site `"y"`, by name; of a pseudo-likelihood both,
            what it trains by and what it predicts by.
        discrete: whether its support is.
        local: the latent sites with values of single training rows: those inside the plate
            `"data"`, and those whose shape changes with the number of rows.
        discrete_latents: the integer latent sites that the kernel moves, and how many
            values each has: 0, 1, ... up to that number minus one.
        stored: the sites whose values are kept of a draw, latent and deterministic.
        noisy: whether the log density is random in training, as with augmented inputs.
        unfitted: the `numpyro.param` sites that have no value but their first.
        weighted: whether the rows of `"y"` count otherwise than by the temperatures, as under
            `numpyro.handlers.scale`.
        row_terms: what else the plate `"data"` adds to the density of a row: observed sites other
            than `"y"`, and factors.
        other_observed: the observed sites outside of it.
    """

    latents: Mapping[str, tuple[int, ...]]
    parameters: frozenset[str]
    likelihood_temperature: float
    posterior_temperature: float
    observed: str
    discrete: bool
    local: tuple[str, ...]
    discrete_latents: Mapping[str, int]
    stored: tuple[str, ...]
    noisy: bool = False
    unfitted: tuple[str, ...] = ()
    weighted: bool = False
    row_terms: tuple[str, ...] = ()
    other_observed: tuple[str, ...] = ()


def inspect_model(
    model: Model, x: np.ndarray, y: np.ndarray, *, kernel: Any = None, all_rows: bool = True
) -> ModelSummary:
    """Run the model once on shapes, and check it against the model contract.

    Args:
        model: the NumPyro model.
        x: inputs (N, ...), finite.
        y: targets (N, ...), finite.
        kernel: what is to move the latent sites; None for what follows gradients.
        all_rows: whether these are all the data, so that every label must occur.

    Raises:
        ValueError: rows of x and y differ in number, rows of x that the likelihood refuses, no
            plate `"data"` of size N, no observed site `"y"`, a `y` that does not have the shape or
            lies outside the support of its distribution, a network parameter without a prior, a
            discrete latent site that the kernel cannot move, no latent site at all, or a model
            that runs neither without `y` nor with another number of rows, as predictions do.
    """
    if x.shape[0] != y.shape[0]:
        raise ValueError(f"`x` has {x.shape[0]} rows and `y` has {y.shape[0]}: they must be equal.")
    check_inputs(model, x)
    unfitted = FirstValues()
    with unfitted:
        trace, noisy = _abstract_trace(model, x, y)
    _check_plate(trace, x.shape[0])
    _check_observed(trace, y, all_rows)
    parameters = declared_parameters(trace)
    latents = {
        name: site
        for name, site in trace.items()
        if site["type"] == "sample" and not site["is_observed"]
    }
    if not latents:
        raise ValueError("The model has no latent site: there is nothing to sample.")
    discrete_latents = check_discrete(latents, kernel)
    inside = {name for name, site in latents.items() if is_by_row(site)}
    growing = set() if inside else _growing_latents(model, x, latents)
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
        discrete=bool(base_distribution(observed["fn"]).support.is_discrete),
        local=tuple(name for name in latents if name in inside | growing),
        observed=likelihood_name(observed["fn"]),
        discrete_latents=discrete_latents,
        stored=tuple(name for name, site in trace.items() if _is_stored(site)),
        noisy=noisy,
        unfitted=tuple(unfitted.names),
        **beyond_targets(trace),
    )


def check_task(y: Any, summary: ModelSummary) -> None:
    """Refuse the labels of a `Dataset` as the numbers of a regression.

    Raises:
        ValueError: `y` are labels and the likelihood is one of continuous numbers.
    """
    if isinstance(y, Labels) and not summary.discrete:
        classes = int(np.max(y)) + 1
        raise ValueError(
            f"`y` are the labels of a classification, and the model's likelihood, "
            f"{summary.observed}, is for numbers. Give it `likelihoods.categorical({classes})`, or "
            "numbers: `y.astype(float)`, if the labels mean amounts."
        )


def observed_distribution(model: Model, x: np.ndarray) -> Any:
    """The distribution of `"y"` at inputs x, of which only shapes and support mean something."""
    return _abstract_trace(model, x, None)[0]["y"]["fn"]


def _abstract_trace(
    model: Model, x: np.ndarray | jax.ShapeDtypeStruct, y: np.ndarray | None
) -> tuple[dict[str, Any], bool]:
    """The sites, and whether the model took a key for noise of its training."""
    trace: dict[str, Any] = {}
    noisy = False

    def run(x: Any, y: Any) -> None:
        nonlocal noisy
        drawn = handlers.substitute(model, substitute_fn=undrawn)
        keyed = KeyedModel(drawn, jax.random.key(0))
        with handlers.trace() as found, handlers.seed(rng_seed=jax.random.key(0)):
            noisy = keyed.run(x, y)
        trace.update(found)

    try:
        jax.eval_shape(run, x, y)
    except jax.errors.ConcretizationTypeError as error:
        raise ValueError(
            "The model lets values of `x` or `y` decide a shape or a Python branch, and cannot "
            "be compiled for other data of their shape. Compute such values outside the model. "
            f"JAX says: {str(error).splitlines()[0]}"
        ) from error
    except FlaxError as error:  # of a network that the model declares by NumPyro's primitives
        raise ValueError(
            f"A network of the model fails. {network_advice(error)} It says: {in_short(error)}"
        ) from error
    return trace, noisy


def _growing_latents(model: Model, x: np.ndarray, latents: Mapping[str, Any]) -> set[str]:
    """The latent sites whose shape changes with the rows; ValueError if the model cannot run.

    Predictions have other rows than the training data and no `y`. Twice as many rows, so that a
    model may have its rows in groups.
    """
    try:
        trace = _prediction_trace(model, x, 2 * len(x))
        _check_plate(trace, 2 * len(x))
    except Exception as error:
        raise ValueError(_why_not(model, x, error)) from error
    return {
        name
        for name, site in latents.items()
        if name in trace and trace[name]["fn"].shape() != site["fn"].shape()
    }


def _prediction_trace(model: Model, x: np.ndarray, rows: int) -> dict[str, Any]:
    dtype = jax.dtypes.canonicalize_dtype(x.dtype)
    return _abstract_trace(model, jax.ShapeDtypeStruct((rows, *x.shape[1:]), dtype), None)[0]


def _why_not(model: Model, x: np.ndarray, error: Exception) -> str:
    """A sentence on a model that ran on the training data and not with other rows."""
    try:
        _prediction_trace(model, x, len(x))
    except Exception:
        return (
            "The model cannot predict: it fails at `x` without `y`. Give `y` the default None, "
            f'and use it only in `numpyro.sample("y", ..., obs=y)`. It says: {in_short(error)}'
        )
    return (
        f"The model runs with the {len(x)} rows of `x` and with no other number of rows, so it "
        'cannot predict, be diagnosed or take minibatches. Take the size of the plate "data" from '
        "`x.shape[0]`, and nothing else; an array of values for each row outside the model must be "
        f"columns of `x`, taken from them inside. With {2 * len(x)} rows it says: {in_short(error)}"
    )


def _is_stored(site: dict[str, Any]) -> bool:
    return site["type"] == "deterministic" or (site["type"] == "sample" and not site["is_observed"])


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


def _check_observed(trace: dict[str, Any], y: np.ndarray, all_rows: bool) -> None:
    observed = [n for n, s in trace.items() if s["type"] == "sample" and s["is_observed"]]
    if "y" not in observed:
        raise ValueError(
            'The model has no observed site "y": end it with '
            '`numpyro.sample("y", distribution, obs=y)`.'
            + (f" Its observed sites are {observed}." if observed else "")
        )
    site = trace["y"]
    if not is_by_row(site):
        raise ValueError('The observed site "y" must be inside the plate "data".')
    fn = site["fn"]
    if tuple(fn.shape()) != y.shape:
        raise ValueError(
            f'The site "y" has shape {tuple(fn.shape())}, but the data `y` have shape {y.shape}: '
            + _why_other(trace["data"]["args"], fn.shape(), y.shape)
        )
    if len(fn.batch_shape) != 1:
        raise ValueError(
            f'The site "y" has batch_shape {tuple(fn.batch_shape)}, but a row must be one '
            "observation, batch_shape (rows,). Make the other axes events: "
            "`distribution.to_event(1)` in place of a plate of their own."
        )
    _check_labels(fn, y, all_rows)


def _why_other(plate: Any, shape: Any, targets: tuple[int, ...]) -> str:
    rows, chosen = plate  # the second where the model itself takes some of them
    if shape[:1] == (chosen,) != (rows,):
        return (
            f'the plate "data" takes {chosen} of its {rows} rows. Write '
            "`subsample_size=batch_size`, an argument of the model that is None by default."
        )
    advice = "Check the network's number of outputs and the likelihood."
    flat = "Flatten the targets: `y[:, 0]`."
    advice = flat if targets[1:] == (1,) else advice
    return f"NumPyro would broadcast one against the other silently. {advice}"


def _check_labels(fn: Any, y: np.ndarray, all_rows: bool) -> None:
    check_support(fn, y, "y")
    base = base_distribution(fn)
    if all_rows and isinstance(base, CATEGORICAL):
        classes = int(base.support.upper_bound) + 1
        missing = sorted(set(range(classes)) - set(np.unique(y).astype(int).tolist()))
        if missing:
            raise ValueError(
                f"The model has {classes} classes, but the labels {missing} never occur in `y`: "
                "nothing could be learned about them. Renumber the labels without gaps, or set "
                "the number of classes to what there is."
            )
