"""Open a saved run: what it remembers, and its posterior with the model."""

import json
from pathlib import Path
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl.settings.models.user_models import name_of, split_name
from bayesnn_ppl.settings.saved.run_file import FILE, FORMAT, Run

__all__ = ["loaded", "open_posterior", "open_run", "predicting"]

_SNGP_SETTINGS = ("features", "length_scale", "scale", "bound")


def open_run(folder: Path) -> Run:
    """Read the `run.json` of a folder, or what a run from Python knows of itself.

    Raises:
        FileNotFoundError: the folder, or the file in it, does not exist.
        ValueError: the file is damaged, or of another version.
    """
    if not folder.is_dir():
        near = _near(folder)
        raise FileNotFoundError(
            f"There is no run at `{folder}`."
            + (f" {near}" if near else "")
            + " Give the folder that `bayesnn sample` made."
        )
    file = folder / FILE
    if not file.is_file():
        if (folder / "config.json").is_file():
            return _from_python(bnn.load(folder).provenance)
        raise FileNotFoundError(
            f"The folder `{folder}` has no {FILE} and no config.json, so it is not a run. Give the "
            "folder that `bayesnn sample` made, or the `out=` of `bayesnn_ppl.sample`."
        )
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        if values["format"] != FORMAT:
            raise ValueError(f"its format is {values['format']}, and this version reads {FORMAT}")
        return Run(**values)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"The file `{file}` cannot be read: {error}. It is written by `bayesnn sample`; "
            "sample again if it is damaged."
        ) from error


def loaded(folder: Path, run: Run, model: Any, given: str | None) -> Any:
    """The posterior of a run with its model.

    Args:
        folder, run: the run.
        model: of `Run.load_model`, perhaps changed since; None without one.
        given: the value of --model.

    Raises:
        ValueError: the draws are of another model; the message says what --model should name.
    """
    try:
        return bnn.load(folder, model)
    except ValueError as error:
        if given is None or "are of another model" not in str(error):
            raise
        path, _ = split_name(given)
        name = run.model.get("name") or name_of(path, bnn.load(folder).provenance["model"])
        remedy = (
            f"In this file it is `--model {path}:{name}`."
            if name
            else f"The file `{path}` does not define it: `--model FILE.py:NAME` names another one."
        )
        raise ValueError(f"{error} {remedy}") from error


def predicting(run: Run, made: dict[str, Any], model: Any) -> Any:
    """The model that the draws predict by; that of SNGP has another last layer.

    Args:
        run: what is remembered of it.
        made: the provenance of its posterior.
        model: of `Run.load_model`.
    """
    if made["kernel"] != "SNGP":
        return model
    settings = made["kernel_settings"]
    known = {name: settings[name] for name in _SNGP_SETTINGS if name in settings}
    data = run.load_data().train
    return bnn.approximations.SNGP(model, **known).fitted_model(*data, seed=made["seed"])


def open_posterior(folder: Path, given: str | None = None) -> tuple[Run, Any, Path | None]:
    """A run, its posterior with the model, and the user's file if any.

    Args:
        folder: of the run.
        given: the user's `.py` file, for a run that was made with one.
    """
    run = open_run(folder)
    model, path = run.load_model(given)
    model = predicting(run, bnn.load(folder).provenance, model)
    return run, loaded(folder, run, model, given), path


def _from_python(made: dict[str, Any]) -> Run:
    facts = made.get("dataset") or {}
    units = made["standardisation"]
    if units is None:
        shape = made["input_shape"]
        units = bnn.data.Standardisation.identity(shape[-1] if shape else 1).to_dict()
    labels = made["observed"].startswith(("Categorical", "Bernoulli"))
    return Run(
        made_by="Python",
        model={},
        posterior_temperature=1.0,  # the model that is given has its own
        data=facts.get("loaded_by") or {},
        data_sha256=facts.get("sha256") or made["data_sha256"],
        task=facts.get("task") or ("classification" if labels else "regression"),
        feature_names=facts.get("feature_names") or [],
        target_name=facts.get("target_name") or "y",
        class_names=facts.get("class_names"),
        standardisation=units,
        encoding=facts.get("encoding"),
    )


def _near(folder: Path) -> str:
    from bayesnn_ppl.core.arguments import near_misses

    parent = folder.parent
    if not parent.is_dir():
        return ""
    runs = [str(parent / found.parent.name) for found in parent.glob(f"*/{FILE}")]
    return near_misses(str(folder), runs) if runs else ""
