"""Which kernels take a model whose log density is random in training."""

from typing import Any

from bayesnn_ppl.inference.contract import RANDOM_DENSITY, WITHOUT_NOISE, ModelSummary
from bayesnn_ppl.inference.kernels.stochastic_gradient.base import StochasticGradientKernel

__all__ = ["check_kernel_of_noise"]


def check_kernel_of_noise(kernel: Any, summary: ModelSummary) -> None:
    """Raise ValueError unless the kernel samples such a program as it is said to.

    The law is exp(-U/T) with U(θ) = -E log p(y | a(x), θ) - log p(θ), the mean over the noise a.
    A minibatch kernel follows gradients that are unbiased for those of U, whatever else is random
    in them; everything else needs U itself.
    """
    if not summary.noisy:
        return
    name = type(kernel).__name__
    use = f"Use a minibatch kernel without them, such as `bnn.kernels.SGHMC`, {WITHOUT_NOISE}"
    if not isinstance(kernel, StochasticGradientKernel):
        raise ValueError(
            f"{RANDOM_DENSITY}, and {name} needs one number at each position: with a fresh one "
            "each time there is no target that it leaves invariant, and with one noise for all "
            f"steps it would be the posterior of another data set. {use}"
        )
    if kernel.accept_step:
        raise ValueError(
            f"{RANDOM_DENSITY}, and {name} accepts or rejects by the density of all rows, which it "
            f"does not know. {use}"
        )
    if kernel._gradient.full:
        raise ValueError(
            f"{RANDOM_DENSITY}, and `gradient={kernel._gradient}` of {name} takes a full gradient "
            "for exact, which here has the noise of one draw: every step until the next anchor "
            f'would be off by it. Use `gradient="minibatch"`, {WITHOUT_NOISE}'
        )
