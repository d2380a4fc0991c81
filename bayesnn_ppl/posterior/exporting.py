"""Predictions as a function in a file, which JAX alone can call: no model, no NumPyro, no library.

    function.jax    function(draws, x) for any number of rows, serialized by `jax.export`
    draws.npz       its first argument: variable -> (S, ...)
    example.npz     rows `x` in the data's units, and what the function said there
    about.json      names, units, shapes and versions

The draws are an argument, since XLA would fold constants whenever it compiles the function.
"""

import importlib.util
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayesnn_ppl.core.arguments import near_misses
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.data.common.standardisation import Standardisation
from bayesnn_ppl.modeling.random_networks import in_short
from bayesnn_ppl.posterior.draws_with_model import DrawsWithModel, as_inputs
from bayesnn_ppl.posterior.mixture import (
    component_moments,
    label_summary,
    mixture_moments,
    observed_site,
)
from bayesnn_ppl.posterior.prediction import Prediction
from bayesnn_ppl.posterior.stored_draws import latents_by_site
from bayesnn_ppl.storage import is_address
from bayesnn_ppl.storage.files import write_bytes, write_json

__all__ = ["export"]

_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
_EXAMPLE_ROWS = 8
_TOLERANCE = 0.01  # predictive standard deviations, or of a probability


def export(
    posterior: DrawsWithModel,
    path: str | Path,
    x: Any,
    *,
    components: bool,
    platforms: Sequence[str],
    memory: int,
) -> Path:
    """See `Posterior.export`."""
    folder = _checked_folder(path)
    platforms = _checked_platforms(platforms)
    run = posterior.provenance
    float64 = run["precision"] == "float64"
    x = as_inputs(posterior, x)[:_EXAMPLE_ROWS]
    prediction = posterior.predict(x, memory=memory)
    known = run["standardisation"]
    units = Standardisation.identity(1) if known is None else Standardisation.from_dict(known)
    moves = x.dtype.kind == "f" and bool(np.any(units.x_mean) or np.any(units.x_scale != 1))
    if moves:
        x = np.asarray(units.undo_x(x)).astype(x.dtype)
    names = {site: name for name, site in run["site_names"].items()}
    draws = {names[site]: a for site, a in latents_by_site(posterior).items()}
    labels = prediction.task == "classification"
    says = _label_outputs if labels else _number_outputs(units.y_mean, units.y_scale)

    def function(draws: Mapping[str, Any], x: Any) -> dict[str, Any]:
        if moves:
            x = (x - _constant(units.x_mean, x)) / _constant(units.x_scale, x)
        values = {site: draws[name] for site, name in names.items() if name in draws}
        found = jax.lax.map(lambda one: observed_site(posterior.model, one, x), values)
        return says(found, components)

    with arithmetic(float64=float64):
        content = _serialized(function, draws, x, platforms)
        # From the bytes, as the reader will call it.
        with jax.default_device(jax.devices("cpu")[0]):
            called = jax.export.deserialize(bytearray(content)).call(draws, x)
    outputs = {name: np.asarray(a) for name, a in called.items()}
    _check_outputs(outputs, prediction, components)
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / "function.jax", content)
    write_bytes(folder / "draws.npz", _npz(draws))
    write_bytes(folder / "example.npz", _npz({"x": x, **outputs}))
    facts = run.get("dataset") or {}
    about = {
        "task": prediction.task,
        "inputs": {
            "shape": ["rows", *x.shape[1:]],
            "dtype": str(x.dtype),
            "units": "the data's" if moves else "those the model was given",
            "features": facts.get("feature_names"),
            "columns": facts.get("encoding"),  # of a table, of which the features are made
        },
        "outputs": {
            name: {"shape": ["rows" if n == len(x) else n for n in a.shape], "dtype": str(a.dtype)}
            for name, a in outputs.items()
        },
        "target": facts.get("target_name"),
        "classes": facts.get("class_names"),
        "draws": prediction.components.count,
        "selection": run.get("selection"),
        "method": run.get("kernel"),
        "model": run.get("model"),
        "platforms": list(platforms),
        "versions": {"jax": jax.__version__, "run": run.get("versions")},
    }
    write_json(folder / "about.json", about)
    return folder


def _number_outputs(centre: Any, scale: Any) -> Callable[[Any, bool], dict[str, Any]]:
    def says(found: Any, components: bool) -> dict[str, Any]:
        if components:
            mean, variance = component_moments(found)
            variances = {"sd": variance}
        else:
            mean, aleatoric, epistemic = mixture_moments(found)
            variances = {
                "sd": aleatoric + epistemic, "aleatoric_sd": aleatoric, "epistemic_sd": epistemic
            }  # fmt: skip
        wide = _constant(scale, mean)
        sds = {name: wide * jnp.sqrt(a) for name, a in variances.items()}
        return {"mean": _constant(centre, mean) + wide * mean, **sds}

    return says


def _label_outputs(found: Any, components: bool) -> dict[str, Any]:
    if components:
        return {"probabilities": component_moments(found)[0]}
    probabilities, _, _, entropy, information = label_summary(found)
    return {"probabilities": probabilities, "entropy": entropy, "mutual_information": information}


def _constant(value: ArrayLike, like: Any) -> Any:
    return jnp.asarray(value, like.dtype)


def _serialized(
    function: Callable[..., Any], draws: Mapping[str, Any], x: np.ndarray, platforms: Sequence[str]
) -> bytes:
    (rows,) = jax.export.symbolic_shape("rows")
    shapes = (
        {name: jax.ShapeDtypeStruct(a.shape, a.dtype) for name, a in draws.items()},
        jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype),
    )
    try:
        exported = jax.export.export(jax.jit(function), platforms=platforms)(*shapes)
    except Exception as error:
        raise ValueError(
            "The model cannot be exported: `jax.export` traces it for any number of rows, of which "
            "shapes and Python's `if` may then not depend, and knows only part of what calls "
            f"other libraries. It says: {in_short(error)}"
        ) from error
    return bytes(exported.serialize())


def _check_outputs(
    outputs: Mapping[str, np.ndarray], prediction: Prediction, components: bool
) -> None:
    """Compare the exported function with `predict`, from which it differs by rounding alone."""
    labels = prediction.task == "classification"
    found = outputs["probabilities" if labels else "mean"]
    unit = 1.0 if labels else np.sqrt(prediction.variance)
    off = np.abs((found.mean(0) if components else found) - prediction.mean) / unit
    if np.nanmax(off, initial=0.0) > _TOLERANCE:
        raise ValueError(
            f"The exported function differs from `predict` by {np.nanmax(off):.2g} "
            f"{'in a probability' if labels else 'predictive standard deviations'}, so nothing was "
            "written. In the data's units, float32 has too few digits for a column that is far "
            "from zero compared with how much it varies: subtract a constant from it before the "
            "data are standardised, or sample with `float64=True`."
        )


def _checked_folder(path: str | Path) -> Path:
    if importlib.util.find_spec("flatbuffers") is None:
        raise ImportError(
            "`jax.export` writes files with the package flatbuffers, which is not installed: "
            "`pip install 'bayesnn_ppl[export]'`."
        )
    if is_address(path):
        raise ValueError(f"`{path}` is an address. Export to a folder, and copy that there.")
    folder = Path(path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(
            f"`{folder}` exists and is not empty, and nothing is written over. Choose another "
            "folder, or remove that one."
        )
    return folder


def _checked_platforms(platforms: Sequence[str]) -> tuple[str, ...]:
    if isinstance(platforms, str):
        raise TypeError(f"`platforms` is a tuple of names, such as ({platforms!r},).")
    for name in platforms:
        if name not in _PLATFORMS:
            raise ValueError(
                f"The platform {name!r} is unknown to `jax.export`. {near_misses(name, _PLATFORMS)}"
            )
    return tuple(dict.fromkeys(("cpu", *platforms)))


def _npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()
