"""What all kernels of this package share: from a model to a density, from one chain to many."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Self

import jax
from numpyro.infer import (
    AIES,
    ESS,
    HMC,
    HMCECS,
    NUTS,
    SA,
    BarkerMH,
    CustomGibbs,
    DiscreteGibbs,
    Gibbs,
    MixedHMC,
    init_to_uniform,
)
from numpyro.infer.mcmc import MCMCKernel
from numpyro.infer.util import initialize_model
from numpyro.util import is_prng_key

from bayesnn_ppl.core.arguments import integer, readable
from bayesnn_ppl.inference.kernels.common.blockwise_density import BlockwiseDensity
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.modeling.training_noise import clean

__all__ = ["EnsembleKernel", "ModelKernel", "OverChains", "has_accept_step", "needs_all_rows"]

# From `f(first, second, *shared)` of one chain to the same of all chains.
type OverChains = Callable[[Callable[..., Any]], Callable[..., Any]]

_ALL_ROWS = "needs the log density of all rows"
# Kernels of NumPyro that accept, choose from a tree, slice, or draw from a conditional, which in
# CustomGibbs is the caller's. HMCECS is not among them: its estimate of the likelihood has a target
# of its own.
_EXACT = (HMC, NUTS, BarkerMH, AIES, ESS, SA, MixedHMC, DiscreteGibbs, CustomGibbs)


@readable
class ModelKernel(MCMCKernel):
    """A Markov kernel on the posterior of a NumPyro model.

    A subclass gives two pure functions: `_start`, the state at a point, and `_draw`, one draw.
    Both see one chain; keys of many chains are batched here, as NumPyro's "vectorized" wants it.
    The state is a NamedTuple with at least `rng_key`, `z` (site -> unconstrained value), and last
    `statistics` (name -> array), which the next draw does not read.

    The class attributes say what a kernel is; whoever runs or judges it reads them.

    Attributes:
        accept_step: whether a Metropolis step leaves the target exactly unchanged. Without one the
            step size, or the noise of minibatches, biases the draws, and a diagnosis asks for
            temperatures.
        recorded: the statistics that a run keeps of every draw.
        step_arguments: those of which one must be given, where a step has several names.
        least_chains: how many chains there must be.
        learns_trajectory_length: whether the warm-up finds it, where it is not given.
        starts_from_prior: whether chains must start at draws from the prior.
        usual_run: the settings of a run, such as `chains`, where a shell's usual ones do not fit.
    """

    accept_step: bool = False
    recorded: tuple[str, ...] = ()
    step_arguments: tuple[str, ...] = ()
    least_chains: int = 1
    learns_trajectory_length: bool = False
    starts_from_prior: bool = False
    usual_run: Mapping[str, int] = MappingProxyType({})

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        init_strategy: Any = init_to_uniform,
        rows_at_once: int | None = None,
    ) -> None:
        if not callable(model):
            raise TypeError(
                f"{type(self).__name__} takes a NumPyro model, a function of (x, y), not {model!r}."
            )
        self._model, self.init_strategy = model, init_strategy
        if rows_at_once is not None:
            what = f"`rows_at_once` of {type(self).__name__}"
            rows_at_once = integer(rows_at_once, what, at_least=1)
        self.rows_at_once = rows_at_once  # at most, of the data; None for all
        self._num_warmup: int | None = None
        self._postprocess: Any = None

    @property
    def model(self) -> Callable[..., Any]:
        return self._model

    @property
    def kinetic_distribution(self) -> str:
        """By which a kinetic temperature of its momenta is judged; "none" without momenta.

        Others are "BAOAB", "OBABO", "symplectic Euler" and "thermostat".
        """
        return "none"

    @property
    def superchains(self) -> int | None:
        """How many groups of chains side by side know nothing of each other; None: all chains."""
        return None

    @property
    def needs_all_rows(self) -> str | None:
        """Why a draw needs the exact density of all rows, as a verb phrase; None: it does not.

        A kernel that does not can be given its rows a few at a time, and models whose log density
        is random in training.
        """
        return _ALL_ROWS

    @property
    def sample_field(self) -> str:
        return "z"

    @property
    def default_fields(self) -> tuple[str, ...]:
        """What `numpyro.infer.MCMC` collects unasked: its summary counts divergences of these."""
        return ("z", "diverging") if "diverging" in self.recorded else ("z",)

    def wrap_model(self, wrapper: Callable[..., Any]) -> Self:
        """A copy that has never run, on `wrapper(model)`."""
        fresh = copy.copy(self)
        fresh._model = wrapper(self._model)
        fresh._num_warmup = fresh._postprocess = None
        return fresh

    def init(
        self,
        rng_key: Any,
        num_warmup: int,
        init_params: Any = None,
        model_args: tuple[Any, ...] = (),
        model_kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The state of one chain, or of several when `rng_key` holds several keys."""
        kwargs = dict(model_kwargs or {})
        one = is_prng_key(rng_key)
        split = jax.random.split if one else jax.vmap(jax.random.split, out_axes=1)
        rng_key, init_key = split(rng_key)
        z = self.bind(init_key, num_warmup, init_params, model_args, kwargs)

        def start(key: Any, z: Any) -> Any:
            return self._start(key, z, self._density(model_args, kwargs, z))

        return (start if one else jax.vmap(start))(rng_key, z)

    def bind(
        self,
        rng_key: Any,
        num_warmup: int,
        init_params: Any,
        model_args: tuple[Any, ...],
        model_kwargs: Mapping[str, Any],
    ) -> Any:
        """Take in the length of the warm-up and the model's sites, as `init` does.

        Returns:
            `init_params`, or a point that NumPyro found where that is None.
        """
        self._num_warmup = num_warmup
        info = initialize_model(
            rng_key,
            clean(self._model),
            dynamic_args=True,
            init_strategy=self.init_strategy,
            model_args=self._first_rows(model_args),
            model_kwargs=dict(model_kwargs),
            validate_grad=init_params is None,
        )
        self._postprocess = info.postprocess_fn
        return info.param_info.z if init_params is None else init_params

    def sample(self, state: Any, model_args: tuple[Any, ...], model_kwargs: Any) -> Any:
        """One draw of each chain of the state."""
        if self._num_warmup is None:
            raise RuntimeError(
                f"{type(self).__name__}.init must be called before sample: it says how long the "
                "warm-up is."
            )

        def draw(state: Any) -> Any:
            return self._draw(state, self._density(model_args, dict(model_kwargs or {}), state.z))

        return self._move(draw, state)

    def _move(self, draw: Callable[[Any], Any], state: Any) -> Any:
        return (draw if is_prng_key(state.rng_key) else jax.vmap(draw))(state)

    def postprocess_fn(self, model_args: tuple[Any, ...], model_kwargs: Any) -> Any:
        """The map from unconstrained to constrained values of all sites."""
        return self._postprocess(*model_args, **dict(model_kwargs or {}))

    def _first_rows(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """What a start is tried on: the whole data, or a block of it."""
        if self.rows_at_once is None:
            return args
        return tuple(None if a is None else a[: self.rows_at_once] for a in args)

    def _density(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], z: Any) -> Density:
        density = Density.at(self._model, args, kwargs, z)
        rows = self.rows_at_once
        if rows is None or (args and args[0].shape[0] <= rows):
            return density
        return BlockwiseDensity.of(density, rows)

    @abstractmethod
    def _start(self, key: Any, z: Any, density: Density) -> Any:
        """The state of a chain at the unconstrained point `z`."""

    @abstractmethod
    def _draw(self, state: Any, density: Density) -> Any:
        """The state one draw later."""


def _in_one_batch(function: Callable[..., Any]) -> Callable[..., Any]:
    def of_all(first: Any, second: Any, *shared: Any) -> Any:
        return jax.vmap(lambda one, two: function(one, two, *shared))(first, second)

    return of_all


class EnsembleKernel(ModelKernel):
    """A kernel whose state holds all chains, which learn together; `_start` and `_draw` see all.

    A subclass also says in `_check_ensemble` what it cannot run with. The state's `rng_key` is one
    key for all chains.

    Attributes:
        over_chains: makes a function of one chain one of all. Its first two arguments and its
            results then have a leading axis of chains, and all others are shared. One batch here;
            whoever runs the kernel may set it, and spread the chains over devices.
    """

    over_chains: OverChains = staticmethod(_in_one_batch)

    @property
    def is_ensemble_kernel(self) -> bool:
        return True

    def init(
        self,
        rng_key: Any,
        num_warmup: int,
        init_params: Any = None,
        model_args: tuple[Any, ...] = (),
        model_kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The state of all chains; `rng_key` holds one key for each, `init_params` their points."""
        kwargs = dict(model_kwargs or {})
        chains = 1 if is_prng_key(rng_key) else rng_key.shape[0]
        self._check_ensemble(chains, num_warmup, model_args, kwargs)
        keys = jax.vmap(partial(jax.random.split, num=2), out_axes=1)(rng_key)
        z = self.bind(keys[0], num_warmup, init_params, model_args, kwargs)
        return self._start(keys[1][0], z, self._density(model_args, kwargs, z))

    def _move(self, draw: Callable[[Any], Any], state: Any) -> Any:
        return draw(state)

    def _density(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], z: Any) -> Density:
        return super()._density(args, kwargs, jax.tree.map(lambda leaf: leaf[0], z))

    @abstractmethod
    def _check_ensemble(
        self, chains: int, num_warmup: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """ValueError where so many chains, or the warm-up or the model, cannot be run."""


def needs_all_rows(kernel: MCMCKernel) -> str | None:
    """`ModelKernel.needs_all_rows`; kernels of somebody else do."""
    return kernel.needs_all_rows if isinstance(kernel, ModelKernel) else _ALL_ROWS


def has_accept_step(kernel: MCMCKernel) -> bool | None:
    """Whether a kernel leaves its target exactly unchanged; None where that is not known.

    A kernel of somebody else may say so by an attribute `accept_step`. Gibbs sampling, HMCGibbs and
    DiscreteHMCGibbs included, is as exact as the least exact of its blocks.
    """
    declared = getattr(kernel, "accept_step", None)
    if isinstance(declared, bool):
        return declared
    if isinstance(kernel, HMCECS):
        return False
    if isinstance(kernel, Gibbs):
        blocks = [has_accept_step(block) for block in kernel._kernels]
        return False if False in blocks else None if None in blocks else True
    return True if isinstance(kernel, _EXACT) else None
