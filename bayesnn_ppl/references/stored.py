"""Reference posteriors as they are stored: draws and moments of function values, and facts."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesnn_ppl.core.arguments import near_misses, readable
from bayesnn_ppl.core.npz import read_npz
from bayesnn_ppl.references.prediction import ReferencePrediction
from bayesnn_ppl.references.problems import PROBLEMS, Problem

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_FOLDER = Path(__file__).parent


@readable
class Moments(NamedTuple):
    """What a run says of its function values, with Monte Carlo standard errors.

    Every field has the shape of one draw, (N, ...); quantiles and their errors have the levels of
    `LEVELS` as a first axis.
    """

    mean: Any
    sd: Any
    quantiles: Any
    mean_error: Any
    sd_error: Any
    quantile_errors: Any


@readable
@dataclass(frozen=True, eq=False)
class ReferencePosterior:
    """A posterior known from long runs of two exact samplers, at the test rows of its data.

    Function values are in the units the model is trained in: standardised targets, as
    `data.load` gives them.

    Attributes:
        name: what it is loaded by.
        draws: output -> (chain, draw, N, ...) thinned, nearly independent draws: `mean` and noise
            `sd`, or `probability` (N, K). The first half of the chains is of the first sampler.
        moments: output -> `Moments` from all draws of both samplers; for labels those of
            `log_odds` (N, K - 1) too, which are what is compared.
        facts: JSON-ready: samplers with settings, R-hat and effective sample sizes; their
            agreement; the wrong temperature; command, versions and hashes.
    """

    name: str
    draws: Mapping[str, np.ndarray]
    moments: Mapping[str, Moments]
    facts: Mapping[str, Any]
    _fingerprint: np.ndarray

    @property
    def problem(self) -> Problem:
        """Data and model of the posterior."""
        return PROBLEMS[self.name]

    @property
    def task(self) -> str:
        """Either "regression" or "classification"."""
        return "classification" if "probability" in self.draws else "regression"

    @property
    def rows(self) -> int:
        """The number of test rows N."""
        return len(self._fingerprint)

    def model(self) -> Any:
        """The NumPyro model, with its temperature."""
        return self.problem.model()

    def data(self) -> Any:
        """The `Dataset`, split 0, whose test rows the reference is for.

        Raises:
            FileNotFoundError: the data are read from a file that is not there.
            ValueError: the file holds other data.
        """
        data = self.problem.data()
        if data.sha256 != self.facts["data"]["sha256"]:
            raise ValueError(
                f"The data set `{data.name}` at hand is not the one that the reference "
                f"`{self.name}` was made from: its hash is {data.sha256[:12]}, and "
                f"{self.facts['data']['sha256'][:12]} was expected. Lay out a fresh copy."
            )
        return data

    def is_at(self, x: Any) -> bool:
        """Whether inputs (M, d) are the test rows of the reference, in their order."""
        x = np.asarray(x)
        if x.ndim != 2 or len(x) != self.rows:
            return False
        return bool(np.allclose(fingerprint(x), self._fingerprint, atol=1e-3))

    def predict(self, x: Any) -> ReferencePrediction:
        """The predictive distribution at the test rows, in the data's units.

        Raises:
            ValueError: `x` are other rows.
        """
        if not self.is_at(x):
            raise ValueError(
                f"The reference `{self.name}` is known at the {self.rows} test rows of "
                f'`data.load("{self.problem.data_name}")`, split 0, and `x` of shape '
                f"{np.shape(x)} are others. Pass `data.test.x` as it was loaded."
            )
        units = self.facts["units"]
        return ReferencePrediction(self.draws, centre=units["y_mean"], scale=units["y_scale"])

    def _figures(self) -> dict[str, Any]:
        samplers = [sampler["kernel"] for sampler in self.facts["samplers"]]
        return {"name": self.name, "task": self.task, "rows": self.rows, "samplers": samplers}

    def __str__(self) -> str:
        facts = self.facts
        lines = [
            f"Reference posterior {self.name}: {self.task}, {self.rows} test rows",
            f"  {facts['description']}",
        ]
        for sampler in facts["samplers"]:
            lines.append(
                f"  {sampler['kernel']}: {sampler['chains']} chains of {sampler['draws']} draws, "
                f"R-hat {sampler['rhat_max']:.4f} at most, ESS {sampler['ess_min']:.0f} at least"
            )
        agreement, control = facts["agreement"], facts["control"]
        lines += [
            f"  The samplers' means and sds differ by {agreement['largest']:.1f} standard errors "
            f"at most in {agreement['comparisons']} comparisons (allowed "
            f"{agreement['allowed']:.1f}).",
            f"  A temperature wrong by the factor {control['factor']:.2g} is "
            f"{control['largest']:.0f} standard errors away.",
        ]
        return "\n".join(lines)


def names() -> tuple[str, ...]:
    """Names of the reference posteriors that the package holds."""
    return tuple(name for name in PROBLEMS if _paths(name)[0].is_file())


@cache
def load(name: str) -> ReferencePosterior:
    """Read a reference posterior.

    Args:
        name: one of `names()`.

    Raises:
        ValueError: there is none of this name, or its file is damaged.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> bnn.references.load("wine-cold").rows
        18
    """
    if name not in names():
        raise ValueError(f"There is no reference posterior {name!r}. {near_misses(name, names())}")
    arrays_path, facts_path = _paths(name)
    facts = json.loads(facts_path.read_text(encoding="utf-8"))
    content = arrays_path.read_bytes()
    if hashlib.sha256(content).hexdigest() != facts["sha256"]:
        raise ValueError(
            f"The file `{arrays_path.name}` of the package is damaged: its hash is not the one "
            "that was recorded. Install the package again."
        )
    arrays = read_npz(BytesIO(content))
    kept = {n.removesuffix(".draws"): a for n, a in arrays.items() if n.endswith(".draws")}
    draws = {n: a.astype(np.float32) for n, a in kept.items() if n != "log_odds"}
    if "log_odds" in kept:
        draws["probability"] = probabilities(kept["log_odds"])
    for values in draws.values():
        values.flags.writeable = False
    outputs = [n.removesuffix(".mean") for n in arrays if n.endswith(".mean")]
    moments = {
        output: Moments(*(arrays[f"{output}.{field}"] for field in Moments._fields))
        for output in outputs
    }
    return ReferencePosterior(name, draws, moments, facts, arrays["fingerprint"])


def log_odds(p: np.ndarray) -> np.ndarray:
    """log p_k - log p_K for k < K, of probabilities (..., K) as (..., K - 1).

    Probabilities near 0 have long tails, which a few draws decide; their logarithms have not.
    """
    logs = np.log(np.maximum(np.asarray(p, dtype=np.float64), np.finfo(np.float32).tiny))
    return logs[..., :-1] - logs[..., -1:]


def probabilities(odds: np.ndarray) -> np.ndarray:
    """The probabilities (..., K) of `log_odds` (..., K - 1), as float32."""
    full = np.concatenate([odds, np.zeros_like(odds[..., :1])], axis=-1).astype(np.float64)
    weights = np.exp(full - full.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def compared(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs as they are compared: log-odds in place of probabilities."""
    if "probability" in values:
        return {"log_odds": log_odds(values["probability"])}
    return dict(values)


def fingerprint(x: np.ndarray) -> np.ndarray:
    """One number for each row of x (N, d), which says whether rows are the same, in order.

    A fixed combination of the features: it survives the rounding of another machine, which a hash
    would not.
    """
    columns = np.arange(1, x.shape[1] + 1)
    return np.asarray(x, dtype=np.float64) @ np.cos(columns)


def _paths(name: str) -> tuple[Path, Path]:
    return _FOLDER / f"{name}.npz", _FOLDER / f"{name}.json"
