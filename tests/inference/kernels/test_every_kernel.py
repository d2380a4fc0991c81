"""What every kernel promises: NumPyro runs it, a stopped run resumes, bad settings are refused."""

import pickle

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC
from numpyro.util import nested_attrgetter

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels import (
    ATMC,
    HMC,
    MALA,
    MCLMC,
    SGHMC,
    SGMCLMC,
    SGNHT,
    WALNUTS,
    AdjustedMCLMC,
    BiasedMinibatchHMC,
    ChEES,
    Langevin,
    ParallelTempering,
    RandomWalk,
    TemperedSMC,
)
from bayesnn_ppl.inference.kernels.full_batch import (
    chees,
    hmc,
    parallel_tempering,
    tempered_smc,
    walnuts,
)
from bayesnn_ppl.inference.kernels.full_batch.metropolis_kernel import (
    MetropolisKernel,
    MetropolisState,
)
from bayesnn_ppl.inference.kernels.full_batch.microcanonical import mclmc
from bayesnn_ppl.inference.kernels.stochastic_gradient.base import (
    StochasticGradientKernel,
    StochasticGradientState,
)
from bayesnn_ppl.inference.kernels.stochastic_gradient.preconditioners import (
    GradientNoise,
    RMSProp,
)
from tests.inference.kernels.known_moments import LINEAR, NO_DATA, SETTINGS, unrelated_data
from tests.marks import checked

METHODS = ("sequential", "vectorized", "parallel")
SMALL_STEPS = dict(step_size=1e-4, batch_size=8, steps_per_draw=4, minibatches="epoch")
KERNELS = {  # and the ways in which NumPyro can run their chains
    "HMC": (lambda: HMC(LINEAR, trajectory_length=0.7, jitter=0.4, mass="diagonal"), METHODS),
    "MALA": (lambda: MALA(LINEAR), ["vectorized"]),
    "RandomWalk": (lambda: RandomWalk(LINEAR), METHODS[:2]),
    "AdjustedMCLMC": (lambda: AdjustedMCLMC(LINEAR), METHODS),
    "MCLMC": (lambda: MCLMC(LINEAR), METHODS),
    "ChEES": (lambda: ChEES(LINEAR, max_leapfrogs=5, mass="fisher"), ["vectorized"]),
    "ParallelTempering": (
        lambda: ParallelTempering(LINEAR, temperatures=(1.0, 3.0), num_leapfrogs=4),
        METHODS[:2],
    ),
    "WALNUTS": (lambda: WALNUTS(LINEAR, max_leapfrogs=16), METHODS),
    "TemperedSMC": (lambda: TemperedSMC(LINEAR, runs=1, max_leapfrogs=5), ["vectorized"]),
    "SGHMC": (
        lambda: SGHMC(LINEAR, preconditioner=RMSProp(), **SMALL_STEPS | {"step_size": 1e-2}),
        METHODS,
    ),
    "SGMCLMC": (
        lambda: SGMCLMC(LINEAR, preconditioner=GradientNoise(), **SMALL_STEPS),
        METHODS,
    ),
}


@pytest.mark.parametrize("name", checked(KERNELS, "HMC", "SGHMC"))
def test_numpyro_runs_it(regression, name):
    make, methods = KERNELS[name]
    for method in methods:
        mcmc = MCMC(
            make(),
            num_warmup=20,
            num_samples=20,
            num_chains=2,
            chain_method=method,
            progress_bar=False,
        )
        mcmc.run(jax.random.key(0), *regression)
        theta = np.asarray(mcmc.get_samples(group_by_chain=True)["net/Dense_0.bias"])
        assert np.isfinite(theta).all() and len(np.unique(theta)) > 2
        assert (theta[0, -1] != theta[1, -1]).all()


@pytest.mark.parametrize("name", checked(KERNELS, "HMC", "SGHMC", "MCLMC"))
def test_a_stopped_run_resumes_bit_for_bit(regression, tmp_path, name):
    kernel = KERNELS[name][0]()
    settings = dict(warmup=40, draws=600, chains=2, seed=3, progress=False)
    if kernel.is_ensemble_kernel:
        settings["chain_method"] = "vectorized"
    whole = bnn.sample(kernel, *regression, **settings)

    def stop(progress):  # a block has 250 draws at most
        return progress.phase == "sample" and progress.done >= 7

    part = bnn.sample(kernel, *regression, out=tmp_path / "run", callback=stop, **settings)
    assert part.provenance["draws"] < 600
    resumed = bnn.resume(tmp_path / "run", KERNELS[name][0](), *regression, progress=False)
    for name, values in whole.draws.items():
        np.testing.assert_array_equal(resumed.draws[name], values)


LEAPFROGS = dict(num_leapfrogs=3)
STEP = dict(step_size=1e-4, batch_size=8)
# Kernel, settings, and the argument that the error names.
REFUSED = [
    (HMC, {}, "trajectory_length"),
    (HMC, {"num_leapfrogs": 3, "trajectory_length": 1.0}, "num_leap"),
    (HMC, {"num_leapfrogs": 0}, "num_leapfrogs"),
    (HMC, {"trajectory_length": -1.0}, "trajectory.length"),
    (HMC, {"prior_variance": 0.0}, "prior.variance"),
    (HMC, LEAPFROGS | {"step_size": 0.0}, "step.size"),
    (HMC, LEAPFROGS | {"jitter": 1.0}, "jitter"),
    (HMC, LEAPFROGS | {"jitter": -0.1}, "jitter"),
    (HMC, LEAPFROGS | {"target_accept": 1.5}, "target_accept"),
    (HMC, LEAPFROGS | {"mass": "dense"}, '"fisher", not .dense'),
    (MALA, {"step_size": -1.0}, "step.size"),
    (MALA, {"target_accept": 1.0}, "target_accept"),
    (RandomWalk, {"step_size": float("inf")}, "step.size"),
    (RandomWalk, {"target_accept": 0.0}, "target_accept"),
    (AdjustedMCLMC, {"step_size": 0.0}, "step_size"),
    (AdjustedMCLMC, {"target_accept": 1.0}, "target_accept"),
    (AdjustedMCLMC, {"length": -1.0}, "length"),
    (AdjustedMCLMC, {"max_steps": 0}, "max_steps"),
    (AdjustedMCLMC, {"preconditioning": "dense"}, "dense"),
    (MCLMC, {"step_size": 0.0}, "step_size"),
    (MCLMC, {"steps_per_draw": 0}, "steps_per_draw"),
    (MCLMC, {"length": -1.0}, "length"),
    (MCLMC, {"energy_variance_end": 0.0}, "energy_variance_end"),
    (MCLMC, {"preconditioning": "dense"}, "dense"),
    (MCLMC, {"length_fraction": 0.2}, "add up to at most 1"),
    (MCLMC, {"variance_fraction": -0.1}, "variance_fraction"),
    (MCLMC, {"refreshments_per_length": 0}, "refreshments_per_length"),
    *[
        (ChEES, {name: -0.1}, name)
        for name in ("step_size", "trajectory_length", "target_accept", "learning_rate", "jitter")
    ],
    (ChEES, {"target_accept": 1.0}, "target_accept"),
    (ChEES, {"jitter": 1.5}, "jitter|between 0 and 1"),
    (ChEES, {"mass": "dense"}, '"fisher", not .dense'),
    *[
        (ParallelTempering, {"temperatures": ladder}, "must begin with 1")
        for ladder in ((), (1.0,), (2.0, 4.0), (1.0, 4.0, 2.0), (1.0, 1.0))
    ],
    (ParallelTempering, {"temperatures": (1.0, float("inf"))}, "temperatures"),
    (ParallelTempering, {"num_leapfrogs": 0}, "num_leapfrogs"),
    (ParallelTempering, {"step_size": 0}, "step_size"),
    (ParallelTempering, {"target_accept": 1.0}, "target_accept"),
    *[(TemperedSMC, {name: 0}, name) for name in ("runs", "moves", "max_leapfrogs")],
    *[(TemperedSMC, {name: 1.0}, name) for name in ("effective_share", "target_accept")],
    *[(WALNUTS, {name: 0.0}, name) for name in ("step_size", "energy_range", "target_accept")],
    (WALNUTS, {"target_accept": 1.0}, "target_accept"),
    (WALNUTS, {"max_halvings": -1}, "max_halvings"),
    (WALNUTS, {"max_leapfrogs": 0}, "max_leapfrogs"),
    (WALNUTS, {"mass": "dense"}, '"fisher", not .dense'),
    (SGHMC, dict(batch_size=4), "one of two ways"),
    (SGHMC, dict(batch_size=4, step_size=1e-4, learning_rate=1e-2), "one of two ways"),
    (SGHMC, STEP | {"momentum_decay": 1.0}, "momentum_decay"),
    (SGHMC, dict(batch_size=4, learning_rate=-1.0), "learning_rate"),
    (SGHMC, STEP | {"step_size": -1.0}, "must be positive"),
    (SGMCLMC, STEP | {"momentum_decay": 1.0}, "momentum_decay"),
    *[(SGMCLMC, STEP | {"max_angle": angle}, "max_angle") for angle in (0.0, 2.0)],
    (SGMCLMC, STEP | {"temperature": 0.0}, "temperature"),
    (SGMCLMC, STEP | {"temperature": bnn.schedules.Ramp(1.0, 10)}, "temperature"),
    (SGNHT, STEP | {"integrator": "Euler"}, "integrator.*Did you mean `euler`"),
    (SGNHT, STEP | {"thermostat_mass": 0.0}, "thermostat_mass"),
    (SGNHT, STEP | {"momentum_decay": -0.1}, "momentum_decay"),
    (SGNHT, STEP | {"temperature": 0.0}, "temperature"),
    (ATMC, STEP | {"thermostat_mass": -1.0}, "thermostat_mass"),
    (Langevin, STEP | {"integrator": "BABO"}, "integrator.*Did you mean"),
    (Langevin, STEP | {"momentum_decay": 1.0}, "momentum_decay"),
    (Langevin, STEP | {"momentum_decay": 0, "integrator": "position_verlet"}, "momentum_decay"),
    (
        Langevin,
        STEP | {"momentum_decay": 0.5, "integrator": "leimkuhler_matthews"},
        "would change nothing",
    ),
    (BiasedMinibatchHMC, STEP | {"num_leapfrogs": 0}, "num_leapfrogs"),
]
WRONG_TYPES = [
    (HMC, LEAPFROGS | {"adapt_step_size": 1}, "True or False"),
    (HMC, {"num_leapfrogs": 2.5}, "num_leapfrogs"),
    (MALA, {"adapt_step_size": None}, "adapt_step_size"),
    (AdjustedMCLMC, {"adapt_step_size": 1}, "adapt_step_size"),
    (MCLMC, {"adapt_step_size": 1}, "adapt_step_size"),
    (ChEES, {"max_leapfrogs": 2.5}, "max_leapfrogs"),
    (WALNUTS, {"max_halvings": 2.5}, "max_halvings"),
    (WALNUTS, {"adapt_step_size": 1}, "adapt_step_size"),
    (ParallelTempering, {"temperatures": 3.0}, "must be a sequence"),
    (ParallelTempering, {"temperatures": "12"}, "must be a sequence"),
]


@pytest.mark.parametrize(
    ("kernel", "settings", "words", "error"),
    [(*row, ValueError) for row in REFUSED] + [(*row, TypeError) for row in WRONG_TYPES],
)
def test_bad_settings_are_refused(kernel, settings, words, error):
    with pytest.raises(error, match=words):
        kernel(LINEAR, **settings)


@pytest.mark.parametrize("kernel", [HMC, ChEES])
def test_what_is_no_model_is_refused(kernel):
    with pytest.raises(TypeError, match=f"{kernel.__name__} takes a NumPyro model"):
        kernel(3)


@pytest.mark.parametrize("kernel", [MCLMC, AdjustedMCLMC])
def test_one_coordinate_is_too_few_for_microcanonical_dynamics(kernel):
    def one_coordinate(x, y=None, *, batch_size=None):
        numpyro.sample("theta", dist.Normal(0.0, 1.0))
        unrelated_data(x, y, batch_size)

    with pytest.raises(ValueError, match="at least two unconstrained coordinates.*Use NUTS"):
        bnn.sample(kernel(one_coordinate), *NO_DATA, warmup=5, draws=5, **SETTINGS)


STATES = {
    hmc.HMC: hmc.HMCState,
    chees.ChEES: chees.ChEESState,
    parallel_tempering.ParallelTempering: parallel_tempering.ParallelTemperingState,
    tempered_smc.TemperedSMC: tempered_smc.TemperedSMCState,
    mclmc.MCLMC: mclmc.MCLMCState,
    walnuts.WALNUTS: walnuts.WALNUTSState,
    MetropolisKernel: MetropolisState,
    StochasticGradientKernel: StochasticGradientState,
}


@pytest.mark.parametrize(("kernel", "state"), STATES.items(), ids=lambda kind: kind.__name__)
def test_fields_of_a_state_under_numpyro(kernel, state):
    """One that it has not is named: NumPyro would say that indices are integers."""
    one = state(*range(len(state._fields) - 1), {"energy": 3})
    with pytest.raises(ValueError, match=rf"{state.__name__} has no field `momenta`.*All of them"):
        nested_attrgetter("momenta")(one)
    assert nested_attrgetter("z", "energy")(one) == (one.z, one.statistics["energy"]) == (0, 3)
    assert one[0] == 0 and one[-2:] == tuple(one)[-2:] and pickle.loads(pickle.dumps(one)) == one
    assert type(jax.tree.map(lambda leaf: leaf + 1, one)) is state
    # Divergences are collected unasked wherever they are counted.
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
