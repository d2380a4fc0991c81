"""The ladder: on chains whose distribution is known in place of runs, and once on a real kernel."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels import ATMC, SGHMC, SGLD, SGNHT, Langevin
from bayesnn_ppl.inference.kernels.stochastic_gradient.preconditioners import RMSProp
from bayesnn_ppl.inference.schedules.simple import Polynomial
from bayesnn_ppl.inference.step_size_search import search
from bayesnn_ppl.inference.step_size_search.pilots import Pilots, pilot_kernel
from bayesnn_ppl.inference.step_size_search.search import find_step_size
from bayesnn_ppl.plots import plot_step_sizes
from tests.diagnostics.temperature.euler_chains import PRECISION, split
from tests.diagnostics.temperature.euler_chains import run as euler
from tests.diagnostics.temperature.test_verdict import read

ROWS = 200
_generator = np.random.default_rng(0)
X = _generator.normal(size=(ROWS, 6)).astype(np.float32)
Y = (X @ np.ones(6) + _generator.normal(size=ROWS)).astype(np.float32)

# F = 1/(1 - ελ/3.8) of the stiffest array; a search ends where it is 0.1, and what two
# refinements leave open.
STIFFEST = max(part.mean() for part in split(PRECISION).values())


def model(x, y=None, *, batch_size=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([6]).to_event(1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(x @ weights, 1.0), obs=y)


def kernel(**settings):
    return SGHMC(model, **({"step_size": 0.02, "batch_size": 20} | settings))


@pytest.fixture
def simulated(monkeypatch):
    """Pilots are chains of symplectic Euler; steps above 0.2 are not finite."""

    class Calls(list):
        noise, resolution = 1.0, None

    calls = Calls()

    class Pilots:
        start = {"here": np.zeros((4, 1))}

        def __init__(self, kernel, x, y, **_):
            pass

        def run(self, step_size, draws, *, keep_every, state):
            calls.append((step_size, draws, state))
            chain = euler(len(calls), step_size=min(step_size, 0.2), draws=draws, noise=calls.noise)

            def temperatures(**settings):
                if calls.resolution is not None:
                    settings["resolution"] = calls.resolution
                return read(chain, positions=False, **settings)

            statistics = {"stopped": np.full((4, draws), step_size > 0.2)}
            return SimpleNamespace(statistics=statistics, temperatures=temperatures), object()

    monkeypatch.setattr(search, "Pilots", Pilots)
    return calls


def test_from_too_long_a_step_down_and_then_between(simulated):
    """At κ = ελ the excess of the stiffest array is known: the ladder must stop where it says."""
    lines = []
    with pytest.warns(UserWarning, match="times as long: draws at it are spread wider"):
        found = find_step_size(kernel(step_size=0.64), X, Y, draws=200, report=lines.append)
    assert found.ladder[0].status == "not finite" and found.ladder[-1].passed
    assert found.step_size == max(run.step_size for run in found.ladder if run.passed)
    assert 0.05 < found.step_size * STIFFEST / 3.8 < 0.3
    assert found.kernel.step_size == found.step_size and found.kernel.model is model
    # The first begins where the way to the posterior ended, others where the last that passed did:
    # hot chains take longer to cool by a short step than a pilot lasts.
    assert simulated[0][2] is None
    passed = {run.step_size: run.passed for run in found.ladder}
    for (step, _, here), (_, _, there) in pairwise(simulated):
        assert (there is here) == (not passed[step])
    assert len(lines) == len(found.ladder) <= 6 and "<- chosen" in str(found)
    for value, error in found.zero_step.values():
        assert abs(value - 1) < 4.5 * error + 0.03
    figure = plot_step_sizes(**found.arrays())
    assert figure.axes[0].get_legend() is not None


def test_from_too_short_a_step_up(simulated):
    with pytest.warns(UserWarning, match="times shorter: chains at it move more slowly"):
        found = find_step_size(kernel(step_size=0.01), X, Y, draws=200)
    assert "times shorter" in str(found).replace("\n", " ")
    steps = [step for step, _, _ in simulated]
    assert steps[:2] == pytest.approx([0.01, 0.08]) and max(steps) <= 0.64
    assert 0.05 < found.step_size * STIFFEST / 3.8 < 0.3


def test_a_ladder_is_gone_down_until_one_passes(simulated):
    found = find_step_size(kernel(), X, Y, step_sizes=[0.001, 0.02, 0.3], draws=200)
    assert [run.step_size for run in found.ladder] == [0.3, 0.02]
    assert found.step_size == 0.02 and "largest that was tried" not in found.sentence
    best = found.ladder[-1]
    assert f"{best.coldest:.3g} to {best.hottest:.3g} T in {best.draws} draws" in found.sentence


def test_a_pilot_that_cannot_tell_is_run_for_longer(simulated):
    simulated.resolution = 0.02
    found = find_step_size(kernel(), X, Y, step_sizes=[0.02], draws=16)
    assert [draws for _, draws, _ in simulated] == [16, 32, 64, 128, 256]
    assert found.step_size is None and "too short to tell" in found.sentence
    assert "None" not in str(found)


def test_a_fault_that_no_step_size_cures_is_said(simulated):
    simulated.noise = 0.5**0.5
    found = find_step_size(kernel(), X, Y, step_sizes=[0.02, 0.005], draws=200)
    assert found.step_size is None and found.kernel is None
    assert "the step is not what is wrong" in found.sentence
    for value, error in found.zero_step.values():
        assert abs(value - 0.5) < 4.5 * error + 0.05


def test_learning_rates_are_found_as_step_sizes(simulated):
    rate = SGHMC(model, learning_rate=0.02 * ROWS, batch_size=20)
    found = find_step_size(rate, X, Y, draws=200)
    assert 0.02 in [pytest.approx(run.step_size) for run in found.ladder]
    assert rate.learning_rate == 0.02 * ROWS and found.kernel.learning_rate is None


@pytest.mark.parametrize(
    ("kernel", "decay"),
    [
        (SGLD(model, step_size=0.02, batch_size=20, preconditioner=RMSProp(mode="corrected")), 0),
        (Langevin(model, step_size=0.02, batch_size=20, integrator="leimkuhler_matthews"), 0),
        (Langevin(model, step_size=0.02, batch_size=20, momentum_decay=0.99), 0.99),
        (SGNHT(model, step_size=0.02, batch_size=20, temperature=0.5), 0.9),
        (ATMC(model, step_size=0.02, batch_size=20), 0.9),
    ],
)
def test_every_kernel_is_tried_as_sghmc_and_found_as_itself(simulated, kernel, decay):
    """Of which the momenta tell; those of a thermostat read T whatever the step."""
    pilot = pilot_kernel(kernel, 0.02)
    assert isinstance(pilot, SGHMC) and pilot.momentum_decay == decay
    assert pilot.steps_per_draw == (200 if decay == 0.99 else 20)
    assert pilot.posterior_temperature == kernel.posterior_temperature
    found = find_step_size(kernel, X, Y, step_sizes=[0.02], draws=200)
    assert type(found.kernel) is type(kernel) and found.kernel.step_size == 0.02
    assert found.kernel.preconditioner == kernel.preconditioner


def test_refusals():
    with pytest.raises(TypeError, match="takes a stochastic-gradient kernel"):
        find_step_size(NUTS(model), X, Y)
    with pytest.raises(ValueError, match="is the schedule"):
        find_step_size(SGLD(model, step_size=Polynomial(1e-4, 10), batch_size=20), X, Y)
    with pytest.raises(ValueError, match=r"`step_sizes\[1\]`"):
        find_step_size(kernel(), X, Y, step_sizes=[0.1, -1.0])
    with pytest.raises(ValueError, match="is empty"):
        find_step_size(kernel(), X, Y, step_sizes=[])


def noisy(x, y=None, *, batch_size=None):
    """As the zoo's regressions: a noise scale near 0 makes the gradient enormous."""
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([6]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(x @ weights, scale), obs=y)


@pytest.mark.check
def test_pilots_of_all_steps_are_sghmc_in_one_program():
    """From one start, the draws of SGHMC of that step; from a state, the draws that follow."""
    made = Pilots(kernel(), X, Y, warmup=20, chains=2, seed=3, float64=True, init=None)
    compiled = []
    for step in (1e-4, 1e-3):
        pilot, end = made.run(step, 12, keep_every=1, state=None)
        compiled.append(pilot.provenance["seconds"]["compile"] > 0)
        twice, _ = made.run(step, 3, keep_every=1, state=end)
        compiled.append(twice.provenance["seconds"]["compile"] > 0)
        whole = bnn.sample(
            kernel(step_size=step, steps_per_draw=20),
            X, Y, warmup=5, draws=20, chains=2, seed=4, init=made.start, float64=True,
            progress=False,
        )  # fmt: skip
        assert (pilot.statistics["step_size"] == np.float64(step)).all()
        np.testing.assert_allclose(pilot.draws["weights"], whole.draws["weights"][:, :12])
        # After the warm-up, of 5 draws, that each pilot has.
        np.testing.assert_allclose(twice.draws["weights"], whole.draws["weights"][:, 17:])
    assert compiled == [True, False, False, False]


def test_on_a_real_kernel_whose_chains_start_where_no_step_holds():
    """Noise of B = 20 of 200 rows heats by ε·C/(2(1-β)), C ≈ 2000: 0.1 at ε = 1e-5.

    At the start the gradient is a million times that of the posterior, and ε = 3e-6 far too long.
    """
    start = {"weights": np.full((4, 6), -3.0), "scale": np.full(4, 1e-3)}
    with pytest.warns(UserWarning, match="6667 times as long"):
        found = find_step_size(
            SGHMC(noisy, step_size=0.02, batch_size=20), X, Y, step_sizes=[6e-5, 3e-6], init=start
        )
    assert [run.status for run in found.ladder] == ["too hot", "right"]
    assert found.step_size == 3e-6
    assert found.ladder[0].hottest > 1.3
