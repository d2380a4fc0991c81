"""Whether a kernel and its model go together."""

from dataclasses import replace
from typing import Any

from numpyro.infer.mcmc import MCMCKernel

from bayesnn_ppl.inference.kernels.common.model_kernel import needs_all_rows
from bayesnn_ppl.modeling.contract import RANDOM_DENSITY, WITHOUT_NOISE, ModelSummary

__all__ = ["check_kernel", "check_noise", "tempered"]


def check_kernel(kernel: Any) -> None:
    """TypeError or ValueError unless it is a kernel that has a model."""
    if not isinstance(kernel, MCMCKernel):
        hint = " Build it from your model: `NUTS(model)`." if callable(kernel) else ""
        raise TypeError(
            "The kernel must be a numpyro.infer.mcmc.MCMCKernel such as `NUTS(model)`, "
            f"not {kernel!r}.{hint}"
        )
    if getattr(kernel, "model", None) is None:
        raise ValueError(
            f"The kernel {type(kernel).__name__} has no model. Build it from a model, "
            f"`{type(kernel).__name__}(model)`, not from a potential function: predictions need "
            "the model."
        )


def check_noise(kernel: MCMCKernel, summary: ModelSummary) -> None:
    """Raise ValueError unless the kernel samples a model with noise in training as it is said to.

    The target is exp(-U/T) with U(θ) = -E log p(y | a(x), θ) - log p(θ), the mean over the noise
    a. A minibatch kernel follows gradients that are unbiased for those of U, whatever else is
    random in them; everything else needs U itself.
    """
    why = needs_all_rows(kernel)
    if summary.noisy and why is not None:
        raise ValueError(
            f"{RANDOM_DENSITY}, and {type(kernel).__name__} {why}, which would be another one at "
            "each look: there is no target that it leaves invariant. Use a minibatch kernel "
            'without an accept step, such as `bnn.kernels.SGHMC`, with `gradient="minibatch"`, '
            f"{WITHOUT_NOISE}"
        )


def tempered(summary: ModelSummary, kernel: MCMCKernel) -> ModelSummary:
    """The summary at the kernel's own temperature, which is that of the whole posterior.

    Raises:
        ValueError: the model has latent sites of single rows that a minibatch cannot move, or a
            temperature of its own, besides that of the kernel.
    """
    temperature = getattr(kernel, "posterior_temperature", 1.0)
    if summary.local and hasattr(kernel, "batch_size"):
        raise ValueError(
            f"The latent sites {list(summary.local)} have a value for each row of the data, and a "
            f"minibatch of {type(kernel).__name__} has no rows to move the others by. Integrate "
            "them out, or take a kernel of the whole data such as NUTS."
        )
    moves = callable(getattr(kernel, "temperature", None))  # and may end at 1
    if temperature == 1.0 and not moves:
        return summary
    told = f"a temperature that moves to {temperature}" if moves else f"temperature {temperature}"
    if summary.posterior_temperature != 1.0:
        raise ValueError(
            f"The model is `cold`, T = {summary.posterior_temperature}, and the kernel has "
            f"{told}: two whole-posterior temperatures multiply without a "
            "trace. Give the kernel the temperature, and the model as it was before `cold`."
        )
    if summary.likelihood_temperature != 1.0:
        raise ValueError(
            f"The likelihood of the model is tempered, T = {summary.likelihood_temperature}, and "
            f"{type(kernel).__name__} has {told}, of the whole posterior: the two would multiply "
            "on the likelihood. Temper once: leave `temperature` of the kernel out, or give it the "
            "model without `tempered` or a `temperature` of its own."
        )
    return replace(summary, posterior_temperature=temperature)
