"""What a run keeps of its draws: weights, all or some, their moments, or function values."""

import hashlib
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, get_args

import jax
import numpy as np

from bayesnn_ppl.core.arguments import integer, near_misses, strict_switches
from bayesnn_ppl.core.arrays import check_array, check_targets
from bayesnn_ppl.core.npz import machine_memory
from bayesnn_ppl.data.common.dataset import Split
from bayesnn_ppl.distributed import current
from bayesnn_ppl.modeling.bayesian_networks import check_inputs
from bayesnn_ppl.modeling.contract import ModelSummary, observed_distribution
from bayesnn_ppl.modeling.target_support import check_support
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.storage import GROUPS, RunFolder, variable_names

__all__ = [
    "Keep",
    "Probe",
    "check_every",
    "check_keep",
    "check_memory",
    "rounded",
    "with_kept_groups",
]

type Weights = Literal["all", "moments", "none"]


@strict_switches
@dataclass(frozen=True)
class Keep:
    """What a run keeps of its draws, for `sample(..., keep=...)`.

    Statistics of the sampler are kept of every draw. With function values a posterior is
    diagnosed and scored without its weights, and without the model.

    Args:
        weights: "all"; "moments", mean and variance of every weight over the draws of each chain,
            in double precision, and no draw; or "none".
        every: keep the weights of every k-th draw only (function values of all).
        bfloat16: round the weights on disk to bfloat16 (8 significant bits, relative error at most
            2⁻⁹): about half the space. The sampler itself continues with the full numbers.
        probe: inputs x (M, ...), or a pair (x, y) with targets, prepared as the training data.
            Of every draw is kept what its network says there (mean and sd, or class
            probabilities), one predictive sample, and with y the log likelihood. The run holds
            a copy of them.
        groups: names of groups that ArviZ's functions look for, such as "log_likelihood" and
            "observed_data", see `Posterior.with_groups`. They are made from the weights and the
            training data when the run is complete, and stored with it.

    Raises:
        TypeError, ValueError: an unknown word, or a combination that keeps nothing or contradicts
            itself.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> data = bnn.data.load("diabetes")
        >>> bnn.Keep(weights="none", probe=data.test).weights
        'none'
    """

    weights: Weights = "all"
    every: int = 1
    bfloat16: bool = False
    probe: Any = None
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = get_args(Weights.__value__)
        if self.weights not in known:
            raise ValueError(
                f"`Keep(weights={self.weights!r})` is unknown. "
                + near_misses(str(self.weights), known)
            )
        integer(self.every, "`Keep(every=...)`", at_least=1)
        if self.weights == "none" and self.probe is None:
            raise ValueError(
                '`Keep(weights="none")` without probe inputs would keep nothing of the posterior. '
                "Give the inputs at which function values are kept: `probe=(x, y)`."
            )
        if self.weights != "all" and (self.every > 1 or self.bfloat16):
            raise ValueError(
                f'`every` and `bfloat16` are about kept weights, and weights="{self.weights}" '
                "keeps none. Leave them out."
            )
        names = (self.groups,) if isinstance(self.groups, str) else tuple(self.groups)
        object.__setattr__(self, "groups", names)
        for name in names:
            if name not in GROUPS:
                raise ValueError(
                    f"`Keep(groups=...)` has {name!r}, which is unknown. "
                    + near_misses(str(name), GROUPS)
                )
        if names and self.weights != "all":
            raise ValueError(
                f'`Keep(groups=...)` are made from the weights, and weights="{self.weights}" keeps '
                "no draws of them. A run whose probe inputs are its training data has them: "
                "`posterior.with_groups(...)`."
            )


@dataclass(frozen=True)
class Probe:
    """Inputs, and perhaps targets, at which function values are kept.

    Attributes:
        x: (M, ...).
        y: (M, ...) or None, in the units the model is given.
    """

    x: np.ndarray
    y: np.ndarray | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name, `y` only where it is known."""
        return {"x": self.x} if self.y is None else {"x": self.x, "y": self.y}

    def sha256(self) -> str:
        """A hash of shapes, types and values."""
        digest = hashlib.sha256()
        for array in self.arrays().values():
            digest.update(f"{array.shape}{array.dtype}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def check_keep(
    keep: Keep | None,
    model: Any,
    summary: ModelSummary,
    inputs: np.ndarray,
    *,
    columns: list[str] | None,
    on_disk: bool,
    float64: bool,
) -> tuple[Keep, Probe | None]:
    """Check what is to be kept against the model; the probe inputs as compiled functions take them.

    Raises:
        TypeError: `keep` is not a `Keep`, or the probe inputs hold no numbers.
        ValueError: bfloat16 in memory, a model without predictions at new inputs, or probe inputs
            that do not fit it.
    """
    variable_names(summary.stored)  # names under which two sites would be stored are refused
    keep = Keep() if keep is None else keep
    if not isinstance(keep, Keep):
        raise TypeError(
            f"`keep` must be a `bayesnn_ppl.Keep`, such as `Keep(every=10)`, not {keep!r}."
        )
    if keep.bfloat16 and not on_disk:
        raise ValueError(
            "`Keep(bfloat16=True)` saves space on disk and none in memory. Give a folder, "
            "`out=...`, or leave it out."
        )
    if keep.groups and summary.local:
        raise ValueError(
            f"The model has latent sites of single rows, {list(summary.local)}, and "
            "what is said of a row holds its own. Leave `Keep(groups=...)` out."
        )
    if keep.groups and current().count > 1:
        raise ValueError(
            "`Keep(groups=...)` is for runs of one process. Leave it out, and add the groups to "
            "the finished run: `load(path, model=...).with_groups(..., x=x, y=y)`."
        )
    if keep.probe is None:
        return keep, None
    given = tuple(keep.probe) if isinstance(keep.probe, tuple | Split) else (keep.probe, None)
    if len(given) != 2:
        raise TypeError(f"`Keep(probe=...)` is x or a pair (x, y), not {len(given)} arrays.")
    x = check_array(given[0], "the probe inputs", float64=float64, columns=columns)
    if x.shape[1:] != inputs.shape[1:]:
        raise ValueError(
            f"The probe inputs have rows of shape {x.shape[1:]}, but the model is trained on rows "
            f"of shape {inputs.shape[1:]}. Prepare them as the training inputs."
        )
    if summary.local:
        raise ValueError(
            f"The model has latent sites of single rows, {list(summary.local)}: one "
            "value for each training row, and none for new rows. Leave `probe` out."
        )
    check_inputs(model, x)
    fn = observed_distribution(model, x)
    if given[1] is None:
        return keep, Probe(x)
    y = check_targets(given[1], "the probe targets", float64=float64)
    if y.shape != tuple(fn.shape()):
        raise ValueError(
            f"`y` at the probe inputs has shape {y.shape}, but the model predicts shape "
            f"{tuple(fn.shape())} at the probe inputs."
        )
    check_support(fn, y, "the probe targets")
    return keep, Probe(x, y.astype(np.int32) if summary.discrete else y)


def check_every(keep: Keep, draws: int) -> None:
    """Raise ValueError where `draws` draws of each chain end before the first kept one."""
    if keep.every > draws:
        raise ValueError(
            f"`Keep(every={keep.every})` keeps the weights of one draw in {keep.every}, and each "
            f"chain makes {draws}, so none would be kept. Leave `every` out, or give at most the "
            "number of draws."
        )


def check_memory(
    summary: ModelSummary, *, chains: int, draws: int, float64: bool, instead: str
) -> None:
    """Raise ValueError where so many draws of all weights are more than this machine can hold.

    Args:
        summary: of the model.
        chains, draws: how many are kept.
        float64: whether a number takes eight bytes, and not four.
        instead: what else can be done.
    """
    values = sum(map(prod, summary.latents.values()))
    needed, memory = values * chains * draws * (8 if float64 else 4), machine_memory()
    if needed > memory:
        raise ValueError(
            f"{draws} draws of {values} values in {chains} chains take {needed / 2**30:.0f} GiB, "
            f"and this machine has {memory / 2**30:.0f} GiB of memory. {instead}"
        )


def rounded(array: np.ndarray) -> np.ndarray:
    """float32 numbers rounded to the nearest bfloat16, as float32."""
    return np.asarray(array.astype(jax.numpy.bfloat16).astype(np.float32))


def with_kept_groups(
    posterior: Posterior, keep: Keep, folder: RunFolder | None = None
) -> Posterior:
    """The posterior with the groups that `keep` asks for, in the folder of the run too.

    They are made from the weights, which a run that ends before its first kept draw has not.
    """
    if not keep.groups or not posterior.has_weights:
        return posterior
    found = posterior.with_groups(*keep.groups)
    if folder is not None:
        folder.keep_groups({name: found.tree[name].to_dataset() for name in keep.groups})
    return found
