"""The gallery's samplers, each with its settings and with what to look at."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpyro
import numpyro.distributions as dist
from jax import vmap
from numpyro.infer import NUTS

from bayesnn_ppl.inference import kernels
from bayesnn_ppl.modeling.bayesian_networks import minibatch
from bayesnn_ppl.report.gallery.recording import (
    RecordingMALA,
    RecordingSGHMC,
    RecordingSGLD,
    RecordingWalk,
    orbit_path,
    tree_path,
)
from bayesnn_ppl.report.gallery.targets import log_densities

__all__ = ["BATCH", "LEAPFROGS", "SAMPLERS", "Sampler"]

BATCH = 8  # rows of a minibatch
LEAPFROGS = 10  # of HMC on average
_DEPTH = 6  # of the tree of NUTS: 63 leapfrogs
_ORBIT_DEPTH = 5  # of WALNUTS: 31 macro steps
_ORBIT: dict[str, Any] = {"energy_range": 1.0, "max_halvings": 4}

type Path = Literal["proposal", "leapfrogs", "tree", "steps", "particles"]


@dataclass(frozen=True)
class Sampler:
    """A kernel of the gallery.

    Attributes:
        kernel: with step one, as `step` counts; None for SVGD, which is not a Markov chain.
        step: the step size that serves most of the targets.
        meaning: what the step size is.
        gradients: for each draw, in words.
        look: a sentence: what to look at.
        path: what is drawn from one draw to the next.
        steps: steps of the kernel from one draw to the next.
        stochastic: whether it takes minibatches.
        exact: whether an accept step makes its draws exact at any step size.
        drift: whether a proposal's drift is drawn.
        tree: (key, position, density) of the state before a draw -> the points of its tree, and
            the directions of its doublings; None where `path` is another.
    """

    kernel: Any
    step: float
    meaning: str
    gradients: str
    look: str
    path: Path
    steps: int = 1
    stochastic: bool = False
    exact: bool = False
    drift: bool = False
    tree: Callable[..., tuple[Any, Any]] | None = None


def _model(x: Any, y: Any = None, *, batch_size: int | None = None) -> None:
    """The target as data: each row has a weight for each target, a slope, and the step."""
    # So wide a prior that it does not matter: the target is all there is.
    u = numpyro.sample("u", dist.Normal(0.0, 1e4).expand([2]).to_event(1))

    def log_target(row: Any) -> Any:
        weights, slope, step = row[:-3], row[-3:-1], row[-1]
        return weights @ log_densities(step * u) + slope @ (step * u)

    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = minibatch(x, y)
        numpyro.sample("y", dist.Delta(0.0, log_density=vmap(log_target)(x)), obs=y)


_FIXED: dict[str, Any] = {"adapt_step_size": False}
_FEW: dict[str, Any] = {"batch_size": BATCH, "steps_per_draw": 1}

SAMPLERS: dict[str, Sampler] = {
    "HMC": Sampler(
        kernels.HMC(_model, step_size=1.0, num_leapfrogs=LEAPFROGS, jitter=0.5, **_FIXED),
        0.2,
        "one leapfrog",
        f"{LEAPFROGS} on average",
        "Each draw gets a random push and follows a path of leapfrogs; the end of the path is the "
        "proposal, so good proposals lie far away. With a long step the path leaves the valley and "
        "the proposal is rejected.",
        "leapfrogs",
        exact=True,
    ),
    "NUTS": Sampler(
        NUTS(_model, step_size=1.0, adapt_mass_matrix=False, max_tree_depth=_DEPTH, **_FIXED),
        0.2,
        "one leapfrog",
        "one for each point of the tree",
        "The path doubles forwards or backwards until it begins to turn back; the draw is one of "
        "its points. Watch the path grow long in the valley and stay short in the bend. Points of "
        "a doubling that was cut short, drawn hollow, cannot be chosen.",
        "tree",
        exact=True,
        tree=partial(tree_path, depth=_DEPTH),
    ),
    "WALNUTS": Sampler(
        kernels.WALNUTS(
            _model, step_size=1.0, max_leapfrogs=2**_ORBIT_DEPTH - 1, mass="identity", **_ORBIT,
            **_FIXED,
        ),
        0.6,
        "one step of the path, of 1 to 16 leapfrogs",
        "two or more for each point of the path",
        "NUTS whose steps are divided where the energy would not hold: one long step takes one "
        "leapfrog where the valley is wide, and up to 16 in the bend or the neck of the funnel, "
        "which NUTS with as long a step cannot enter.",
        "tree",
        exact=True,
        tree=partial(orbit_path, depth=_ORBIT_DEPTH, **_ORBIT),
    ),
    "MALA": Sampler(
        RecordingMALA(_model, step_size=0.5, **_FIXED),
        0.4,
        "√(2η) of the drift η∇U",
        "1",
        "The arrow is the drift towards higher density; noise is added to it, and the result is "
        "accepted or rejected. It explores by many short moves.",
        "proposal",
        exact=True,
        drift=True,
    ),
    "random walk": Sampler(
        RecordingWalk(_model, step_size=1.0, **_FIXED),
        1.0,
        "standard deviation of a proposal",
        "none",
        "Proposals know nothing of the target. Long steps are mostly rejected (dashed), and short "
        "ones are accepted but hardly move.",
        "proposal",
        exact=True,
    ),
    "MCLMC": Sampler(
        kernels.MCLMC(
            _model, step_size=1.0, length=15.0, steps_per_draw=1, preconditioning="identity",
            **_FIXED,
        ),
        0.3,
        "one step along the path",
        "10",
        "The chain moves at constant speed and only its direction changes. Nothing is rejected, so "
        "a long step biases the draws: compare the bars with the exact curves.",
        "steps",
        steps=5,
    ),
    "SGLD": Sampler(
        RecordingSGLD(_model, step_size=0.5, **_FEW),
        0.3,
        "√(2ε) of the drift ε∇U",
        "¼, one minibatch of 8 of 32 rows",
        "The dark arrow is the true gradient, the orange one is that of the minibatch, and the "
        "cloud is the noise of other minibatches. With a long step this noise widens the draws.",
        "steps",
        stochastic=True,
    ),
    "SGHMC": Sampler(
        RecordingSGHMC(_model, step_size=1.0, momentum_decay=0.9, **_FEW),
        0.1,
        "√ε, a step in time",
        "2½, ten minibatches of 8 of 32 rows",
        "Momentum carries the chain through noisy gradients (arrows and cloud as for SGLD). "
        "Nothing is rejected: with a long step its numbers overflow, and a chain stops for good.",
        "steps",
        steps=10,
        stochastic=True,
    ),
    "SVGD": Sampler(
        None,
        0.1,
        "the rate of Adam",
        "1 for each particle",
        "Twenty particles move together: the gradient draws them to high density, and they push "
        "each other apart. They come to rest; they are not a Markov chain.",
        "particles",
    ),
}  # fmt: skip
