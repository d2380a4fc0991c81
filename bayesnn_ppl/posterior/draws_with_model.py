"""Draws with the model that made them: what it says at given inputs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.core.arrays import check_array
from bayesnn_ppl.data.new_inputs import standardised, warn_outside
from bayesnn_ppl.posterior.components import Components
from bayesnn_ppl.posterior.prediction import Prediction, brief_sd, function_values
from bayesnn_ppl.posterior.recorded_prediction import RecordedPrediction
from bayesnn_ppl.posterior.stored_draws import StoredDraws, latents_by_site

__all__ = ["DrawsWithModel", "as_inputs", "components_at", "spread_rows"]

_MEMORY = 2**29


class DrawsWithModel(StoredDraws):
    """What a `Posterior` says at inputs."""

    @strict_switches
    def predict(self, x: Any = None, *, raw: bool = False, memory: int = _MEMORY) -> Prediction:
        """The posterior predictive distribution at `x`, in the data's units.

        Args:
            x: inputs (N, ...), prepared as the training inputs were. None: the probe inputs of the
                run, from the function values kept there; that needs neither model nor weights.
            raw: `x` is in the data's units, and is standardised here as the training rows were:
                an array with the features in the order of training, or a table of pandas or
                polars, whose columns are matched by name.
            memory: bytes that intermediate arrays may take, about.

        Raises:
            ValueError: no model, no weights, no probe, `x` is not an array of finite numbers, or
                `raw` of rows that are standardised already, of a table that lacks a feature, or of
                a run that does not know how its inputs were standardised.

        Warns:
            UserWarning: inputs lie far outside those of training.
        """
        run = self.provenance
        if raw:
            x = standardised(x, run)
        units = run["standardisation"]
        known: dict[str, Any] = {
            "centre": units["y_mean"] if units else 0.0,
            "scale": units["y_scale"] if units else 1.0,
            "class_names": (run.get("dataset") or {}).get("class_names"),
        }
        if x is None:
            return RecordedPrediction(self._recorded(), self._probe()[1], **known)
        components = components_at(self, x, memory)
        warn_outside(components.x, run, given=x)
        return Prediction(components, **known)

    def is_trained_on(self, x: Any, y: Any) -> bool:
        """Whether these are the training data, prepared as `sample` was given them.

        Args:
            x, y: all training rows, (N, ...) each.
        """
        from bayesnn_ppl.diagnostics.potential_energy.potential import WrongDataError, check_data

        try:
            check_data(self, x, y)
        except WrongDataError:
            return False
        return True

    def log_likelihood(self, x: Any = None, y: Any = None, *, memory: int = _MEMORY) -> np.ndarray:
        """log p(y_i|x_i, θ) of each draw, untempered, shape (chain, draw, N).

        Args:
            x: inputs (N, ...); None for those of the probe inputs.
            y: targets (N, ...), in the units the model was given. The density is per data unit,
                as that of `Prediction.log_prob`. None, with `x` None, for those kept.
            memory: bytes that intermediate arrays may take, about.
        """
        prediction = self.predict(x, memory=memory)
        if x is None and y is None:
            y = self._probe()[1]
        group = "predictions" if x is None else "posterior"
        return self._by_chain(prediction.row_log_likelihood(y), group)

    def function_values(self, x: Any = None, *, memory: int = _MEMORY) -> dict[str, np.ndarray]:
        """What each draw's network says at `x`, in the units the model was given.

        Args:
            x: inputs (N, ...); None for those of the probe inputs, as they were kept.
            memory: bytes that intermediate arrays may take, about.

        Returns:
            For labels `{"probability": (chain, draw, N, ..., K)}`, otherwise
            `{"mean": (chain, draw, N, ...), "sd": ...}`, where `sd` has N = 1 when the noise does
            not depend on x, and is left out when it is fixed. Of a Cauchy distribution they are
            its centre and its scale.
        """
        if x is None:
            kept = self._recorded()
            labels = "probability" in kept
            values = (
                {"probability": kept["probability"]}
                if labels
                else {"mean": kept["mean"]} | brief_sd(kept["sd"])
            )
            return {name: self._by_chain(a, "predictions") for name, a in values.items()}
        components = components_at(self, x, memory)
        warn_outside(components.x, self.provenance, given=x)
        values = function_values(components)
        return {name: self._by_chain(a, "posterior") for name, a in values.items()}

    def function_slopes(
        self, x: Any, latents: Mapping[str, np.ndarray], tangents: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """What the network says at `x` for other latent values, and its derivatives.

        Args:
            x: inputs (N, ...).
            latents: latent site -> constrained values (S, ...).
            tangents: latent site -> K directions of each, (S, K, ...).

        Returns:
            Label -> values (S, N, ...), as `function_values`, and -> derivatives (S, K, N, ...).
        """
        components = components_at(self, x, _MEMORY, latents)
        return function_values(components), components.slopes(tangents)


def as_inputs(posterior: StoredDraws, x: Any) -> np.ndarray:
    """`x` as the model takes it; the columns of a frame must be those of training."""
    run = posterior.provenance
    float64 = run.get("precision") == "float64"
    return check_array(x, "x", float64=float64, columns=run.get("input_columns"))


def components_at(
    posterior: StoredDraws, x: Any, memory: int, latents: Mapping[str, np.ndarray] | None = None
) -> Components:
    """The predictive distributions of all draws, or of other latent values, at `x`."""
    if posterior.model is None:
        raise ValueError(
            "This posterior was loaded without its model, and predictions need it: "
            "`load(path, model=...)`."
        )
    run = posterior.provenance
    if not posterior.has_weights:
        raise ValueError(
            "The run kept no weights, and predictions at new inputs need them. At its probe inputs "
            "`predict()`, `function_values()` and `diagnose()` need no inputs."
            if posterior.probe is not None
            else "The run kept no draws of its weights, and predictions need them: it kept their "
            "moments, or ended before the first draw of `Keep(every=...)`."
        )
    if run.get("local"):
        raise ValueError(
            f"The model has latent sites of single rows, {run['local']}: one value "
            "for each training row, and none for new ones. Predict with "
            "`numpyro.infer.Predictive` and `posterior.samples()`, without these sites, which it "
            "then draws again."
        )
    float64 = run["precision"] == "float64"
    x = as_inputs(posterior, x)
    shape = tuple(run.get("input_shape", x.shape[1:]))
    if x.shape[1:] != shape:
        raise ValueError(
            f"`x` has rows of shape {x.shape[1:]}, but the model was trained on rows of shape "
            f"{shape}.{' Give one row as `rows[None]`.' if x.shape == shape else ''}"
        )
    latents = latents_by_site(posterior) if latents is None else latents
    return Components(posterior.model, latents, x, memory=memory, float64=float64)


def spread_rows(posterior: StoredDraws, x: np.ndarray, most: int, memory: int) -> np.ndarray:
    """`x`, or rows spread evenly over it, so that a draw has about `most` function values there."""
    shape = components_at(posterior, x[:1], memory).distribution.shape()
    most = max(1, most // int(np.prod(shape)))
    if len(x) <= most:
        return x
    return x[np.linspace(0, len(x) - 1, most).astype(int)]
