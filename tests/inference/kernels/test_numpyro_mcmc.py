"""Our kernels under `numpyro.infer.MCMC`: what it collects, and what it says where it cannot."""

import pickle

import jax
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC
from numpyro.util import nested_attrgetter

from bayesnn_ppl.inference.kernels import (
    HMC,
    MCLMC,
    SGHMC,
    ParallelTempering,
)
from bayesnn_ppl.inference.kernels.full_batch import chees, hmc, mclmc
from bayesnn_ppl.inference.kernels.full_batch import parallel_tempering as tempering
from bayesnn_ppl.inference.kernels.full_batch.metropolis_kernel import (
    MetropolisKernel,
    MetropolisState,
)
from bayesnn_ppl.inference.kernels.stochastic_gradient.base import (
    StochasticGradientKernel,
    StochasticGradientState,
)

KERNELS = {
    hmc.HMC: hmc.HMCState,
    chees.ChEES: chees.ChEESState,
    tempering.ParallelTempering: tempering.ParallelTemperingState,
    mclmc.MCLMC: mclmc.MCLMCState,
    MetropolisKernel: MetropolisState,
    StochasticGradientKernel: StochasticGradientState,
}


@pytest.mark.parametrize("state", KERNELS.values(), ids=lambda state: state.__name__)
def test_a_field_that_a_state_has_not_is_named(state):
    """NumPyro asks a tuple for the item "momenta", which says that indices are integers."""
    one = state(*range(len(state._fields) - 1), {"energy": 3})
    ask = nested_attrgetter("momenta")
    with pytest.raises(ValueError, match=rf"{state.__name__} has no field `momenta`.*All of them"):
        ask(one)
    assert nested_attrgetter("z", "energy")(one) == (one.z, one.statistics["energy"]) == (0, 3)
    assert one[0] == 0 and one[-2:] == tuple(one)[-2:] and pickle.loads(pickle.dumps(one)) == one
    assert type(jax.tree.map(lambda leaf: leaf + 1, one)) is state


@pytest.mark.parametrize(
    ("kernel", "field", "near"),
    [
        (MCLMC, "energy", "energy_error"),
        (ParallelTempering, "energy", "potential_energy"),
        (SGHMC, "potential_energy", "preconditioner"),
    ],
)
def test_near_misses_of_a_field_are_offered(kernel, field, near):
    state = KERNELS.get(kernel, StochasticGradientState)
    statistics = dict.fromkeys(kernel.recorded, 0)
    with pytest.raises(ValueError, match=f"no field `{field}`.*`{near}`"):
        nested_attrgetter(field)(state(*range(len(state._fields) - 1), statistics))


@pytest.mark.parametrize(("kernel", "state"), KERNELS.items(), ids=lambda kind: kind.__name__)
def test_divergences_are_collected_unasked_wherever_they_are_counted(kernel, state):
    counted = kernel is not StochasticGradientKernel
    assert kernel.default_fields.fget(kernel) == (("z", "diverging") if counted else ("z",))
    # Two are needed for the next draw, too.
    assert not set(kernel.recorded) - {"stopped", "step_size"} & set(state._fields)


def test_the_summary_of_numpyro_counts_divergences(capsys):
    def model():
        numpyro.sample("x", dist.Normal(0.0, 1.0))

    kernel = HMC(model, step_size=0.5, num_leapfrogs=2, adapt_step_size=False)
    mcmc = MCMC(kernel, num_warmup=4, num_samples=6, progress_bar=False)
    mcmc.run(jax.random.key(0))
    mcmc.print_summary()
    assert "Number of divergences: 0" in capsys.readouterr().out
