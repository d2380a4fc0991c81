"""Dropout as variational inference, its rates fixed or learned."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import jax
import numpy as np

from bayesnn_ppl.core.arguments import integer, near_misses, readable
from bayesnn_ppl.inference.approximations.trained_networks.dropout_model import (
    RATE_SITES,
    DropoutModel,
    Layer,
    find_layers,
    mask,
)
from bayesnn_ppl.inference.approximations.trained_networks.trained import TrainedByGradients
from bayesnn_ppl.inference.fitting.approximation import Finding, Fitted
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.inference.training.trainer import cosine

__all__ = ["Dropout"]

_DRAWS = 0x4472_6F70  # stream of randomness
_EDGE = 1e-3  # of a learned rate that has gone to 0 or 1


@readable
@dataclass(frozen=True)
class Dropout(TrainedByGradients):
    r"""Monte Carlo dropout: weights with whole inputs of a layer dropped at random.

    The approximation of the kernel of each dense or convolutional layer is

        q(W) = M diag(z) / (1 - p),      z_k = 0 with probability p and else 1,

    one z_k for each input (of a convolution: channel) k, and a point for everything else. It
    minimises

        -(1/T) Σ_i E_q[log p(y_i | x_i, W)] - E_q[log p(W)] - Σ_layers K H(p)

    with K the inputs of a layer and H(p) = -p log p - (1-p) log(1-p), which for fixed rates is a
    constant. Both expectations are taken by Monte Carlo: a fresh mask for each row of a minibatch
    and layer, and one mask more for the prior, whatever it is; the sum over rows is N/B times that
    of the minibatch and the prior counts once. For a prior N(0, s²) the second term is
    |M|²/(2 s² (1-p)) plus a constant, the weight decay of dropout. The entropy of the masks is
    all that is left of KL(q || p), in which the width of the points is let go to 0 (Gal and
    Ghahramani). A likelihood temperature T counts once, as the model has it.

    `rate="concrete"` learns a rate for each layer together with the weights, from 0.1 on, with
    masks relaxed to the concrete distribution of temperature 0.1 while training.

    A draw is a set of weights with one mask multiplied in, so that masks are alive in every
    prediction and metric, and within a draw all inputs see the same network. No dropout layers
    are asked for: calls of Linen layers are intercepted. It takes the memory of `draws` sets of
    weights. Its variance is not that of the posterior: it hardly shrinks as rows are added unless
    the rates are learned.

    Args:
        model: a NumPyro model with a Flax Linen network.
        rate: p for all layers, first ones included; `{layer: p}` for those named and no others;
            or "concrete".
        draws: masks that the posterior consists of.
        objective, learning_rate, weight_decay, optimiser, schedule, batch_size, epochs,
        validation_fraction, patience, start, retries: of the training, see `MAP`. The rows held
            out are judged with live masks. "concrete" needs objective="posterior".

    Raises:
        TypeError, ValueError: an argument is not what it must be, or a layer's kernel is not a site
            of its own; raised before anything is compiled.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> data = bnn.data.load("diabetes")
        >>> dropout = bnn.approximations.Dropout(
        ...     bnn.models.mlp(hidden=(20,)), rate={"Dense_1": 0.1}, epochs=20, draws=50)
        >>> bnn.fit(dropout, *data.train, progress=False).draws["net.Dense_1.kernel"].shape
        (1, 50, 20, 1)

    References:
        Gal and Ghahramani (2016), arXiv:1506.02142; Gal, Hron and Kendall (2017),
        arXiv:1705.07832 (concrete dropout).
    """

    _learning_rate: ClassVar[float] = 3e-3
    _: KW_ONLY
    rate: Any = 0.1
    draws: int = 100
    schedule: Callable[[Any], Any] | None = cosine
    batch_size: int | None = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        integer(self.draws, "`draws`", at_least=1)
        if isinstance(self.rate, str):
            if self.rate != "concrete":
                raise ValueError(
                    f'`rate` must be a number in [0, 1), {{layer: number}} or "concrete", not '
                    f"{self.rate!r}."
                )
            if self.objective != "posterior":
                raise ValueError(
                    'rate="concrete" is learned by the prior and the entropy of the masks, which '
                    'objective="likelihood" leaves out: every rate would go to 0. Use '
                    'objective="posterior".'
                )
            return
        if isinstance(self.rate, Mapping) and not self.rate:
            raise ValueError("`rate` names no layer: give `{layer: rate}`, or one number for all.")
        for rate in self.rate.values() if isinstance(self.rate, Mapping) else (self.rate,):
            if isinstance(rate, bool) or not isinstance(rate, int | float | np.floating):
                raise TypeError(
                    f'`rate` must be a number in [0, 1), {{layer: number}} or "concrete", not '
                    f"{self.rate!r}."
                )
            if not 0 <= rate < 1:
                raise ValueError(
                    f"`rate` must be at least 0 and below 1, not {rate}: it is the share of "
                    "inputs that are dropped."
                )

    def solve(self, problem: Problem) -> Fitted:
        """Train with masks, and draw masks; see `fit`."""
        layers = find_layers(problem.model, problem.summary.latents, problem.x, problem.y)
        layers, given = self._chosen(layers)
        model = DropoutModel(problem.model, tuple(layers), given)
        trained = self.train_members(problem.with_model(model), 1)
        rates = dict(zip((layer.name for layer in layers), given or (), strict=False))
        if given is None:
            rates = {n.name: float(trained.values[RATE_SITES + n.name][0]) for n in layers}
        points = {n: a for n, a in trained.positions.items() if n in problem.summary.latents}
        return Fitted(
            positions=self._drawn(problem, layers, rates, points),
            record=self.record_with_losses(
                trained, dropout_rates={name: round(rate, 6) for name, rate in rates.items()}
            ),
            findings=(*self.findings(trained), *_rate_findings(rates, learned=given is None)),
            interrupted=trained.interrupted,
        )

    def _chosen(self, layers: list[Layer]) -> tuple[list[Layer], tuple[float, ...] | None]:
        """The layers that drop inputs, and their rates, None where they are learned."""
        if self.rate == "concrete":
            return layers, None
        if not isinstance(self.rate, Mapping):
            return layers, (float(self.rate),) * len(layers)
        known = [layer.name for layer in layers]
        for name in self.rate:
            if name not in known:
                raise ValueError(
                    f"`rate` names `{name}`, which is not a dense or convolutional layer of the "
                    "model. " + near_misses(str(name), known)
                )
        layers = [layer for layer in layers if layer.name in self.rate]
        return layers, tuple(float(self.rate[layer.name]) for layer in layers)

    def _drawn(
        self,
        problem: Problem,
        layers: list[Layer],
        rates: Mapping[str, float],
        points: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        """Site -> (1, draws, ...): the kernels masked, the rest repeated."""
        found = {
            name: np.broadcast_to(a[:, None], (1, self.draws, *a.shape[1:]))
            for name, a in points.items()
        }
        for number, layer in enumerate(layers):
            key = jax.random.fold_in(problem.key(_DRAWS), number)
            z = np.asarray(mask(key, rates[layer.name], (self.draws, layer.inputs)))
            kernel = points[layer.site]
            axes = (1, self.draws, *(1,) * (kernel.ndim - 3), layer.inputs, 1)
            found[layer.site] = kernel[:, None] * z.reshape(axes).astype(kernel.dtype)
        return found


def _rate_findings(rates: Mapping[str, float], *, learned: bool) -> tuple[Finding, ...]:
    """Learned rates that have gone to an edge."""
    gone = [name for name, rate in rates.items() if not _EDGE < rate < 1 - _EDGE]
    if not (learned and gone):
        return ()
    return (
        Finding(
            "remark",
            f"The learned rates of the layers {gone} are within {_EDGE} of 0 or 1: their masks "
            "say nothing of uncertainty, which is what more data or a narrower prior make of it.",
        ),
    )
