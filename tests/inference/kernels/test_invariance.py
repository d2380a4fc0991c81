"""Every kernel with an accept step leaves the posterior unchanged; the bias of others is theirs."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
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
    DiscreteHMCGibbs,
    Gibbs,
    HMCGibbs,
    MixedHMC,
)
from numpyro.infer.mcmc import MCMCKernel

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.common.model_kernel import has_accept_step
from tests.inference.kernels.full_batch.test_walnuts import LONG_STEPS
from tests.inference.kernels.invariance import (
    LIMIT,
    ROWS,
    largest,
    model,
    posterior_draws,
    transitions,
    z_scores,
)

COUNT = 16_000
WRONG = {"prior sd": {"prior_sd": 1.05}, "T": {"temperature": 0.95}, "batch": {"likelihood": 0.95}}
kernels = bnn.kernels


def nuts():
    return NUTS(
        model, step_size=0.2, adapt_step_size=False, adapt_mass_matrix=False, max_tree_depth=4
    )


class StartedTempering(kernels.ParallelTempering):
    """A ladder of two whose hot replicas start at exact draws of their own temperature."""

    def _start(self, key, z, density):
        draws = posterior_draws(COUNT, seed=5, temperature=1.5)
        # Unconstrained, in the order of the sites' names.
        hot = np.stack([draws["b"], np.log(draws["scale"]), draws["v"], draws["w"]], axis=1)
        chosen = jax.random.randint(jax.random.fold_in(key, 1), (), 0, COUNT)
        return super()._start(key, z, density)._replace(hot=jnp.asarray(hot)[chosen][None])


class UnequalMass(kernels.HMC):
    """As after a warm-up, of which there is none here."""

    def _start(self, key, z, density):
        mass = jnp.array([0.5, 1.0, 2.0, 1.5])
        return super()._start(key, z, density)._replace(inverse_mass=mass)


# How long trajectories are, jitter, mass, rows at once, and whether the step has been adapted: each
# pair of options once at least.
HMC_OPTIONS = (
    ("num_leapfrogs", 0.0, "identity", None, False),
    ("num_leapfrogs", 0.5, "diagonal", 4, True),
    ("trajectory_length", 0.0, "diagonal", 4, False),
    ("trajectory_length", 0.5, "identity", None, True),
    ("prior_variance", 0.5, "diagonal", None, False),
    ("prior_variance", 0.0, "identity", 4, True),
)


def hmc(length, jitter, mass, rows_at_once, adapt):
    value = {"num_leapfrogs": 8, "trajectory_length": 0.96, "prior_variance": 0.37}[length]
    make = UnequalMass if mass == "diagonal" else kernels.HMC
    return make(
        model,
        step_size=0.12,
        jitter=jitter,
        mass=mass,
        rows_at_once=rows_at_once,
        adapt_step_size=adapt,
        **{length: value},
    )


EXACT = {
    "NUTS": (nuts, 5),
    **{f"HMC, {', '.join(map(str, row))}": (partial(hmc, *row), 12) for row in HMC_OPTIONS},
    "MALA": (lambda: kernels.MALA(model, step_size=0.02, adapt_step_size=False), 80),
    "RandomWalk": (lambda: kernels.RandomWalk(model, step_size=0.3, adapt_step_size=False), 80),
    "ChEES": (lambda: kernels.ChEES(model, step_size=0.15, trajectory_length=1.0), 10),
    "AdjustedMCLMC": (
        lambda: kernels.AdjustedMCLMC(model, step_size=0.3, length=1.5, adapt_step_size=False),
        8,
    ),
    "WALNUTS": (lambda: kernels.WALNUTS(model, **LONG_STEPS), 5),
    "OBABO": (
        lambda: kernels.OBABO(model, step_size=0.004, batch_size=3, steps_per_draw=5),
        20,
    ),
    "ParallelTempering": (
        lambda: StartedTempering(model, temperatures=(1.0, 1.5), num_leapfrogs=8, step_size=0.12),
        12,
    ),
}


@pytest.mark.check
@pytest.mark.parametrize("name", EXACT)
def test_an_exact_kernel_leaves_the_posterior_unchanged(name):
    """And moves draws of a slightly wrong one: prior sd × 1.05, T = 0.95, likelihood × 0.95."""
    make, draws = EXACT[name]
    starts = posterior_draws(COUNT)
    end, moved = transitions(make(), starts, draws=draws)
    assert moved > 0.5, "a kernel that stands still shows nothing"
    scores = z_scores(starts, end)
    assert largest(scores) < LIMIT, scores
    found = {}
    for what, settings in WRONG.items():
        wrong = posterior_draws(COUNT, seed=1, **settings)
        found[what] = largest(z_scores(wrong, transitions(make(), wrong, draws=draws, seed=1)[0]))
    assert min(found.values()) > LIMIT, found


def small(name, step_size, steps, **settings):
    kernel = getattr(kernels, name)
    return kernel(model, step_size=step_size, batch_size=ROWS, steps_per_draw=steps, **settings)


# Kernel at a step and a number of steps: at a quarter of the step as much time takes four times
# the steps. Of momenta ε = h², so twice.
BIASED = {
    "SGLD": lambda e: small("SGLD", 4e-3 * e, round(40 / e)),
    "Leimkuhler-Matthews": lambda e: small(
        "Langevin", 2e-2 * e, round(8 / e), integrator="leimkuhler_matthews"
    ),
    "BAOAB": lambda e: small(
        "Langevin", 4e-2 * e, round(10 / e**0.5), integrator="BAOAB", momentum_decay=0.5
    ),
    "SGHMC": lambda e: small("SGHMC", 4e-3 * e, round(20 / e**0.5), momentum_decay=0.5),
    "SGMCLMC": lambda e: small("SGMCLMC", 4e-2 * e, round(20 / e**0.5), momentum_decay=0.5),
    "SGNHT": lambda e: small("SGNHT", 2e-2 * e, round(20 / e**0.5)),
    "ATMC": lambda e: small("ATMC", 1e-2 * e, round(20 / e**0.5)),
    "MCLMC": lambda e: kernels.MCLMC(
        model,
        step_size=0.6 * e**0.5,
        length=2.0,
        adapt_step_size=False,
        steps_per_draw=round(8 / e**0.5),
    ),
}


@pytest.mark.check
@pytest.mark.parametrize("name", BIASED)
def test_the_bias_without_an_accept_step_goes_with_the_step(name):
    """Seen at a long step; at a sixteenth of it gone, to what so many replications resolve."""
    starts = posterior_draws(COUNT)
    long, short = (
        z_scores(starts, transitions(BIASED[name](e), starts, draws=3)[0]) for e in (1.0, 1 / 16)
    )
    assert largest(long) > LIMIT + 2, long
    assert largest(short) < LIMIT, short


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        *[(make(), True) for make, _ in EXACT.values()],
        *[(make(1.0), False) for make in BIASED.values()],
        (HMC(model), True),
        (AIES(model), True),
        (HMCECS(NUTS(model)), False),
        (kernels.BiasedMinibatchMetropolis(model, step_size=1e-3, batch_size=3), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_kernel_says_whether_it_has_an_accept_step(kernel, expected):
    assert has_accept_step(kernel) is expected


class Foreign(MCMCKernel):
    """Of somebody else, with what a block of Gibbs needs."""

    sample_field = "z"
    model = staticmethod(model)
    init = sample = refresh = None

    def wrap_model(self, wrapper):
        return self


class Unadjusted(Foreign):
    accept_step = False


NUMPYRO = {
    "ESS": (lambda: ESS(model), True),
    "SA": (lambda: SA(model), True),
    "BarkerMH": (lambda: BarkerMH(model), True),
    "MixedHMC": (lambda: MixedHMC(HMC(model)), True),
    "HMCGibbs": (lambda: HMCGibbs(NUTS(model), lambda **_: {}, ["b"]), True),
    "DiscreteHMCGibbs": (lambda: DiscreteHMCGibbs(NUTS(model)), True),
    "DiscreteGibbs": (lambda: DiscreteGibbs(model), True),
    "Gibbs": (lambda: gibbs(NUTS(model)), True),
    "Gibbs with an unadjusted block": (lambda: gibbs(Unadjusted()), False),
    "Gibbs with an unknown block": (lambda: gibbs(Foreign()), None),
    "foreign": (Unadjusted, False),
}


def gibbs(kernel):
    return Gibbs([(CustomGibbs(lambda **_: {}), ["b"]), (kernel, None)])


@pytest.mark.parametrize("name", NUMPYRO)
def test_a_kernel_of_numpyro_is_as_exact_as_its_blocks(name):
    make, expected = NUMPYRO[name]
    assert has_accept_step(make()) is expected


def test_a_foreign_kernel_may_say_so():
    foreign = type("Foreign", (), {})()
    assert has_accept_step(foreign) is None
    foreign.accept_step = True
    assert has_accept_step(foreign) is True
