"""Schedules give the values of their formulas, and cycles end where draws are taken."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bayesnn_ppl.inference.schedules.simple import (
    Constant,
    CosineBurnIn,
    Cyclical,
    LastPart,
    Polynomial,
    Ramp,
    arrival,
    check_schedule,
    csgmcmc,
    evaluate,
    reference,
)

CYCLE = Cyclical(0.1, steps_per_cycle=8)


def cosine(part):
    return (1 + math.cos(math.pi * part)) / 2


@pytest.mark.parametrize(
    ("schedule", "formula", "stated_at"),
    [
        (Constant(0.2), lambda k: 0.2, 0.2),
        (CosineBurnIn(0.9, 0.1, 4), lambda k: 0.1 + 0.8 * cosine(min(k / 4, 1)), 0.1),
        (Polynomial(0.2, 5.0, 0.6), lambda k: 0.2 * (1 + k / 5) ** -0.6, 0.2),
        (CYCLE, lambda k: 0.1 * cosine(k % 8 / 8) ** 2, 0.1),
        (Cyclical(0.1, 8, power=1), lambda k: 0.1 * cosine(k % 8 / 8), 0.1),
        (Ramp(2.0, 4, initial=0.5), lambda k: 0.5 + 1.5 * min(k / 4, 1), 2.0),
        (LastPart(8, 0.25), lambda k: float(k % 8 >= 6), 1.0),
        (LastPart(8, 0.01), lambda k: float(k % 8 == 7), 1.0),
        (0.3, lambda k: 0.3, 0.3),
        (optax.linear_schedule(1.0, 0.0, 10), lambda k: max(1 - k / 10, 0), 1.0),
        (optax.linear_schedule(0.1, 0.5, 10), lambda k: min(0.1 + 0.04 * k, 0.5), 0.5),
    ],
    ids=lambda value: type(value).__name__ if not callable(value) else getattr(value, "name", ""),
)
def test_values(schedule, formula, stated_at):
    """As they are called in a loop: with a traced integer, one at a time."""
    steps = jnp.arange(20)
    values = jax.jit(lambda: jax.lax.map(lambda step: evaluate(schedule, step), steps))()
    np.testing.assert_allclose(values, [formula(k) for k in range(20)], rtol=2e-5, atol=1e-7)
    assert values.dtype == jnp.float32
    assert reference(schedule) == pytest.approx(stated_at)
    if hasattr(schedule, "first"):
        assert schedule.first == pytest.approx(formula(0))


def test_a_momentum_decay_is_stated_at_the_largest_value_of_a_foreign_function():
    """Not at step 0, where a warm-up is next to nothing, and wherever the peak is."""
    for peak in (3, 777, 123_456):
        warming = optax.warmup_cosine_decay_schedule(1e-8, 1e-4, peak, 10 * peak)
        assert reference(warming) == pytest.approx(1e-4, rel=1e-3)
        assert jax.jit(lambda s=warming: reference(s))() == pytest.approx(1e-4, rel=1e-3)
    for growing in (lambda step: 1e-6 * (1 + step), lambda step: 1.01**step):
        with pytest.raises(ValueError, match="grows without end"):
            reference(growing)


@pytest.mark.parametrize(
    ("temperature", "ends"),
    [
        (optax.linear_schedule(0.1, 1.0, 100), 1.0),
        (optax.linear_schedule(0.0, 0.5, 10**6), 0.5),
        (optax.cosine_decay_schedule(1.0, 100), 0.0),
        (lambda step: jnp.asarray([1.0, 0.3])[jnp.clip(step // 50, 0, 1)], 0.3),
        (lambda step: jnp.take(jnp.asarray([0.7, 0.3]), step), 0.7),  # NaN beyond its table
        (Ramp(1.0, 100, 0.1), 1.0),
        (0.25, 0.25),
    ],
)
def test_a_temperature_counts_where_it_ends(temperature, ends):
    assert arrival(temperature) == pytest.approx(ends)


def test_robbins_monro():
    """Σε grows without end, Σε² does not: sums over decades of steps."""
    decades = [np.unique(np.logspace(k, k + 1, 2000).astype(int)) for k in (4, 5, 6)]
    for power in (0.55, 1.0):
        schedule = Polynomial(1.0, 10.0, power)
        sums = [np.trapezoid(np.asarray(schedule(k)), k) for k in decades]
        squares = [np.trapezoid(np.asarray(schedule(k)) ** 2, k) for k in decades]
        assert sums[2] > 0.99 * sums[1] > 0.98 * sums[0]
        assert squares[2] < 0.9 * squares[1] < 0.81 * squares[0]
    for power in (0.5, 1.1):
        with pytest.raises(ValueError, match="Robbins and Monro"):
            Polynomial(1.0, 10.0, power)


def test_draws_end_with_their_cycle():
    assert CYCLE.draws() == (8,)
    lengths = CYCLE.draws(3, apart=2)
    assert lengths == (4, 2, 2) and sum(lengths) == CYCLE.steps_per_cycle
    # The last step before each draw of two cycles: the draw at the end has the smallest step.
    ends = np.cumsum(lengths * 2) - 1
    steps = np.asarray(CYCLE(ends))
    assert (steps[[2, 5]] == np.asarray(CYCLE(jnp.arange(16))).min()).all()
    assert CYCLE.noise_at_end(0.5) == LastPart(8, 0.5)
    with pytest.raises(ValueError, match="do not fit into a cycle of 8 steps"):
        CYCLE.draws(5, apart=2)
    with pytest.raises(ValueError, match="need the steps between them"):
        CYCLE.draws(2)


def test_csgmcmc_as_its_authors_run_it():
    """Against their script, line by line: epochs, cycle, noise, and the scale of the noise."""
    rows, batch = 50000, 64
    with pytest.warns(UserWarning, match="temperature 2e-05: a cold posterior"):
        settings = csgmcmc(rows)
    steps = rows // batch
    assert settings["steps_per_draw"] == (48 * steps, steps, steps)
    assert settings["batch_size"] == batch and settings["minibatches"] == "epoch"
    counts = np.arange(200 * steps)
    epoch = counts // steps
    rate = 0.5 * (np.cos(np.pi * (counts % (50 * steps)) / (50 * steps)) + 1) * 0.5
    np.testing.assert_allclose(settings["step_size"](counts), rate / rows, atol=2e-12)
    np.testing.assert_array_equal(settings["noise"](counts), epoch % 50 + 1 > 45)
    # Their step of the position is √ε·m: its noise, with that of `m`, √(2T(1-β)).
    peak, decay = settings["step_size"].peak, settings["momentum_decay"]
    theirs = math.sqrt(2 * 0.5 * 0.9 * (1 / 50000) / rows)
    assert math.sqrt(peak * 2 * settings["temperature"] * (1 - decay)) == pytest.approx(theirs)


def test_csgmcmc_at_temperature_one_has_no_warning():
    assert csgmcmc(640, temperature=1.0)["temperature"] == 1.0
    with pytest.raises(ValueError, match="do not make 4 cycles of whole epochs. Take 200"):
        csgmcmc(640, epochs=202)
    with pytest.raises(ValueError, match="`batch_size` of csgmcmc must be below 641"):
        csgmcmc(640, batch_size=641)


@pytest.mark.parametrize("value", [0, 0.0, Ramp(1.0, 4), LastPart(8, 0.5), lambda step: 0.0])
def test_zero_only_where_it_is_allowed(value):
    assert check_schedule(value, "`noise` of SGLD", zero=True) is value
    with pytest.raises(ValueError, match="`noise` of SGLD.*must be positive"):
        check_schedule(value, "`noise` of SGLD")


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (-1.0, ValueError, "must be positive and finite, not -1.0"),
        (math.nan, ValueError, "must be positive and finite"),
        (True, TypeError, "must be a number, not True"),
        ("fast", TypeError, "must be a number, not 'fast'"),
        (lambda step: -step - 1.0, ValueError, "evaluated at step 0,.* not -1.0"),
        (lambda step: jnp.ones(3), TypeError, r"returns shape \(3,\)"),
        (lambda: 1.0, TypeError, "cannot be called with a step"),
        (lambda step: 1e-4 if step < 10 else 1e-5, TypeError, r"an `if`.*`jnp.where\(step < 10"),
        (lambda step: 1.0 / (1 + float(step)), TypeError, "cannot be compiled"),
        (lambda step: 1.0 / (1 + np.sqrt(step)), TypeError, "cannot be compiled"),
    ],
)
@pytest.mark.parametrize("zero", [False, True])
def test_what_is_no_schedule(value, error, words, zero):
    with pytest.raises(error, match=f"`step_size` of SGLD.*{words}"):
        check_schedule(value, "`step_size` of SGLD", zero=zero)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Constant(-1.0), "`value` of Constant"),
        (lambda: CosineBurnIn(1.0, 0.0, 5), "`final` of CosineBurnIn must be positive"),
        (lambda: CosineBurnIn(1.0, 0.1, 0), "`steps` of CosineBurnIn must be at least 1"),
        (lambda: Cyclical(0.1, 1), "`steps_per_cycle` of Cyclical must be at least 2"),
        (lambda: Cyclical(0.1, 8, power=3), "from 1 to 2, not 3"),
        (lambda: Ramp(1.0, 5, initial=-1.0), "`initial` of Ramp"),
        (lambda: LastPart(8, 1.5), "must be at most 1"),
    ],
)
def test_settings_out_of_range(make, words):
    with pytest.raises(ValueError, match=words):
        make()
