"""Which methods take a program whose log density is random in training."""

from typing import Any

from bayesnn_ppl.inference.contract import ModelSummary
from bayesnn_ppl.inference.kernels.stochastic_gradient.base import StochasticGradientKernel

__all__ = ["check_kernel_of_noise", "check_training_of_noise"]

_RANDOM = "The program's log density is random in training (augmented inputs, or live dropout)"
_OTHERWISE = "or the likelihood without augmentation and dropout."


def check_kernel_of_noise(kernel: Any, summary: ModelSummary) -> None:
    """Raise ValueError unless the kernel samples such a program as it is said to.

    The law is exp(-U/T) with U(θ) = -E log p(y | a(x), θ) - log p(θ), the mean over the noise a.
    A minibatch kernel follows gradients that are unbiased for those of U, whatever else is random
    in them; everything else needs U itself.
    """
    if not summary.noisy:
        return
    name = type(kernel).__name__
    use = f"Use a minibatch kernel without them, such as `bnn.kernels.SGHMC`, {_OTHERWISE}"
    if not isinstance(kernel, StochasticGradientKernel):
        raise ValueError(
            f"{_RANDOM}, and {name} needs one number at each position: with a fresh one each time "
            f"there is no target that it leaves invariant, and with one noise for all steps it "
            f"would be the posterior of another data set. {use}"
        )
    if kernel.accept_step:
        raise ValueError(
            f"{_RANDOM}, and {name} accepts or rejects by the density of all rows, which it does "
            f"not know. {use}"
        )
    if kernel._gradient.full:
        raise ValueError(
            f"{_RANDOM}, and `gradient={kernel._gradient}` of {name} takes a full gradient for "
            "exact, which here has the noise of one draw: every step until the next anchor would "
            f'be off by it. Use `gradient="minibatch"`, {_OTHERWISE}'
        )


def check_training_of_noise(approximation: Any, summary: ModelSummary) -> None:
    """Raise ValueError unless the approximation asks no more of the density than gradients."""
    if summary.noisy and not getattr(approximation, "takes_noise", False):
        raise ValueError(
            f"{_RANDOM}, and {type(approximation).__name__} evaluates it for more than a step of "
            "training: as a curvature, an evidence, a bound or a force, where each number would "
            "be another one. `MAP` and `Ensemble` take it, with fresh noise each step; "
            f"so do minibatch kernels such as `bnn.kernels.SGHMC`. Use one of these, {_OTHERWISE}"
        )
