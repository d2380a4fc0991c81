"""Markov kernels: each is a NumPyro `MCMCKernel`, for `sample` and for `numpyro.infer.MCMC`."""

from typing import Any as _Any

from bayesnn_ppl.core.arguments import no_attribute as _no_attribute
from bayesnn_ppl.inference.kernels.full_batch.chees import ChEES
from bayesnn_ppl.inference.kernels.full_batch.hmc import HMC
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import izmailov_trajectory
from bayesnn_ppl.inference.kernels.full_batch.mala import MALA
from bayesnn_ppl.inference.kernels.full_batch.microcanonical.adjusted_mclmc import AdjustedMCLMC
from bayesnn_ppl.inference.kernels.full_batch.microcanonical.mclmc import MCLMC
from bayesnn_ppl.inference.kernels.full_batch.parallel_tempering import ParallelTempering
from bayesnn_ppl.inference.kernels.full_batch.random_walk import RandomWalk
from bayesnn_ppl.inference.kernels.full_batch.tempered_smc import TemperedSMC
from bayesnn_ppl.inference.kernels.full_batch.walnuts import WALNUTS
from bayesnn_ppl.inference.kernels.stochastic_gradient.atmc import ATMC
from bayesnn_ppl.inference.kernels.stochastic_gradient.biased_examples import (
    BiasedMinibatchHMC,
    BiasedMinibatchMetropolis,
)
from bayesnn_ppl.inference.kernels.stochastic_gradient.langevin import Langevin
from bayesnn_ppl.inference.kernels.stochastic_gradient.microcanonical.sgmclmc import SGMCLMC
from bayesnn_ppl.inference.kernels.stochastic_gradient.obabo import OBABO
from bayesnn_ppl.inference.kernels.stochastic_gradient.sghmc import SGHMC
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgld import SGLD
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgnht import SGNHT

__all__ = [
    "ATMC",
    "HMC",
    "MALA",
    "MCLMC",
    "OBABO",
    "SGHMC",
    "SGLD",
    "SGMCLMC",
    "SGNHT",
    "WALNUTS",
    "AdjustedMCLMC",
    "BiasedMinibatchHMC",
    "BiasedMinibatchMetropolis",
    "ChEES",
    "Langevin",
    "ParallelTempering",
    "RandomWalk",
    "TemperedSMC",
    "izmailov_trajectory",
]
_OF_NUMPYRO = ("AIES", "BarkerMH", "ESS", "NUTS", "SA")


def __getattr__(name: str) -> _Any:
    hint = ""
    if name in _OF_NUMPYRO:
        hint = f"It is NumPyro's: `from numpyro.infer import {name}`."
    raise _no_attribute(__name__, name, __all__, hint)
