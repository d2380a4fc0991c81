"""What a caller asks of `sample` or `fit`, as it was given."""

from dataclasses import dataclass
from typing import Any

from jax.sharding import Mesh

from bayesnn_ppl.inference.runtime.keep import Keep

__all__ = ["RunInputs"]


@dataclass(frozen=True, kw_only=True)
class RunInputs:
    """What runs of chains and fits share; see `sample` and `fit`.

    Attributes:
        method: the kernel, or the approximation.
        x, y: the training data, or the columns of a stream.
        on_disk: whether the result goes to a folder.
        simulated: whether the targets are simulated, so that labels may lack a class.
    """

    method: Any
    x: Any
    y: Any
    seed: int = 0
    mesh: Mesh | None = None
    float64: bool = False
    keep: Keep | None = None
    on_disk: bool = False
    simulated: bool = False
