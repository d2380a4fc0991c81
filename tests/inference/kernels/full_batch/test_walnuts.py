"""WALNUTS: macro steps in as few leapfrogs as hold the energy, and orbits that leave them alone."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.full_batch.macro_steps import MacroSteps, Place
from bayesnn_ppl.inference.kernels.full_batch.orbits import orbit
from bayesnn_ppl.inference.kernels.full_batch.walnuts import WALNUTS
from tests.inference.kernels.invariance import (
    LIMIT,
    largest,
    model,
    posterior_draws,
    transitions,
    z_scores,
)
from tests.inference.kernels.known_moments import (
    LINEAR,
    NO_DATA,
    closed_form,
    coefficients,
    unrelated_data,
)

INVERSE_MASS = np.array([0.7, 1.5, 0.4])
H, RANGE, HALVINGS = 1.2, 0.2, 4


# Half of the macro steps are of several leapfrogs.
LONG_STEPS = dict(
    step_size=1.0, energy_range=1.0, max_leapfrogs=4, mass="identity", adapt_step_size=False
)


def funnel(x, y=None, *, batch_size=None):
    """Neal's, of three coordinates."""
    v = numpyro.sample("v", dist.Normal(0.0, 2.0))
    with numpyro.plate("widths", 2):
        numpyro.sample("w", dist.Normal(0.0, jnp.exp(v / 2)))
    unrelated_data(x, y, batch_size)


def energy(vector, momentum):
    v, w = vector[0], vector[1:]
    potential = v**2 / 8 + (w**2).sum() / np.exp(v) / 2 + v
    return potential + 0.5 * (INVERSE_MASS * momentum**2).sum()


def gradient(vector):
    v, w = vector[0], vector[1:]
    return np.array([v / 4 - (w**2).sum() / np.exp(v) / 2 + 1, *(w / np.exp(v))])


def by_hand(vector, momentum, direction, count):
    """The end of `count` leapfrogs over a time H, and the range of the energy."""
    step = direction * H / count
    energies = [energy(vector, momentum)]
    for _ in range(count):
        momentum = momentum - step / 2 * gradient(vector)
        vector = vector + step * INVERSE_MASS * momentum
        momentum = momentum - step / 2 * gradient(vector)
        energies.append(energy(vector, momentum))
    return vector, momentum, max(energies) - min(energies)


def coarsest(vector, momentum, direction):
    """The smallest ℓ that holds the energy, and the end."""
    for halvings in range(HALVINGS + 1):
        *end, energy_range = by_hand(vector, momentum, direction, 2**halvings)
        if energy_range <= RANGE:
            return halvings, *end
    return HALVINGS + 1, *end


def test_a_macro_step_is_the_coarsest_that_holds_the_energy():
    """And it says so exactly where the way back takes another number of leapfrogs."""
    generator = np.random.default_rng(0)
    found, expected = [], []
    with jax.enable_x64(True):
        density = Density.at(funnel, NO_DATA, {}, {"v": jnp.zeros(()), "w": jnp.zeros(2)})

        @jax.jit
        def step(vector, momentum, direction):
            start = Place(vector, momentum, *density.gradient_and_terms(vector), jnp.zeros(()))
            macro = MacroSteps(density, start, H, INVERSE_MASS, RANGE, HALVINGS)
            return macro.step(start, direction)

        for _ in range(200):
            v = 2 * generator.normal()
            vector = np.array([v, *np.exp(v / 2) * generator.normal(size=2)])
            momentum = generator.normal(size=3) / np.sqrt(INVERSE_MASS)
            direction = generator.choice([-1.0, 1.0])
            made = step(vector, momentum, direction)
            halvings, end, end_momentum = coarsest(vector, momentum, direction)
            held = halvings <= HALVINGS
            back = coarsest(end, end_momentum, -direction)[0] if held else -1
            expected.append((halvings, held, held and back == halvings))
            found.append((int(made.halvings), bool(made.held), bool(made.reversible)))
            if held:
                np.testing.assert_allclose(made.end.vector, end, rtol=1e-8, atol=1e-8)
                np.testing.assert_allclose(made.end.momentum, end_momentum, rtol=1e-8, atol=1e-8)
                loss = energy(end, end_momentum) - energy(vector, momentum)
                np.testing.assert_allclose(made.end.loss, loss, atol=1e-8)
    assert found == expected
    levels, held, reversible = (np.array(column) for column in zip(*found, strict=True))
    # All kinds of macro steps were among them.
    assert len(np.unique(levels)) >= 5 and not held.all()
    assert 0.02 < np.mean(held & ~reversible) < 0.4


def test_orbits_are_as_long_as_those_of_numpyro(regression):
    """One leapfrog a macro step, whatever its energy: NUTS at the same step size and mass."""
    run = dict(warmup=0, draws=400, chains=4, seed=0, progress=False)
    settings = dict(step_size=0.02, adapt_step_size=False)
    ours = WALNUTS(LINEAR, energy_range=1e9, mass="identity", **settings)
    theirs = NUTS(LINEAR, adapt_mass_matrix=False, **settings)
    found = [
        bnn.sample(kernel, *regression, **run).statistics["n_steps"][:, 100:].astype(float)
        for kernel in (ours, theirs)
    ]
    means = [np.log2(steps).mean() for steps in found]
    # Their criterion takes the momenta's sum for the distance of the ends, ours the distance.
    assert means[1] > 3 and abs(means[0] - means[1]) < 0.1, means


class Irreversible(WALNUTS):
    """A kernel of its own, so that no program compiled for another is taken for it."""


@pytest.mark.check
def test_macro_steps_that_lead_back_another_way_would_change_the_posterior(monkeypatch):
    """Were they used; `test_invariance` has the kernel as it is, at the same settings."""
    step = MacroSteps.step

    def always(*args):
        made = step(*args)
        return made._replace(reversible=made.held)

    monkeypatch.setattr(MacroSteps, "step", always)
    starts = posterior_draws(16_000)
    end, _ = transitions(Irreversible(model, **LONG_STEPS), starts, draws=10)
    assert largest(z_scores(starts, end)) > LIMIT


@pytest.mark.parametrize("v", [-30.0, 0.0])
def test_an_orbit_without_a_usable_step_stays_where_it_is(v):
    """As in a neck where even the finest leapfrogs lose the energy."""
    density = Density.at(funnel, NO_DATA, {}, {"v": jnp.zeros(()), "w": jnp.zeros(2)})
    vector = jnp.array([v, 1.0, 1.0])

    @jax.jit
    def draw(key):
        start = Place(vector, jnp.ones(3), *density.gradient_and_terms(vector), jnp.zeros(()))
        macro = MacroSteps(density, start, 0.1, 1.0, 0.3, 3)
        return orbit(start, key, macro.step, max_leapfrogs=8)

    made = draw(jax.random.key(0))
    if v == 0:
        assert not made.tally.failed and made.tally.accept > 2 and made.leapfrogs >= 8
        return
    np.testing.assert_array_equal(made.chosen.vector, vector)
    assert made.tally.failed and made.tally.macro_steps == 1 and made.tally.accept == 0
    assert made.tally.gradients == 4  # each attempt is given up at its first leapfrog


def test_a_chain_falls_from_a_start_where_float32_cannot_hold_the_energy(regression):
    """U there is near 1e9, so H is known to within 64, and has to vary by 1 at most after it."""
    far = {"net.Dense_0.kernel": np.full((2, 1), 3e3), "net.Dense_0.bias": np.full(1, 3e3)}
    posterior = bnn.sample(
        WALNUTS(LINEAR), *regression, warmup=150, draws=100, chains=2, seed=0, init=far,
        progress=False,
    )  # fmt: skip
    theta = coefficients(posterior)
    mean, covariance = closed_form(*regression)
    assert (abs(theta - mean) < 6 * np.sqrt(np.diag(covariance))).all()
    assert (posterior.statistics["step_size"] > 0.1).all()


def test_the_warm_up_takes_long_steps_for_a_low_acceptance(regression):
    """In three dimensions a macro step or two make an orbit, and the target is met roughly."""
    found = []
    for target in (0.5, 0.95):
        mcmc = MCMC(
            WALNUTS(LINEAR, target_accept=target),
            num_warmup=400,
            num_samples=300,
            num_chains=2,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(jax.random.key(0), *regression, extra_fields=("unhalved", "step_size"))
        fields = mcmc.get_extra_fields()
        found.append((fields["unhalved"].mean(), fields["step_size"].mean()))
    (low, long), (high, short) = found
    assert 0.3 < low < 0.7 < 0.9 < high and long > 1.5 * short, found
