"""Markov kernels: each is a NumPyro `MCMCKernel`, for `sample` and for `numpyro.infer.MCMC`."""

from typing import Any as _Any

from bayesnn_ppl.arguments import no_attribute as _no_attribute
from bayesnn_ppl.inference.kernels.adjusted_mclmc import AdjustedMCLMC
from bayesnn_ppl.inference.kernels.atmc import ATMC
from bayesnn_ppl.inference.kernels.chees import ChEES
from bayesnn_ppl.inference.kernels.hmc import HMC
from bayesnn_ppl.inference.kernels.langevin import Langevin
from bayesnn_ppl.inference.kernels.leapfrog import izmailov_trajectory
from bayesnn_ppl.inference.kernels.mala import MALA
from bayesnn_ppl.inference.kernels.mclmc import MCLMC
from bayesnn_ppl.inference.kernels.obabo import OBABO
from bayesnn_ppl.inference.kernels.parallel_tempering import ParallelTempering
from bayesnn_ppl.inference.kernels.random_walk import RandomWalk
from bayesnn_ppl.inference.kernels.sghmc import SGHMC
from bayesnn_ppl.inference.kernels.sgld import SGLD
from bayesnn_ppl.inference.kernels.sgnht import SGNHT
from bayesnn_ppl.inference.kernels.teaching import (
    BiasedMinibatchHMC,
    BiasedMinibatchMetropolis,
)

__all__ = [
    "ATMC",
    "HMC",
    "MALA",
    "MCLMC",
    "OBABO",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "AdjustedMCLMC",
    "BiasedMinibatchHMC",
    "BiasedMinibatchMetropolis",
    "ChEES",
    "Langevin",
    "ParallelTempering",
    "RandomWalk",
    "izmailov_trajectory",
]
_OF_NUMPYRO = ("AIES", "BarkerMH", "ESS", "NUTS", "SA")


def __getattr__(name: str) -> _Any:
    hint = ""
    if name in _OF_NUMPYRO:
        hint = f"It is NumPyro's: `from numpyro.infer import {name}`."
    raise _no_attribute(__name__, name, __all__, hint)
